"""The codecs by MIME type: `Codecs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from ..errors import RSocketError, StreamError
from ..field_checks import FLAG, TEXT, argument, instance_of
from .annotations import ANY, NONE, OCTETS, annotation_name, members_of
from .bounds import check_in
from .by_annotation import AnnotationCodec
from .cbor import CborCodec
from .compiling import Kept
from .json import JsonCodec
from .mismatch import (
    LIKE_TEXT,
    UNAWAITED,
    Mismatch,
    OutOfBounds,
    Unconvertible,
    looks_like_text,
    unawaited,
)
from .models import Types
from .protobuf import ProtobufCodec, is_message_type
from .text import OctetStreamCodec, TextCodec

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = [
    "DEFAULT_CODECS",
    "Codec",
    "CodecError",
    "Codecs",
    "NoCodec",
    "allows_none",
    "annotation_name",
    "explain",
    "is_bytes",
]

T = TypeVar("T")

_MAX_SHOWN: Final = 64
"""Characters of a MIME type that an error shows: it may be a peer's own text."""
_SUFFIXES: Final = frozenset({"cbor", "json"})
"""Structured suffixes: the subtypes that tell the format of all types that end with them."""
_TEXT: Final = TextCodec()
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class CodecError(RSocketError):
    """Data that cannot be converted; ``__cause__`` has the details, if there are any.

    The text names places and types, never values: values come from a peer, and may be long or
    secret.
    """


class NoCodec(CodecError):
    """There is no codec for a MIME type, or none for its charset."""


def explain(error: CodecError, root: str) -> str:
    """Return place and reason of an error, without values; the place begins with ``root``.

    For example ``order.items[2].quantity: expected int, got str``.
    """
    cause = error.__cause__
    if isinstance(cause, Mismatch | Unconvertible):
        return cause.at(root)
    # Texts of other exceptions may show values.
    return f"{root}: {error if cause is None else f'not readable ({type(cause).__name__})'}"


class Codec(Protocol):
    """Converts the data of one MIME type. An exception of its methods becomes a `CodecError`.

    The annotation ``bytes`` never gets here: it means the data as they are.

    A codec may have two more methods, ``check_decode(annotation)`` and
    ``check_encode(annotation)``. They raise a `TypeError` if data can never be read as that type,
    or values of it never be written. A `rsocket_trio.Router` calls them for every handler. A codec
    without them is taken to convert everything.
    """

    def encode(self, value: Any, annotation: Any) -> bytes:
        """Return the data for ``value``, which should be of the annotated type."""

    def decode(self, data: bytes, annotation: Any) -> object:
        """Return the value of the annotated type in ``data``."""


