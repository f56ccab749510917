"""Which codec for which MIME type: `Codecs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from json import JSONDecodeError
from typing import Any, Final, Protocol

from ..errors import RSocketError, StreamError
from .annotations import ANY, NONE, annotation_name, members_of
from .builtin import CborCodec, JsonCodec, OctetStreamCodec, TextCodec
from .mismatch import UNAWAITED, Mismatch, Unconvertible, kind_of, unawaited

__all__ = [
    "DEFAULT_CODECS",
    "Codec",
    "CodecError",
    "Codecs",
    "NoCodec",
    "allows_none",
    "annotation_name",
    "is_bytes",
]

_MAX_SHOWN: Final = 64
"""Characters of a MIME type that an error shows: it may be a peer's own text."""
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class CodecError(RSocketError):
    """Data that cannot be converted; ``__cause__`` holds the details, where there are any.

    The text names places and types, never values: those are the peer's, and may be long or secret.
    """

    def explained(self, root: str) -> str:
        """What is wrong, and where in what is called ``root``: without a value, as all of this.

        For example ``order.items[2].quantity: expected int, got str``.
        """
        cause = self.__cause__
        if isinstance(cause, Mismatch):
            return cause.at(root)
        if isinstance(cause, JSONDecodeError):
            return f"{root}: no JSON, at character {cause.pos}"
        # Texts of other exceptions may show values.
        return f"{root}: {self if cause is None else type(cause).__name__}"


class NoCodec(CodecError):
    """There is no codec for a MIME type, or none for its charset."""


class Codec(Protocol):
    """Converts the data of one MIME type. Whatever its methods raise becomes a `CodecError`.

    The annotation ``bytes`` never gets here: it means the data as it is.

    A codec may have two methods more, ``check_decode(annotation)`` and
    ``check_encode(annotation)``: they raise a `TypeError` where no data can ever be read as that
    type, or no value of it be written. A `rsocket_trio.Router` asks them about every handler it is
    given. A codec that has them not is taken to convert everything.
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
        if is_bytes(annotation):
            return _raw
        try:
            codec = self._find(mime_type)
        except CodecError as error:
            return _failing(error)

        def encode(value: Any) -> bytes:
            if isinstance(value, UNAWAITED):
                raise CodecError(f"there is no value to write, but {unawaited(value)}")
            try:
                return codec.encode(value, annotation)
            except Exception as error:  # a codec raises what the attributes of the value raise
                where = f": {error}" if isinstance(error, Mismatch) else ""
                kind = type(value).__name__
                raise CodecError(f"{kind} cannot be written as {mime_type}{where}") from error

        return encode

    def decoder(self, annotation: Any, mime_type: str) -> Callable[[bytes], Any]:
        """`decode` for many data of one annotation and MIME type, with all looked up once."""
        if is_bytes(annotation):
            return bytes
        try:
            codec = self._find(mime_type)
        except CodecError as error:
            return _failing(error)
        may_be_none = _names_none(annotation)

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
                where = f": {error}" if isinstance(error, Mismatch) else ""
                raise CodecError(
                    f"{len(data)} bytes of {mime_type} are no {annotation_name(annotation)}{where}"
                ) from error

        return decode

    def check_decode(self, annotation: Any) -> None:
        """Refuse an annotation that data of no MIME type can be converted to.

        Raises:
            TypeError: None of the codecs converts to it.
        """
        self._check("check_decode", annotation)

    def check_encode(self, annotation: Any) -> None:
        """Refuse an annotation whose values can be written as no MIME type.

        Raises:
            TypeError: None of the codecs writes them.
        """
        self._check("check_encode", annotation)

    def _check(self, method: str, annotation: Any) -> None:
        if is_bytes(annotation):
            return
        refusal: TypeError | None = None
        for codec in self._codecs.values():
            check = getattr(codec, method, None)
            try:
                if check is not None:
                    check(annotation)
            except TypeError as error:
                refusal = refusal or error
            else:
                return
        if refusal is not None:
            raise refusal

    def can_encode(self, annotation: Any, mime_type: str) -> bool:
        """Whether values of the annotated type can be written as this MIME type.

        Not so for bytes, which are not converted, and so are of the type they are.
        """
        if is_bytes(annotation):
            return False
        try:
            codec = self._find(mime_type)
        except CodecError:
            return False
        return not isinstance(codec, OctetStreamCodec) or annotation is str

    def check_type(self, mime_type: str) -> None:
        """Refuse a MIME type whose data cannot be converted, but only be had as bytes.

        Raises:
            CodecError: There is no codec for it; the text names those that there are.
        """
        self._find(mime_type)

    def _find(self, mime_type: str) -> Codec:
        codec = self._codecs.get(_essence(mime_type))
        if codec is None:
            raise NoCodec(
                f"there is no codec for {_shown(mime_type)}, whose data are read and written as "
                f"bytes only; there are codecs for {', '.join(self.mime_types)}"
            )
        charset = _charset(mime_type)
        if charset not in _UTF_8:
            raise NoCodec(f"text is UTF-8 here, not {charset[:_MAX_SHOWN]!a}")
        return codec


def _shown(mime_type: str) -> str:
    dots = "..." if len(mime_type) > _MAX_SHOWN else ""
    return f"{mime_type[:_MAX_SHOWN]!a}{dots}"


def _essence(mime_type: str) -> str:
    return mime_type.partition(";")[0].strip().lower()


def _charset(mime_type: str) -> str:
    for parameter in mime_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return "utf-8"


def _members(annotation: Any) -> tuple[Any, ...]:
    try:
        return members_of(annotation)
    except Unconvertible:
        return (annotation,)  # of which whoever converts will hear


def allows_none(annotation: Any) -> bool:
    """Whether ``None`` is a value of an annotated type; where that says nothing, anything is."""
    return annotation in ANY or _names_none(annotation)


def _names_none(annotation: Any) -> bool:
    return any(member in (None, NONE) for member in _members(annotation))


def is_bytes(annotation: Any) -> bool:
    """Whether values of an annotated type are the data as they are."""
    members = _members(annotation)
    return bytes in members and all(member in (bytes, None, NONE) for member in members)


def _raw(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    got = unawaited(value) if isinstance(value, UNAWAITED) else kind_of(value)
    raise CodecError(f"expected bytes, got {got}")


def _failing(error: CodecError) -> Callable[[Any], Any]:
    # Made anew each time: a raised exception collects tracebacks.
    def fail(_: object) -> Any:
        raise type(error)(*error.args)

    return fail


DEFAULT_CODECS: Final = Codecs()
"""The codecs that are built in."""
