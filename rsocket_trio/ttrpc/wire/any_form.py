"""Decodes envelopes in any legal form: `any_request`, `any_response`.

protobuf lets fields come in any order. Unknown ones are skipped; if a field comes twice, the last
one counts ("Last One Wins" in https://protobuf.dev/programming-guides/encoding/). A known field of
another wire type is refused: none of the peers sends it, and to skip it would hide a fault.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import MetadataTooLarge

from .messages import AnyMessage, Request, Response, Status
from .protobuf import FieldReader

__all__ = ["MAX_FIELDS", "any_request", "any_response"]

MAX_FIELDS: Final = 1000
"""How many fields an envelope may have, without those of metadata. Ten is usual. 4 MiB can hold two
million, and to read these takes a second or two, in which no other task runs."""

_FIELDS_OF_AN_ENTRY: Final = 3


def any_request(body: bytes, max_metadata: int, max_entries: int) -> Request:
    """Decode any legal Request; see `decode_request`."""
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
                        f"more than {max_entries} entries of metadata (max_metadata_entries)"
                    )
                outer = reader.enter("metadata")
                size += reader.size
                if size > max_metadata:
                    raise MetadataTooLarge(
                        f"more than {max_metadata} bytes of metadata (max_metadata_size)"
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


def any_response(body: bytes) -> Response:
    """Decode any legal Response; see `decode_response`."""
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
