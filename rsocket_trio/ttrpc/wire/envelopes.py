"""Envelopes, the bodies of REQUEST and RESPONSE: from bytes and to bytes.

They are protobuf messages (proto3). Fields with default values are not sent.

Each envelope can be decoded in two ways. `decode_request` and `decode_response` first try the form
in which other implementations send nearly all envelopes: known fields, in the order of their
numbers, and short. At anything else they stop, and ``any_form`` decodes the envelope from its
beginning: it takes every legal form, and finds the reason if the envelope is malformed.
"""

from __future__ import annotations

from typing import Final, TypeVar

from rsocket_trio.errors import LocalProtocolError

from .any_form import any_request, any_response
from .messages import AnyMessage, Metadata, Request, Response, Status
from .protobuf import field, read_varint, varint

__all__ = [
    "REQUEST_PAYLOAD",
    "RESPONSE_PAYLOAD",
    "AnyMessage",
    "Metadata",
    "Request",
    "Response",
    "Status",
    "decode_request",
    "decode_response",
    "encode_ok",
    "encode_request",
    "encode_response",
]

_K = TypeVar("_K")
_V = TypeVar("_V")

REQUEST_PAYLOAD: Final = 0x1A
"""The tag of the payload of a Request."""

RESPONSE_PAYLOAD: Final = 0x12
"""The tag of the payload of a Response."""

_PAYLOAD: Final = (b"", *(bytes((0x12, size)) for size in range(1, 128)))
"""What stands before the payload of a Response, by its size."""

_KEPT: Final = 256
"""How many pairs of service and method are kept: more than one process usually has. A peer may send
others; it only makes the next calls slower."""

_LONGEST_HEAD: Final = 256
"""How long the fields of a pair may be together that is kept to be sent, in bytes. Those that
are received have at most 514, as their lengths are single bytes."""

_names: dict[bytes, tuple[str, str]] = {}  # The fields, as they are received: the texts.
_heads: dict[tuple[str, str], bytes] = {}  # The texts: the fields, as they are sent.


def encode_request(request: Request) -> bytes:
    """Return the body of a REQUEST.

    Raises:
        LocalProtocolError: A text cannot be written as UTF-8, or the timeout has more than 64 bits.
    """
    names = (request.service, request.method)
    head = _heads.get(names)
    if head is None:
        head = _text(1, names[0]) + _text(2, names[1])
        if len(head) <= _LONGEST_HEAD:
            _keep(_heads, names, head)
    tail = b"\x20" + _signed(request.timeout_nano, 64) if request.timeout_nano else b""
    if request.metadata:
        tail += b"".join(
            [field(5, _text(1, key) + _text(2, value)) for key, value in request.metadata]
        )
    payload = request.payload
    if not payload:
        return head + tail
    return b"".join((head, b"\x1a", varint(len(payload)), payload, tail))


def encode_ok(payload: bytes) -> bytes:
    """Return the body of a RESPONSE for success: as `encode_response` does, but faster."""
    size = len(payload)
    if size < 128:
        return _PAYLOAD[size] + payload
    return b"".join((b"\x12", varint(size), payload))


def encode_response(response: Response) -> bytes:
    """Return the body of a RESPONSE. A status is sent if there is one, even with the code 0.

    Raises:
        LocalProtocolError: A text cannot be written as UTF-8, or the code has more than 32 bits.
    """
    status = response.status
    if status is None:
        return encode_ok(response.payload)
    parts = []
    if status.code:
        parts.append(b"\x08" + _signed(status.code, 32))
    parts.append(_text(2, status.message))
    for detail in status.details:
        value = field(2, detail.value) if detail.value else b""
        parts.append(field(3, _text(1, detail.type_url) + value))
    return field(1, b"".join(parts)) + encode_ok(response.payload)


def _keep(kept: dict[_K, _V], key: _K, value: _V) -> None:
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = value


def _text(number: int, text: str) -> bytes:
    if not text:
        return b""
    try:
        return field(number, text.encode())
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a text cannot be sent as UTF-8: {error.reason}") from None


def _signed(value: int, bits: int) -> bytes:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise LocalProtocolError(f"{value} does not fit into the type int{bits}")
    return varint(value)


def decode_request(body: bytes, *, max_metadata: int, max_entries: int) -> Request:
    """Decode the body of a REQUEST.

    Args:
        body: The bytes behind the header.
        max_metadata: How many bytes the entries of metadata may have together, without the tag and
            the length of each.
        max_entries: How many entries of metadata there may be.

    Raises:
        MalformedFrame: The body is no Request; the text says where, and why.
        MetadataTooLarge: There is more metadata than the limits allow. Nothing is made of the entry
            that is too much, nor of those behind it.
    """
    names = None
    after = 0
    try:
        # Where the method ends, if it and the service come first and are short. If they do not,
        # this is the end of something else, and that is not among the names that are kept.
        after = body[1] + 4
        after += body[after - 1]
        names = _names.get(body[:after])
        if names is not None:
            request = _usual_request(names, body, after, max_metadata, max_entries)
            if request is not None:
                return request
    except (IndexError, ValueError):
        pass  # It is malformed, and `any_request` says why.
    request = any_request(body, max_metadata, max_entries)
    if names is None:
        head = _text(1, request.service) + _text(2, request.method)
        if len(head) == after and body.startswith(head):
            _keep(_names, head, (request.service, request.method))
    return request


def _usual_request(
    names: tuple[str, str], body: bytes, after: int, max_metadata: int, max_entries: int
) -> Request | None:
    """Decode the fields from ``after`` on. Return ``None`` if they do not have the usual form.

    Raises:
        IndexError: They do not.
        ValueError: They do not.
    """
    end = len(body)
    payload = b""
    timeout_nano = 0
    if after < end and body[after] == 0x1A:
        start = after + 2
        size = body[after + 1]
        if size > 127:
            size, start = read_varint(body, after + 1)
        after = start + size
        payload = body[start:after]
    if after < end and body[after] == 0x20:
        timeout_nano, after = read_varint(body, after + 1)
        if timeout_nano >> 63:
            timeout_nano -= 1 << 64
    if after == end:
        return Request(names[0], names[1], payload, timeout_nano)
    metadata: list[tuple[str, str]] = []
    while after < end and body[after] == 0x2A and len(metadata) < max_entries:
        size = body[after + 1]
        key = after + 4
        value = key + body[after + 3] + 2
        after += 2 + size
        max_metadata -= size
        if (
            size > 127
            or max_metadata < 0
            or body[key - 2] != 0x0A
            or body[value - 2] != 0x12
            or value + body[value - 1] != after
        ):
            return None
        metadata.append((body[key : value - 2].decode(), body[value:after].decode()))
    if after != end:
        return None
    return Request(names[0], names[1], payload, timeout_nano, tuple(metadata))


def decode_response(body: bytes) -> Response:
    """Decode the body of a RESPONSE.

    Args:
        body: The bytes behind the header. Without any it is a Response with default values.

    Raises:
        MalformedFrame: The body is no Response; the text says where, and why.
    """
    if not body:
        return Response()
    if body[0] == 0x12:
        try:
            start = 2
            size = body[1]
            if size > 127:
                size, start = read_varint(body, 1)
        except (IndexError, ValueError):
            pass  # It is malformed, and `any_response` says why.
        else:
            if start + size == len(body):
                return Response(None, body[start:])
    return any_response(body)
