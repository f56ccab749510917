"""A router on one connection: `BoundRouter` finds the handler, fills its parameters, calls it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ..codecs import CodecError, Codecs
from ..codecs.registry import annotation_name
from ..errors import Invalid, MetadataError
from ..metadata.composite import CompositeMetadata, MetadataEntry
from ..metadata.data_mime_types import DataMimeType
from ..metadata.mime_types import MIME, same_mime_type
from ..metadata.routing import decode_route
from ..payload import Payload
from ..responder import Responder, Setup
from .signature import EMPTY, Interaction, Parameter, Route, Signature, Source
from .streams import DecodedChannel, EncodedItems

if TYPE_CHECKING:
    import trio

    from ..requester import Requester

__all__ = ["BoundRouter", "Handlers"]

Handlers: TypeAlias = dict[Interaction, dict[str | None, Signature]]
Fill: TypeAlias = "Callable[[Payload, trio.abc.ReceiveChannel[Payload] | None], Any]"

_log: Final = logging.getLogger("rsocket_trio")
_MAX_SHOWN: Final = 64
"""Characters of a peer's own text that we send back to it."""

_CACHED_REQUESTS: Final = 64
_CACHED_METADATA_SIZE: Final = 128
"""What is known about metadata is remembered: 64 times 128 bytes per interaction at most.

Most requests of a connection carry the same few routes and nothing else, so they cost one look-up.
"""


class BoundRouter(Responder):
    """The responder of one connection, made by `Router.accept`."""

    def __init__(
        self, handlers: Handlers, codecs: Codecs, setup: Setup, requester: Requester
    ) -> None:
        self._handlers = handlers
        self._codecs = codecs
        self._setup = setup
        self._requester = requester
        self._is_composite = same_mime_type(setup.metadata_mime_type, MIME.COMPOSITE_METADATA)
        self._is_routing = same_mime_type(setup.metadata_mime_type, MIME.ROUTING)
        self._calls: dict[Interaction, dict[bytes | None, _Call]] = {i: {} for i in Interaction}

    async def request_response(self, payload: Payload) -> Payload | None:
        """See `Responder.request_response`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        call = self._find(Interaction.REQUEST_RESPONSE, payload.metadata)
        result = await call(payload)
        if result is None or isinstance(result, Payload):
            return result
        return Payload(call.encode(result))

    async def fire_and_forget(self, payload: Payload) -> None:
        """See `Responder.fire_and_forget`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        await self._find(Interaction.FIRE_AND_FORGET, payload.metadata)(payload)

    def request_stream(
        self, payload: Payload
    ) -> AsyncIterable[Payload] | Awaitable[AsyncIterable[Payload]]:
        """See `Responder.request_stream`."""
        return self._find(Interaction.REQUEST_STREAM, payload.metadata).stream(payload)

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterable[Payload] | Awaitable[AsyncIterable[Payload]]:
        """See `Responder.request_channel`."""
        return self._find(Interaction.REQUEST_CHANNEL, payload.metadata).stream(payload, payloads)

    async def metadata_push(self, metadata: bytes) -> None:
        """See `Responder.metadata_push`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        signature = self._handlers[Interaction.METADATA_PUSH].get(None)
        if signature is not None:
            # The metadata are what this handler has for data.
            call = _Call(self, signature, Route(), self._setup.data_mime_type)
            await call(Payload(metadata, metadata))

    def _find(self, interaction: Interaction, metadata: bytes | None) -> _Call:
        calls = self._calls[interaction]
        call = calls.get(metadata)
        if call is None:
            call = self._resolve(interaction, metadata)
            if metadata is None or len(metadata) <= _CACHED_METADATA_SIZE:
                if len(calls) >= _CACHED_REQUESTS:
                    calls.clear()
                calls[metadata] = call
        return call

    def _resolve(self, interaction: Interaction, metadata: bytes | None) -> _Call:
        tags: tuple[str, ...] = ()
        mime_type = self._setup.data_mime_type
        try:
            if metadata is not None and self._is_composite:
                composite = CompositeMetadata.decode(metadata)
                tags = decode_route(composite.first(MIME.ROUTING) or b"")
                stream_type = composite.first(MIME.MIME_TYPE)
                if stream_type is not None:
                    named = DataMimeType.decode(stream_type).mime_type
                    mime_type = named if isinstance(named, str) else f"0x{named:02x}"
            elif metadata is not None and self._is_routing:
                tags = decode_route(metadata)
        except MetadataError as error:
            raise _unreadable(error) from None
        route = tags[0] if tags else None
        signature = self._handlers[interaction].get(route)
        if signature is None:
            where = "requests without a route" if route is None else f"route {_shown(route)}"
            raise Invalid(f"no {interaction.value} handler for {where}")
        return _Call(self, signature, Route(route or "", tags[1:]), mime_type)

    def read_metadata(self, metadata: bytes | None) -> CompositeMetadata:
        """All of a request's metadata as composite metadata, whatever the connection's type."""
        if metadata is None:
            return CompositeMetadata()
        if not self._is_composite:
            return CompositeMetadata([MetadataEntry(self._setup.metadata_mime_type, metadata)])
        try:
            return CompositeMetadata(CompositeMetadata.decode(metadata).entries)
        except MetadataError as error:
            raise _unreadable(error) from None

    def filler(self, parameter: Parameter, route: Route, mime_type: str) -> Fill:
        """What fills a parameter from a request."""
        match parameter.source:
            case Source.DATA:
                decode = self._decoder(parameter, route, mime_type)
                default = parameter.default
                if default is EMPTY:
                    return lambda payload, _: decode(payload.data)
                return lambda payload, _: decode(payload.data) if payload.data else default
            case Source.CHANNEL:
                if parameter.annotation is Payload:
                    return lambda _, payloads: payloads
                decode = self._decoder(parameter, route, mime_type)
                return lambda _, payloads: DecodedChannel(cast(Any, payloads), decode)
            case Source.PAYLOAD:
                return lambda payload, _: payload
            case Source.METADATA:
                return lambda payload, _: self.read_metadata(payload.metadata)
            case _:
                value = {
                    Source.REQUESTER: self._requester,
                    Source.SETUP: self._setup,
                    Source.TRANSPORT: self._setup.transport,
                    Source.ROUTE: route,
                }[parameter.source]
                return lambda _payload, _payloads: value

    def encoder(self, annotation: Any) -> Callable[[Any], bytes]:
        """What converts results. They are of the connection's own data MIME type."""
        return self._codecs.encoder(annotation, self._setup.data_mime_type)

    def _decoder(
        self, parameter: Parameter, route: Route, mime_type: str
    ) -> Callable[[bytes], Any]:
        decode = self._codecs.decoder(parameter.annotation, mime_type)
        if decode is bytes:
            return decode

        def decode_or_refuse(data: bytes) -> Any:
            try:
                return decode(data)
            except CodecError as error:
                where = f"route {_shown(route.name)}" if route.name else "this request"
                wanted = annotation_name(parameter.annotation)
                text = f"{where} expects {wanted} as {_shown(mime_type)}"
                _log.info("data refused: %s", text, exc_info=error)
                raise Invalid(text) from None

        return decode_or_refuse


