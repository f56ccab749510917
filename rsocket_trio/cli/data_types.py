"""Data as people write and read it, by MIME type: `DataType`, `Answers`, `hint`.

People write and read JSON. It is sent as what the MIME type says, CBOR or JSON, and so are answers
shown. Data of other types are what was typed, and what came.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import cbor2

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.codecs.registry import explain
from rsocket_trio.errors import MetadataError, Unauthenticated
from rsocket_trio.escapes import escaped
from rsocket_trio.metadata import MIME, CompositeMetadata, DataMimeType
from rsocket_trio.metadata.mime_types import mime_type_name, same_mime_type

from .exits import DONE, PEER_ERROR, USAGE, Failure
from .output import json_text, one_line, render
from .payloads import read_bytes
from .standard_streams import print_error_bytes

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Payload

__all__ = ["Answers", "DataType", "hint"]

_MAX_READ: Final = 16 * 2**20
"""Bytes of an answer that is read as a value. JSON takes up to 24 times its size as objects."""

_MARKS: Final = ("{", "[", '"')
"""What begins with one of them is meant as JSON."""
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
"""A number of JSON (RFC 8259, section 6), which may be too large for one that is sent."""


class DataType:
    """Data of one MIME type.

    Args:
        mime_type: The MIME type.
        raw: The data are not converted, whatever the MIME type says.
    """

    def __init__(self, mime_type: str, *, raw: bool = False) -> None:
        self.mime_type: Final = mime_type
        form = None if raw else DEFAULT_CODECS.registered(mime_type)
        self._form: Final = form if form in {MIME.CBOR, MIME.JSON} else None

    def read(self, argument: str) -> bytes:
        """Return the data for an argument: of ``0xHEX`` its bytes, else as `sent` makes them.

        Raises:
            Failure: As for `read_bytes` and `sent`.
        """
        given = read_bytes(argument)
        return given if argument.startswith("0x") else self.sent(given)

    def sent(self, given: bytes) -> bytes:
        """Return the data for what somebody has written.

        For CBOR and JSON that is a JSON text, or a text that is no JSON, without quotes. Nothing is
        no data. For other types it is the data.

        Raises:
            Failure: It is neither text nor JSON, or the MIME type cannot hold it.
        """
        if self._form is None or not given:
            return given
        try:
            value = DEFAULT_CODECS.decode(given, Any, MIME.JSON)
            if self._form == MIME.JSON:
                return given
        except CodecError as error:
            value = _as_text(given, error)
        try:
            return DEFAULT_CODECS.encode(value, Any, self._form)
        except CodecError as error:
            raise Failure(f"the data cannot be sent: {error}", USAGE) from error

    def line(self, payload: Payload, *, as_json: bool, metadata_mime: str | None = None) -> bytes:
        """Return the output line of a payload: its data as JSON, or else as they are.

        Args:
            payload: The payload.
            as_json: See `render`.
            metadata_mime: See `render`.

        Raises:
            CodecError: The data are not of the MIME type, or larger than what is read.
        """
        value = None if self._form is None else self._json(payload.data, self._form)
        return render(payload, as_json=as_json, metadata_mime=metadata_mime, value=value)

    def _json(self, data: bytes, form: str) -> str:
        if not data:
            return "null"  # as `Codecs` reads it
        if len(data) > _MAX_READ:
            raise CodecError(f"more than {_MAX_READ // 2**20} MiB are not read as a value")
        value = DEFAULT_CODECS.decode(data, Any, form)
        if form == MIME.JSON:  # numbers keep their digits, and objects their order
            return one_line(data.decode())
        try:
            return json_text(_plain(value))
        except (ValueError, RecursionError) as error:
            raise CodecError(f"a value of {self.mime_type} cannot be shown as JSON") from error


def _as_text(given: bytes, error: CodecError) -> str:
    try:
        text = given.decode()
    except UnicodeDecodeError:
        raise Failure("the data are not UTF-8: --raw sends bytes as they are", USAGE) from error
    if text.lstrip().startswith(_MARKS) or _NUMBER.fullmatch(text.strip()):
        why = explain(error, "the data")
        advice = f"--data-mime {MIME.TEXT} sends text, --raw sends bytes"
        raise Failure(f"{why} ({advice})", USAGE) from error
    return text


def _plain(value: Any) -> Any:
    """Return a value out of CBOR as JSON can hold it; see docs/howto/command-line/data.md.

    RFC 8949, section 6.1, says the same for tags, and for what is no value.
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NO_NUMBERS.get(value, "NaN")
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        pairs = [(_key(_plain(key)), _plain(each)) for key, each in value.items()]
        found = dict(pairs)
        return found if len(found) == len(pairs) else pairs
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, cbor2.CBORTag):
        return _plain(value.value)
    if value is cbor2.undefined or isinstance(value, cbor2.CBORSimpleValue):
        return None
    try:
        text = DEFAULT_CODECS.encode(value, type(value), MIME.JSON)
        return DEFAULT_CODECS.decode(text, str, MIME.JSON)
    except CodecError:  # fractions, addresses, complex numbers
        return str(value)


