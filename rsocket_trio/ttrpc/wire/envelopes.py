"""The messages around those of an application: `Request` and `Response`.

Their fields are those of request.proto of ttrpc, and of google/rpc/status.proto. They are protobuf
messages (proto3): fields with default values are not sent, unknown fields are skipped, and if a
field comes twice, the last one counts.
"""

from __future__ import annotations

from typing import Final

import attrs

from rsocket_trio.errors import LocalProtocolError, MetadataTooLarge

from .protobuf import FieldReader, field, varint

__all__ = [
    "MAX_FIELDS",
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

Metadata = tuple[tuple[str, str], ...]
"""Pairs of key and value, in order. A key may come several times: then it has several values."""

MAX_FIELDS: Final = 1000
"""How many fields an envelope may have, without those of metadata. Ten is usual. 4 MiB can hold two
million, and to read these takes seconds, in which no other task runs."""

_FIELDS_OF_AN_ENTRY: Final = 3


@attrs.define(unsafe_hash=True)
class Request:
    """A call. A value: do not change one.

    Attributes:
        service: Full name of the service, e.g. ``containerd.task.v2.Task``.
        method: Name of the method alone.
        payload: The message of the application.
        timeout_nano: How long the caller waits, in nanoseconds. 0: there is no limit. A negative
            time is over already.
        metadata: Pairs of key and value, as they were sent.
    """

    service: str
    method: str
    payload: bytes = b""
    timeout_nano: int = 0
    metadata: Metadata = ()


@attrs.define(unsafe_hash=True)
class AnyMessage:
    """A message of any type: google.protobuf.Any. A value: do not change one.

    Attributes:
        type_url: Names the type, e.g. ``type.googleapis.com/google.rpc.RetryInfo``.
        value: The bytes of the message.
    """

    type_url: str
    value: bytes


@attrs.define(unsafe_hash=True)
class Status:
    """How a call ended: google.rpc.Status. A value: do not change one.

    Attributes:
        code: A code of gRPC, 0 for success. A peer may send any number of the type int32.
        message: Text for people.
        details: Messages for programs.
    """

    code: int
    message: str = ""
    details: tuple[AnyMessage, ...] = ()


@attrs.define(unsafe_hash=True)
class Response:
    """The end of a call. A value: do not change one.

    Attributes:
        status: ``None``, or one with the code 0: success. Go omits it then, Rust does not.
        payload: The message of the application; of no meaning without success.
    """

    status: Status | None = None
    payload: bytes = b""


def encode_request(request: Request) -> bytes:
    """Return the body of a REQUEST.

    Raises:
        LocalProtocolError: A text cannot be written as UTF-8, or the timeout has more than 64 bits.
    """
    parts = [_text(1, request.service), _text(2, request.method)]
    if request.payload:
        parts.append(field(3, request.payload))
    if request.timeout_nano:
        parts.append(b"\x20" + _signed(request.timeout_nano, 64))
    for key, value in request.metadata:
        parts.append(field(5, _text(1, key) + _text(2, value)))
    return b"".join(parts)


def encode_ok(payload: bytes) -> bytes:
    """Return the body of a RESPONSE for success: shorter than `encode_response`, and the same."""
    return field(2, payload) if payload else b""


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
    return _any_request(body, max_metadata, max_entries)


def _any_request(body: bytes, max_metadata: int, max_entries: int) -> Request:
    reader = FieldReader(body, "Request", MAX_FIELDS + max_entries * _FIELDS_OF_AN_ENTRY)
    service = method = ""
    payload = b""
    timeout_nano = size = 0
    metadata: list[tuple[str, str]] = []
    while number := reader.next():
        match number:
            case 1:
                service = reader.text("service")
            case 2:
                method = reader.text("method")
            case 3:
                payload = reader.blob("payload")
            case 4:
                timeout_nano = reader.int64("timeout_nano")
            case 5:
                if len(metadata) == max_entries:
                    raise MetadataTooLarge(
                        f"more than {max_entries} entries of metadata (max_entries)"
                    )
                outer = reader.enter("metadata")
                size += reader.size
                if size > max_metadata:
                    raise MetadataTooLarge(
                        f"more than {max_metadata} bytes of metadata (max_metadata)"
                    )
                metadata.append(_entry(reader))
                reader.leave(outer)
            case _:
                reader.skip()
    return Request(service, method, payload, timeout_nano, tuple(metadata))


def _entry(reader: FieldReader) -> tuple[str, str]:
    key = value = ""
    while number := reader.next():
        match number:
            case 1:
                key = reader.text("the key of metadata")
            case 2:
                value = reader.text("the value of metadata")
            case _:
                reader.skip()
    return key, value


def decode_response(body: bytes) -> Response:
    """Decode the body of a RESPONSE.

    Args:
        body: The bytes behind the header. Without any it is a Response with default values.

    Raises:
        MalformedFrame: The body is no Response; the text says where, and why.
    """
    return _any_response(body)


def _any_response(body: bytes) -> Response:
    reader = FieldReader(body, "Response", MAX_FIELDS)
    status: Status | None = None
    payload = b""
    while number := reader.next():
        match number:
            case 1:
                outer = reader.enter("status")
                status = _status(reader, status or Status(0))
                reader.leave(outer)
            case 2:
                payload = reader.blob("payload")
            case _:
                reader.skip()
    return Response(status, payload)


def _status(reader: FieldReader, before: Status) -> Status:
    # "Last One Wins": messages of one field are merged.
    code, message, details = before.code, before.message, list(before.details)
    while number := reader.next():
        match number:
            case 1:
                code = reader.int32("the code of status")
            case 2:
                message = reader.text("the message of status")
            case 3:
                outer = reader.enter("a detail of status")
                details.append(_any_message(reader))
                reader.leave(outer)
            case _:
                reader.skip()
    return Status(code, message, tuple(details))


def _any_message(reader: FieldReader) -> AnyMessage:
    type_url = ""
    value = b""
    while number := reader.next():
        match number:
            case 1:
                type_url = reader.text("the type of a detail")
            case 2:
                value = reader.blob("the value of a detail")
            case _:
                reader.skip()
    return AnyMessage(type_url, value)
