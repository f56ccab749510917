"""A handler on one connection, with all that its parameters and its result need: `Handler`."""

from __future__ import annotations

import logging
import typing
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ..codecs import CodecError, Codecs
from ..codecs.registry import annotation_name
from ..errors import Invalid, MetadataError, Rejected
from ..interactions.body import body_of
from ..metadata.builder import Metadata
from ..metadata.composite import CompositeMetadata
from ..metadata.mime_types import MIME
from ..metadata.tracing_zipkin import ZipkinTracing
from ..payload import Payload
from ..streamed import AnyPayload, StreamedPayload
from .access import as_composite
from .signature import EMPTY, Parameter, Route, Signature, Source
from .streams import DecodedChannel, EncodedItems

if TYPE_CHECKING:
    import trio

    from ..requester import Requester
    from ..responder import Setup

__all__ = ["Context", "Handler", "read_trace", "shown", "unreadable"]

Payloads: TypeAlias = "trio.abc.ReceiveChannel[Payload] | None"
Fill: TypeAlias = Callable[[Payload, Payloads, Any], Any]

_log: Final = logging.getLogger("rsocket_trio")
_MAX_SHOWN: Final = 64
"""Characters of a peer's own text that we send back to it."""
_MAX_LOGGED: Final = 300
"""Characters that tell the log why data were refused."""


class Context:
    """What the handlers of one connection share.

    Attributes:
        codecs: What converts data.
        setup: The connection's SETUP.
        requester: For the way back.
        guarded: Requests are authenticated.
    """

    __slots__ = ("codecs", "guarded", "requester", "setup")

    def __init__(
        self, codecs: Codecs, setup: Setup, requester: Requester, *, guarded: bool
    ) -> None:
        self.codecs = codecs
        self.setup = setup
        self.requester = requester
        self.guarded = guarded