class _Call:
    """A handler, with all that its parameters and its result need on one connection."""

    __slots__ = ("_fill", "_fill_keywords", "_function", "_is_generator", "_raw", "encode")

    def __init__(
        self, router: BoundRouter, signature: Signature, route: Route, mime_type: str
    ) -> None:
        self._function = signature.function
        self._is_generator = signature.is_generator
        self._raw = signature.result is Payload
        self._fill: list[Fill] = []
        self._fill_keywords: dict[str, Fill] = {}
        for parameter in signature.parameters:
            fill = router.filler(parameter, route, mime_type)
            if parameter.by_keyword:
                self._fill_keywords[parameter.name] = fill
            else:
                self._fill.append(fill)
        self.encode = router.encoder(signature.result)

    def __call__(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload] | None = None
    ) -> Any:
        """Call the handler: a coroutine or an async generator."""
        arguments = [fill(payload, payloads) for fill in self._fill]
        if not self._fill_keywords:
            return self._function(*arguments)
        keywords = {name: fill(payload, payloads) for name, fill in self._fill_keywords.items()}
        return self._function(*arguments, **keywords)

    def stream(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload] | None = None
    ) -> AsyncIterable[Payload] | Awaitable[AsyncIterable[Payload]]:
        """Call the handler of a stream."""
        result: Any = self(payload, payloads)
        if self._raw:
            return cast("AsyncIterable[Payload] | Awaitable[AsyncIterable[Payload]]", result)
        return EncodedItems(result, self.encode) if self._is_generator else self._later(result)

    async def _later(self, result: Any) -> AsyncIterable[Payload]:
        return EncodedItems(await result, self.encode)


def _shown(text: str) -> str:
    # What a peer sent, on its way back: escaped and short.
    return ascii(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!a}..."


def _unreadable(error: MetadataError) -> Invalid:
    _log.info("metadata refused: %s", error)
    return Invalid("the metadata of this request cannot be read")
