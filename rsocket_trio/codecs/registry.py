"""Which codec for which MIME type: `Codecs`."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from ..errors import RSocketError, StreamError
from .builtin import CborCodec, JsonCodec, OctetStreamCodec, TextCodec

__all__ = ["DEFAULT_CODECS", "Codec", "CodecError", "Codecs", "annotation_name"]

_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_NONE: Final = type(None)


class CodecError(RSocketError):
    """Data that cannot be converted; ``__cause__`` holds the details, where there are any.

    The text names types, never values: those are the peer's, and may be long or secret.
    """


class Codec(Protocol):
    """Converts the data of one MIME type. Whatever its methods raise becomes a `CodecError`.

    The annotation ``bytes`` never gets here: it means the data as it is.
    """

    def encode(self, value: Any, annotation: Any) -> bytes:
        """The data for ``value``, which is due to be of the annotated type."""

    def decode(self, data: bytes, annotation: Any) -> object:
        """The value of the annotated type in ``data``."""


class Codecs:
    """Codecs by MIME type.

    The case of a MIME type does not matter, nor do parameters behind a ``;``, but for a charset:
    text is UTF-8, and another charset is an error. The rules for every MIME type:

    * The annotation ``bytes`` (or ``bytes | None``) is the data as it is, both ways.
    * Empty data is ``None`` where the annotation allows that. ``None`` is written as the MIME
      type writes it (``null``); it is the router that makes a result of ``None`` an empty
      completion.
    * Data of a MIME type without a codec can be had as bytes only.

    Args:
        codecs: Codecs by MIME type, added to those that are built in (CBOR, JSON, text and
            octet-stream) or put in their place.
    """

    def __init__(self, codecs: Mapping[str, Codec] | None = None) -> None:
        self._codecs: dict[str, Codec] = {
            "application/cbor": CborCodec(),
            "application/json": JsonCodec(),
            "application/octet-stream": OctetStreamCodec(),
            "text/plain": TextCodec(),
        }
        for mime_type, codec in (codecs or {}).items():
            self._codecs[_essence(mime_type)] = codec

    @property
    def mime_types(self) -> Iterable[str]:
        """The MIME types there are codecs for, in lower case."""
        return tuple(sorted(self._codecs))

    def encode(self, value: object, annotation: Any, mime_type: str) -> bytes:
        """Convert a value to data.

        Raises:
            CodecError: The value cannot be written as this MIME type, or there is no such codec.
        """
        return self.encoder(annotation, mime_type)(value)

    def decode(self, data: bytes, annotation: Any, mime_type: str) -> object:
        """Convert data to a value of the annotated type.

        Raises:
            CodecError: The data are not of this MIME type, or not what the annotation says; or
                there is no such codec. Nothing else, whatever the data.
            StreamError: The constructor (a validator, ...) of the application's own class raised
                it, e.g. ``Invalid("age must be positive")``.
        """
        return self.decoder(annotation, mime_type)(data)

    def encoder(self, annotation: Any, mime_type: str) -> Callable[[Any], bytes]:
        """`encode` for many values of one annotation and MIME type, with all looked up once."""
        if _is_bytes(annotation):
            return _raw
        try:
            codec = self._find(mime_type)
        except CodecError as error:
            return _failing(error)

        def encode(value: Any) -> bytes:
            # Codecs meet values of any kind, and cattrs and cbor2 raise whatever these raise.
            try:
                return codec.encode(value, annotation)
            except Exception as error:
                kind = type(value).__name__
                raise CodecError(f"{kind} cannot be written as {mime_type}") from error

        return encode

    def decoder(self, annotation: Any, mime_type: str) -> Callable[[bytes], Any]:
        """`decode` for many data of one annotation and MIME type, with all looked up once."""
        if _is_bytes(annotation):
            return bytes
        try:
            codec = self._find(mime_type)
        except CodecError as error:
            return _failing(error)
        may_be_none = _allows_none(annotation)

        def decode(data: bytes) -> object:
            if may_be_none and not data:
                return None
            # The bytes are a stranger's. Whatever they bring out of a parser or of the
            # constructor of an application's class (RecursionError, OverflowError, ...) is the
            # stranger's mistake, and must not be taken for one of this program.
            try:
                return codec.decode(data, annotation)
            except StreamError:
                raise  # of the application's class, and meant for the stranger
            except Exception as error:
                raise CodecError(
                    f"{len(data)} bytes of {mime_type} are no {annotation_name(annotation)}"
                ) from error

        return decode

    def can_encode(self, annotation: Any, mime_type: str) -> bool:
        """Whether values of the annotated type can be written as this MIME type.

        Not so for bytes, which are not converted, and so are of the type they are.
        """
        if _is_bytes(annotation):
            return False
        try:
            codec = self._find(mime_type)
        except CodecError:
            return False
        return not isinstance(codec, OctetStreamCodec) or annotation is str

    def _find(self, mime_type: str) -> Codec:
        codec = self._codecs.get(_essence(mime_type))
        if codec is None:
            raise CodecError(
                f"there is no codec for {mime_type!r}, so its data are read and written as bytes "
                f"only; there are codecs for {', '.join(self.mime_types)}"
            )
        charset = _charset(mime_type)
        if charset not in _UTF_8:
            raise CodecError(f"text is UTF-8 here, not {charset!r}: {mime_type!r}")
        return codec


def annotation_name(annotation: Any) -> str:
    """The name of an annotated type as people write it: without the modules."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return re.sub(r"[\w.<>]+\.", "", str(annotation))


def _essence(mime_type: str) -> str:
    return mime_type.partition(";")[0].strip().lower()


def _charset(mime_type: str) -> str:
    for parameter in mime_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return "utf-8"


def _members(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _allows_none(annotation: Any) -> bool:
    return any(member in (None, _NONE) for member in _members(annotation))


def _is_bytes(annotation: Any) -> bool:
    members = _members(annotation)
    return bytes in members and all(member in (bytes, None, _NONE) for member in members)


def _raw(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise CodecError(f"bytes are due, not {type(value).__name__}")


def _failing(error: CodecError) -> Callable[[Any], Any]:
    # Made anew each time: a raised exception collects tracebacks.
    def fail(_: object) -> Any:
        raise CodecError(*error.args)

    return fail


DEFAULT_CODECS: Final = Codecs()
"""The codecs that are built in."""