class Handler:
    """A registered function, ready to be called with requests of one kind.

    Attributes:
        takes_body: It reads the request's data while they arrive.
        encode: Converts its results.
        name: Metadata that name their MIME type, where the requester has to be told.
    """

    __slots__ = (
        "_fill",
        "_fill_keywords",
        "_function",
        "_is_generator",
        "_raw",
        "encode",
        "name",
        "takes_body",
    )

    def __init__(
        self,
        context: Context,
        signature: Signature,
        route: Route,
        mime_type: str,
        answer_type: str,
        name: bytes | None = None,
    ) -> None:
        self._function = signature.function
        self._is_generator = signature.is_generator
        self._raw = signature.result in (Payload, StreamedPayload)
        self._fill: list[Fill] = []
        self._fill_keywords: dict[str, Fill] = {}
        for parameter in signature.parameters:
            fill = _filler(context, parameter, route, mime_type)
            if parameter.by_keyword:
                self._fill_keywords[parameter.name] = fill
            else:
                self._fill.append(fill)
        self.encode = context.codecs.encoder(signature.result, answer_type)
        self.name = name
        self.takes_body = signature.takes_body

    def __call__(self, payload: Payload, payloads: Payloads = None, principal: Any = None) -> Any:
        """Call the function: a coroutine or an async generator."""
        arguments = [fill(payload, payloads, principal) for fill in self._fill]
        if not self._fill_keywords:
            return self._function(*arguments)
        keywords = {
            name: fill(payload, payloads, principal) for name, fill in self._fill_keywords.items()
        }
        return self._function(*arguments, **keywords)

    def stream(
        self, payload: Payload, payloads: Payloads = None, principal: Any = None
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """Call the function of a stream."""
        result: Any = self(payload, payloads, principal)
        if self._raw:
            return cast("AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]", result)
        return self._encoded(result) if self._is_generator else self._later(result)

    async def _later(self, result: Any) -> AsyncIterable[AnyPayload]:
        return self._encoded(await result)

    def _encoded(self, items: AsyncIterable[Any]) -> AsyncIterable[AnyPayload]:
        return EncodedItems(items, self.encode, self.name)


def _filler(context: Context, parameter: Parameter, route: Route, mime_type: str) -> Fill:
    """What fills a parameter from a request."""
    metadata_mime_type = context.setup.metadata_mime_type
    match parameter.source:
        case Source.DATA:
            decode = _decoder(context, parameter, route, mime_type)
            default = parameter.default
            if default is EMPTY:
                return lambda payload, _, __: decode(payload.data)
            return lambda payload, _, __: decode(payload.data) if payload.data else default
        case Source.CHANNEL:
            if parameter.annotation is Payload:
                return lambda _, payloads, __: payloads
            decode = _decoder(context, parameter, route, mime_type)
            return lambda _, payloads, __: DecodedChannel(cast(Any, payloads), decode)
        case Source.PAYLOAD:
            return lambda payload, _, __: payload
        case Source.BODY:
            return lambda payload, _, __: body_of(payload)
        case Source.COMPOSITE:
            return lambda payload, _, __: _read_composite(payload.metadata, metadata_mime_type)
        case Source.METADATA:
            return lambda payload, _, __: _read_metadata(payload.metadata, metadata_mime_type)
        case Source.TRACE:
            absent = None if _allows_none(parameter.annotation) else ZipkinTracing()
            return lambda payload, _, __: (
                read_trace(as_composite(payload.metadata, metadata_mime_type)) or absent
            )
        case Source.PRINCIPAL:
            return _principal(context, parameter, route)
        case _:
            value = {
                Source.REQUESTER: context.requester,
                Source.SETUP: context.setup,
                Source.TRANSPORT: context.setup.transport,
                Source.ROUTE: route,
            }[parameter.source]
            return lambda _payload, _payloads, _principal: value


def _principal(context: Context, parameter: Parameter, route: Route) -> Fill:
    if not context.guarded:
        # Rather no answer than one to somebody whom nobody has looked at.
        raise TypeError(
            f"the handler of route {route.name!r} wants the principal as {parameter.name!r}, and "
            "this Router authenticates nobody: give it authenticate="
        )
    if _allows_none(parameter.annotation):
        return lambda _payload, _payloads, principal: principal

    def known(_payload: Payload, _payloads: Payloads, principal: Any) -> Any:
        if principal is None:
            raise Rejected("authentication is needed")
        return principal

    return known


def _decoder(
    context: Context, parameter: Parameter, route: Route, mime_type: str
) -> Callable[[bytes], Any]:
    decode = context.codecs.decoder(parameter.annotation, mime_type)
    if decode is bytes:
        return decode

    def decode_or_refuse(data: bytes) -> Any:
        try:
            return decode(data)
        except CodecError as error:
            where = f"route {shown(route.name)}" if route.name else "this request"
            wanted = annotation_name(parameter.annotation)
            text = f"{where} expects {wanted} as {shown(mime_type)}"
            # What a peer sends must not fill the log: where it went wrong is for those who look.
            shown_in_full = error if _log.isEnabledFor(logging.DEBUG) else None
            _log.info("data refused: %s: %s", text, _in_a_line(error), exc_info=shown_in_full)
            raise Invalid(text) from None

    return decode_or_refuse


def _in_a_line(error: BaseException) -> str:
    """What went wrong and why, as far as one line of a log should go."""
    text = str(error).partition("\n")[0] or type(error).__name__
    if error.__cause__ is not None:
        text += f": {_in_a_line(error.__cause__)}"
    return text[:_MAX_LOGGED]


def _allows_none(annotation: Any) -> bool:
    return annotation is Any or type(None) in typing.get_args(annotation)


def _read_composite(metadata: bytes | None, mime_type: str) -> CompositeMetadata:
    try:
        return CompositeMetadata(as_composite(metadata, mime_type).entries)
    except MetadataError as error:
        raise unreadable(error) from None


def _read_metadata(metadata: bytes | None, mime_type: str) -> Metadata:
    try:
        return Metadata.decode(metadata, mime_type)
    except MetadataError as error:
        raise unreadable(error) from None


def read_trace(metadata: CompositeMetadata) -> ZipkinTracing | None:
    """The trace a request belongs to; a damaged one is none, and no reason to refuse a request."""
    try:
        content = metadata.first(MIME.TRACING_ZIPKIN)
        return None if content is None else ZipkinTracing.decode(content)
    except MetadataError as error:
        _log.info("trace ignored: %s", error)
        return None


def shown(text: str) -> str:
    """What a peer sent, on its way back: escaped and short."""
    return ascii(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!a}..."


def unreadable(error: MetadataError) -> Invalid:
    """The answer to metadata that are damaged."""
    _log.info("metadata refused: %s", error)
    return Invalid("the metadata of this request cannot be read")