class Codecs:
    """Codecs by MIME type.

    The case of a MIME type does not matter, nor do parameters after a ``;``. The exception is a
    charset: text is UTF-8, and another charset is an error. The rules for every MIME type:

    * The annotation ``bytes`` (or ``bytes | None``) means the data as they are, both ways.
    * Empty data are ``None`` if the annotation allows that. ``None`` is written as the MIME type
      writes it (``null``); by itself, where texts are the data themselves, as no data, for they
      would be the text "null". The router makes a result of ``None`` an empty completion.
    * A MIME type without a codec of its own that ends with ``+json`` or ``+cbor`` has that of
      ``application/json`` or ``application/cbor`` (RFC 6839, RFC 8949).
    * Data of another MIME type without a codec are read and written as bytes only.

    Peers may have conventions beside the MIME type. They are options:

    Args:
        codecs: Codecs by MIME type, added to those that are built in (CBOR, JSON, text, protobuf
            and octet-stream) or put in their place. These have their own options.
        raw_text: The annotation ``str`` (or ``str | None``) means that the data are the text
            itself, in UTF-8, whatever the MIME type is. Texts within other values are not affected.
        rename: ``camel`` for names like ``orderId`` in data, for the field ``order_id`` of an attrs
            class or a dataclass. Without it, names in data are those of the fields. Keys of typed
            dicts stay as they are. A field with metadata ``{"rsocket_trio.name": "orderNo"}`` has
            this name, with the option and without it.
        enums: ``name`` if members of enums are written by their names, ``value`` if by their
            values. A ``Flag`` is always written by its value.
        types: Classes that convert themselves, for CBOR, JSON and text: by base class,
            ``(read, write)``. ``read(cls, plain)`` makes a value of a class of the plain value (a
            dict, a list, text, a number, ...), and ``write(value)`` a plain or annotated value of
            one. Subclasses are converted alike. A `StreamError` of ``read`` goes to the peer; of
            another exception, the peer sees the type and the place. Models of pydantic need none.
    """

    def __init__(
        self,
        codecs: Mapping[str, Codec] | None = None,
        *,
        raw_text: bool = False,
        rename: Literal["camel"] | None = None,
        enums: Literal["value", "name"] = "value",
        types: Types | None = None,
    ) -> None:
        argument("raw_text", raw_text, FLAG)
        self._codecs: dict[str, Codec] = {
            "application/cbor": CborCodec(rename=rename, enums=enums, types=types),
            "application/json": JsonCodec(rename=rename, enums=enums, types=types),
            "application/octet-stream": OctetStreamCodec(),
            "application/vnd.google.protobuf": ProtobufCodec(),
            "text/plain": TextCodec(rename=rename, enums=enums, types=types),
        }
        self._raw_text = raw_text
        self._encoders = Kept(self._encoder)
        self._decoders = Kept(self._decoder)
        argument("codecs", codecs, instance_of(Mapping, none=True))
        for mime_type, codec in (codecs or {}).items():
            argument("a MIME type in codecs", mime_type, TEXT)
            if isinstance(codec, type) or not (
                hasattr(codec, "encode") and hasattr(codec, "decode")
            ):
                raise TypeError(
                    f"the codec for {mime_type!r} is not an object with encode and decode"
                )
            self._codecs[mime_type.partition(";")[0].strip().lower()] = codec

    @classmethod
    def for_spring(
        cls, codecs: Mapping[str, Codec] | None = None, *, types: Types | None = None
    ) -> Codecs:
        """Return codecs with the conventions of Spring and Jackson.

        Text is raw, names are in camel case, and enums are written by name:
        ``Codecs(codecs, raw_text=True, rename="camel", enums="name", types=types)``.

        Args:
            codecs: See `Codecs`.
            types: See `Codecs`.
        """
        return cls(codecs, raw_text=True, rename="camel", enums="name", types=types)

    @property
    def mime_types(self) -> Iterable[str]:
        """The MIME types there are codecs for, in lower case."""
        return tuple(sorted(self._codecs))

    def encode(self, value: object, annotation: object, mime_type: str) -> bytes:
        """Convert a value to data.

        Raises:
            CodecError: The value cannot be written as this MIME type, or there is no such codec.
        """
        return self._encoders.of((annotation, mime_type))(value)

    def decode(self, data: bytes, annotation: TypeForm[T], mime_type: str) -> T:
        """Convert data to a value of the annotated type.

        Raises:
            CodecError: The data are not of this MIME type, or not what the annotation says; or
                there is no such codec.
            StreamError: The constructor or a validator of a class of the application raised it,
                for example ``Invalid("age must be positive")``.
        """
        read: Callable[[bytes], T] = self._decoders.of((annotation, mime_type))
        return read(data)

    def encoder(self, annotation: object, mime_type: str) -> Callable[[object], bytes]:
        """Return a function that encodes many values of one annotation and MIME type."""
        return self._encoders.of((annotation, mime_type))

    def _encoder(self, key: tuple[Any, str]) -> Callable[[Any], bytes]:
        annotation, mime_type = key
        if is_bytes(annotation):
            return _within(annotation, _raw)
        try:
            codec = self._codec(annotation, mime_type)
        except CodecError as error:
            return _failing(error)
        write = write_any = _encoder_of(codec, annotation)
        if annotation in (None, NONE) and (self._raw_text or isinstance(codec, TextCodec)):

            def write(value: Any) -> bytes:
                write_any(value)
                return b""  # a peer that takes `str | None` would read the text "null"

        elif self._raw_text and annotation in ANY:

            def write(value: Any) -> bytes:
                return value.encode() if type(value) is str else write_any(value)

        def encode(value: Any) -> bytes:
            if isinstance(value, UNAWAITED):
                raise CodecError(f"there is no value to write, but {unawaited(value)}")
            try:
                return write(value)
            except Exception as error:  # a codec raises what the attributes of the value raise
                where = f": {error}" if isinstance(error, Mismatch | Unconvertible) else ""
                kind = type(value).__name__
                raise CodecError(f"{kind} cannot be written as {mime_type}{where}") from error

        return encode

    def decoder(self, annotation: TypeForm[T], mime_type: str) -> Callable[[bytes], T]:
        """Return a function that decodes many data of one annotation and MIME type."""
        return self._decoders.of((annotation, mime_type))

    def _decoder(self, key: tuple[Any, str]) -> Callable[[bytes], Any]:
        annotation, mime_type = key
        if is_bytes(annotation):
            return _within(annotation, bytes)
        try:
            codec = self._codec(annotation, mime_type)
        except CodecError as error:
            return _failing(error)
        read = _decoder_of(codec, annotation)
        is_raw = isinstance(codec, TextCodec | OctetStreamCodec)
        of_text = not is_raw and _is_alone(str, annotation)
        may_be_none = NONE in _members(annotation)

        def decode(data: bytes) -> object:
            if may_be_none and not data:
                return None
            # The bytes come from a peer. So an exception of a parser or of the constructor of a
            # class (RecursionError, OverflowError, ...) is the fault of the peer.
            try:
                return read(data)
            except StreamError:
                raise  # a class of the application raised it for the peer
            except Exception as error:  # see above
                if not data and not isinstance(error, Mismatch):
                    error = Mismatch("no data")
                if of_text and isinstance(error, Mismatch) and _may_be_raw(data, error):
                    reason = error.reason.removesuffix(LIKE_TEXT)
                    error.reason = f"{reason}{LIKE_TEXT}, which Codecs(raw_text=True) reads"
                where = f": {error}" if isinstance(error, Mismatch | Unconvertible) else ""
                as_what = "" if annotation is Any else f" as {annotation_name(annotation)}"
                raise CodecError(
                    f"{len(data)} bytes of {mime_type} cannot be read{as_what}{where}"
                ) from error

        return decode

    def check_decode(self, annotation: object, mime_type: str | None = None) -> None:
        """Refuse an annotation that data cannot be converted to.

        Args:
            annotation: The annotation.
            mime_type: The MIME type of the data; ``None`` if it may be any.

        Raises:
            TypeError: None of the codecs converts to it, or not that of the MIME type.
            CodecError: There is no codec for the MIME type.
        """
        codecs = self._codecs.values() if mime_type is None else (self._find(mime_type),)
        self._check("check_decode", annotation, codecs)

    def check_encode(self, annotation: object) -> None:
        """Refuse an annotation whose values cannot be written, in any MIME type.

        Raises:
            TypeError: None of the codecs writes them.
        """
        self._check("check_encode", annotation, self._codecs.values())

    def _check(self, method: str, annotation: Any, codecs: Iterable[Codec]) -> None:
        if is_bytes(annotation):
            check_in(annotation, bytes)
            return
        refusal: TypeError | None = None
        for codec in codecs:
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

    def schema(self, annotation: object) -> dict[str, object] | None:
        """Return the JSON Schema of a type; ``None`` if msgspec's would not be true of it.

        That is so for types that the codec for JSON does not leave to msgspec, such as classes with
        converters, for bytes, and for other codecs.
        """
        codec = self._codecs["application/json"]
        if is_bytes(annotation) or not isinstance(codec, JsonCodec):
            return None
        return codec.schema(annotation)

    def can_encode(self, annotation: object, mime_type: str) -> bool:
        """Whether values of the annotated type can be written as this MIME type.

        False for bytes: they are not converted, so they keep the MIME type that they have.
        """
        if is_bytes(annotation):
            return False
        try:
            codec = self._find(mime_type)
        except CodecError:
            return False
        if isinstance(codec, ProtobufCodec):
            return is_message_type(annotation)
        return not isinstance(codec, OctetStreamCodec) or annotation is str

    def registered(self, mime_type: str) -> str | None:
        """Return the MIME type of `mime_types` whose codec is used for one; ``None`` if none is.

        For example ``application/json`` for ``application/problem+json; charset=utf-8``.
        """
        essence = mime_type.partition(";")[0].strip().lower()
        if essence in self._codecs:
            return essence
        _, plus, suffix = essence.rpartition("+")
        return f"application/{suffix}" if plus and suffix in _SUFFIXES else None

    def check_mime_type(self, annotation: object, mime_type: str) -> None:
        """Refuse a MIME type without a codec, unless an annotation needs none.

        Raises:
            CodecError: There is no codec for it; the text names those that there are.
        """
        if not is_bytes(annotation):
            self._codec(annotation, mime_type)

    def _codec(self, annotation: Any, mime_type: str) -> Codec:
        if self._raw_text and _is_alone(str, annotation):
            _check_charset(mime_type)
            return _TEXT
        return self._find(mime_type)

    def _find(self, mime_type: str) -> Codec:
        name = self.registered(mime_type)
        if name is None:
            raise NoCodec(
                f"there is no codec for {_shown(mime_type)}, whose data are read and written as "
                f"bytes only; there are codecs for {', '.join(self.mime_types)}"
            )
        _check_charset(mime_type)
        return self._codecs[name]