_NO_NUMBERS: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json_text(key)


class Answers:
    """Prints the answers of one request, and knows the exit status.

    An answer may name a MIME type of its own, which holds for those behind it too. One that is not
    of its type is printed as it came, and the first of these is reported.

    Attributes:
        status: `DONE`, or `PEER_ERROR` after an answer that is not of its type.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._type = DataType(args.data_mime, raw=args.raw)
        self._raw = args.raw
        self._form: Final[dict[str, Any]] = {
            "as_json": args.json,
            "metadata_mime": args.metadata_mime,
        }
        self._composite = same_mime_type(args.metadata_mime, MIME.COMPOSITE_METADATA)
        self.status = DONE

    def line(self, answer: Payload) -> bytes:
        """Return the output line of one answer, with its line end."""
        try:
            if answer.metadata and self._composite:
                self._read_type(answer.metadata)
            return self._type.line(answer, **self._form)
        except (CodecError, MetadataError) as error:
            self._refused(error)
            return render(answer, **self._form)

    def _read_type(self, metadata: bytes) -> None:
        try:
            found = CompositeMetadata.decode(metadata).first(MIME.MIME_TYPE)
        except MetadataError:
            return  # The answer may have other metadata. They are printed, but not read.
        if found is not None:
            name = mime_type_name(DataMimeType.decode(found).mime_type)
            self._type = DataType(name, raw=self._raw)

    def _refused(self, error: Exception) -> None:
        if self.status == DONE:
            self.status = PEER_ERROR
            print_error_bytes(
                f"rsocket-trio: error: an answer is printed as it came: {escaped(str(error))}"
                f" (--data-mime {MIME.TEXT} reads text, --raw prints all as it comes)\n".encode()
            )


_ABOUT_TYPES: Final = re.compile(
    r"cannot read|codec|(?:content|media|mime).?type|decod|deserial|no reader|pars(?:e|ing)"
    r"|unmarshal|utf-?8|failed to read",
    re.IGNORECASE,
)
"""Words of peers that could not read the data. Each implementation has its own."""

_NOT_TEXT: Final = re.compile(r"expects str\b(?! for its variable)|expected str, got")


_NO_ROUTE: Final = re.compile(r"without a route|destination ''")
_NO_HANDLER: Final = re.compile(r"\bno \S*\s?handler\b", re.IGNORECASE)
_WHO: Final = re.compile(r"access denied|unauth|not authenticated|log ?in\b", re.IGNORECASE)


def hint(error: Exception, args: argparse.Namespace) -> str:
    """Return which options may help against an error of the peer, or an empty text."""
    text = str(error)
    if _NOT_TEXT.search(text) and args.data_mime != MIME.TEXT:
        return """ (quotes make text of a number or of nothing: '"5"', '""')"""
    if _NO_ROUTE.search(text):
        return " (--route ROUTE)"
    if args.command == "routes" and _NO_HANDLER.search(text):
        return " (routes asks a Router that includes Router.introspection: --prefix)"
    if isinstance(error, Unauthenticated) or _WHO.search(text):
        given = args.auth_simple or args.auth_bearer
        return "" if given else " (--auth-simple USER:PASSWORD or --auth-bearer TOKEN)"
    if not _ABOUT_TYPES.search(text):
        return ""
    others = [name for name in (MIME.CBOR, MIME.JSON, MIME.TEXT) if name != args.data_mime]
    return f" (the data are {args.data_mime}; --data-mime may be {' or '.join(others)})"