def _shown(mime_type: str) -> str:
    dots = "..." if len(mime_type) > _MAX_SHOWN else ""
    return f"{mime_type[:_MAX_SHOWN]!a}{dots}"


def _check_charset(mime_type: str) -> None:
    for parameter in mime_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        charset = value.strip().strip('"').lower()
        if name.strip().lower() == "charset" and charset not in _UTF_8:
            raise NoCodec(f"text must be UTF-8, not {charset[:_MAX_SHOWN]!a}")


def _members(annotation: Any) -> tuple[Any, ...]:
    try:
        return members_of(annotation)
    except Unconvertible:
        return (annotation,)  # the conversion raises the error


def allows_none(annotation: Any) -> bool:
    """Whether ``None`` is a value of an annotated type."""
    return annotation in ANY or NONE in _members(annotation)


def is_bytes(annotation: Any) -> bool:
    """Whether values of an annotated type are the data without conversion."""
    return _is_alone(bytes, annotation)


def _is_alone(kind: type, annotation: Any) -> bool:
    """Whether values of an annotated type are of one type, or ``None``."""
    members = _members(annotation)
    return kind in members and all(member in (kind, NONE) for member in members)


def _may_be_raw(data: bytes, error: Mismatch) -> bool:
    """Whether data that are no text in their format, as the error says, may be text as they are."""
    return bool(data) and not isinstance(error, OutOfBounds) and looks_like_text(data)


def _raw(value: Any) -> bytes:
    if isinstance(value, OCTETS):
        return bytes(value)
    raise CodecError(str(Mismatch.of("bytes", value)))


def _within(annotation: Any, raw: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return a function that converts octets, and checks their bounds."""
    check = check_in(annotation, bytes)

    def convert(value: Any) -> bytes:
        octets = raw(value)
        try:
            check(octets)
        except Mismatch as error:
            raise CodecError(str(error)) from error
        return octets

    return convert


def _encoder_of(codec: Codec, annotation: Any) -> Callable[[Any], bytes]:
    if isinstance(codec, AnnotationCodec):
        with suppress(TypeError):  # each call raises it
            return codec.encoder(annotation)
    return lambda value: codec.encode(value, annotation)


def _decoder_of(codec: Codec, annotation: Any) -> Callable[[bytes], object]:
    if isinstance(codec, AnnotationCodec):
        with suppress(TypeError):  # each call raises it
            return codec.decoder(annotation)
    return lambda data: codec.decode(data, annotation)


def _failing(error: CodecError) -> Callable[[Any], Any]:
    # A new error each time: a raised exception collects tracebacks.
    def fail(_: object) -> Any:
        raise type(error)(*error.args)

    return fail


DEFAULT_CODECS: Final = Codecs()
"""The codecs that are built in."""
