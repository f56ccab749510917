"""A router on one connection: `BoundRouter` reads a request's metadata and finds its handler."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..errors import Invalid, MetadataError, StreamError
from ..metadata.builder import Metadata
from ..metadata.composite import CompositeMetadata
from ..metadata.data_mime_types import AcceptMimeTypes, DataMimeType
from ..metadata.mime_types import MIME, IdOrName, mime_type_name, same_mime_type
from ..metadata.routing import decode_route
from ..payload import Payload
from ..responder import Responder
from ..streamed import AnyPayload
from .access import Guard, RequestFacts, as_composite
from .handler import Context, Handler, read_trace, shown, unreadable
from .signature import Interaction, Route, Signature
from .streams import READY, TracedItems

if TYPE_CHECKING:
    import trio

    from ..metadata.authentication import Authentication
    from ..metadata.tracing_zipkin import ZipkinTracing
    from ..tracing import Tracing

__all__ = ["BoundRouter", "Signatures"]

Signatures: TypeAlias = dict[Interaction, dict[str | None, Signature]]
"""What is registered: by interaction and route, where ``None`` is for requests without one."""

_CACHED: Final = 64
_CACHED_METADATA_SIZE: Final = 128
_CACHED_PARTS: Final = 8
"""What is known is remembered, per interaction: what 64 metadata of 128 bytes at most say, and 64
handlers, whose keys are 8 routing tags and 8 MIME types at most.

Most requests of a connection carry the same few routes and nothing else, so they cost one look-up.
"""


class BoundRouter(Responder):
    """The responder of one connection, made by `Router.accept`."""

    def __init__(
        self,
        signatures: Signatures,
        context: Context,
        *,
        guard: Guard | None = None,
        principal: Any = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._signatures = signatures
        self._context = context
        self._guard = guard
        self._principal = principal
        self._tracing = tracing
        setup = context.setup
        self._data_mime_type = setup.data_mime_type
        self._metadata_mime_type = setup.metadata_mime_type
        self._is_composite = same_mime_type(setup.metadata_mime_type, MIME.COMPOSITE_METADATA)
        self._requests: dict[Interaction, dict[bytes | None, _Request]] = {
            i: {} for i in Interaction
        }
        self._handlers: dict[Interaction, dict[object, Handler]] = {i: {} for i in Interaction}

    def takes_body(self, interaction: str, metadata: bytes | None) -> bool:
        """See `Responder.takes_body`: where the handler has a parameter for it."""
        try:
            handler = self._find(Interaction(interaction), metadata).handler
        except StreamError:
            return False  # to be answered once the request is whole
        return handler is not None and handler.takes_body

    async def request_response(self, payload: Payload) -> AnyPayload | None:
        """See `Responder.request_response`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        request = self._find(Interaction.REQUEST_RESPONSE, payload.metadata)
        handler = request.plain
        if handler is not None:
            result = await handler(payload)
        else:
            handler, result = await self._run(request, payload)
        if result is None or isinstance(result, READY):
            return result
        return Payload(handler.encode(result), handler.name)

    async def fire_and_forget(self, payload: Payload) -> None:
        """See `Responder.fire_and_forget`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        request = self._find(Interaction.FIRE_AND_FORGET, payload.metadata)
        if request.plain is not None:
            await request.plain(payload)
        else:
            await self._run(request, payload)

    def request_stream(
        self, payload: Payload
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """See `Responder.request_stream`."""
        request = self._find(Interaction.REQUEST_STREAM, payload.metadata)
        if request.plain is not None:
            return request.plain.stream(payload)
        return self._stream(request, payload, None)

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """See `Responder.request_channel`."""
        request = self._find(Interaction.REQUEST_CHANNEL, payload.metadata)
        if request.plain is not None:
            return request.plain.stream(payload, payloads)
        return self._stream(request, payload, payloads)

    async def metadata_push(self, metadata: bytes) -> None:
        """See `Responder.metadata_push`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        signature = self._signatures[Interaction.METADATA_PUSH].get(None)
        if signature is not None:
            request = _Request(Interaction.METADATA_PUSH, Route())
            if self._guard is not None:
                try:
                    request.auth = self._guard.read(
                        as_composite(metadata, self._metadata_mime_type)
                    )
                except MetadataError as error:
                    raise unreadable(error) from None
            own = self._data_mime_type
            request.handler = Handler(self._context, signature, Route(), own, own)
            # The metadata are what this handler has for data.
            await self._run(request, Payload(metadata, metadata))

    # -- requests that are authenticated, or belong to a trace ------------------------------

    async def _run(self, request: _Request, payload: Payload) -> tuple[Handler, Any]:
        handler, principal = await self._admit(request)
        if request.trace is None or self._tracing is None:
            return handler, await handler(payload, None, principal)
        token = self._tracing.enter(request.trace)
        try:
            return handler, await handler(payload, None, principal)
        finally:
            self._tracing.leave(token)

    async def _stream(
        self, request: _Request, payload: Payload, payloads: Any
    ) -> AsyncIterable[AnyPayload]:
        handler, principal = await self._admit(request)
        tracing = self._tracing
        if request.trace is None or tracing is None:
            items = handler.stream(payload, payloads, principal)
            return await items if isinstance(items, Awaitable) else items
        token = tracing.enter(request.trace)
        try:
            items = handler.stream(payload, payloads, principal)
            if isinstance(items, Awaitable):
                items = await items
            # Whoever iterates these closes them in this same task, and the trace ends there.
            return TracedItems(items, lambda: tracing.leave(token))
        except BaseException:
            tracing.leave(token)
            raise

    async def _admit(self, request: _Request) -> tuple[Handler, Any]:
        """Handler and principal of a request; the authenticator is asked before all else."""
        principal = None
        if self._guard is not None:
            principal = self._principal
            if request.auth is not None or principal is None:
                facts = RequestFacts(request.interaction, request.route, self._context.setup)
                principal = await self._guard.admit_request(request.auth, facts)
        if request.handler is None:
            raise request.missing()
        return request.handler, principal

    # -- from metadata to a handler ---------------------------------------------------------

    def _find(self, interaction: Interaction, metadata: bytes | None) -> _Request:
        requests = self._requests[interaction]
        request = requests.get(metadata)
        if request is None:
            request = self._resolve(interaction, metadata)
            fits = metadata is None or len(metadata) <= _CACHED_METADATA_SIZE
            # Secrets are not kept, and no span comes twice.
            if fits and request.auth is None and request.trace is None:
                _remember(requests, metadata, request)
        return request

    def _resolve(self, interaction: Interaction, metadata: bytes | None) -> _Request:
        mime_type = self._data_mime_type
        accept: tuple[IdOrName, ...] = ()
        auth: Authentication | None = None
        entries = as_composite(metadata, self._metadata_mime_type)
        try:
            tags = decode_route(entries.first(MIME.ROUTING) or b"")
            stream_type = entries.first(MIME.MIME_TYPE)
            if stream_type is not None:
                mime_type = mime_type_name(DataMimeType.decode(stream_type).mime_type)
            if self._is_composite:  # else there is no way to name the answer's type
                accept = _wishes(entries)
            if self._guard is not None:
                auth = self._guard.read(entries)
        except MetadataError as error:
            raise unreadable(error) from None
        request = _Request(interaction, Route(tags[0] if tags else "", tags[1:]))
        request.auth = auth
        if self._tracing is not None:
            request.trace = read_trace(entries)
        request.routed = bool(tags)
        signature = self._signatures[interaction].get(tags[0] if tags else None)
        if signature is not None:
            request.handler = self._handler(signature, request.route, tags, mime_type, accept)
        elif self._guard is None:
            raise request.missing()
        if self._guard is None and request.trace is None:
            request.plain = request.handler
        return request

    def _handler(
        self,
        signature: Signature,
        route: Route,
        tags: tuple[str, ...],
        mime_type: str,
        accept: tuple[IdOrName, ...],
    ) -> Handler:
        handlers = self._handlers[signature.interaction]
        key = (tags, mime_type, accept)
        handler = handlers.get(key)
        if handler is None:
            answer_type, name = self._answer(signature, accept)
            handler = Handler(self._context, signature, route, mime_type, answer_type, name)
            if len(tags) <= _CACHED_PARTS and len(accept) <= _CACHED_PARTS:
                _remember(handlers, key, handler)
        return handler

    def _answer(
        self, signature: Signature, accept: tuple[IdOrName, ...]
    ) -> tuple[str, bytes | None]:
        """The MIME type to answer in, and metadata that name it where the requester must be told.

        PerStreamDataMimeTypesDefinition.md, "Introduction": without wishes the type of SETUP
        applies; with wishes, what is outside of them has to be named. What is within is named
        too, unless it is that of SETUP: there may be more than one wish.
        """
        own = self._data_mime_type
        if not accept:
            return own, None
        for wanted in accept:
            if isinstance(wanted, str):
                if same_mime_type(wanted, own):
                    return own, None
                if self._context.codecs.can_encode(signature.result, wanted):
                    return wanted, _named(wanted)
        return own, _named(own)


class _Request:
    """What the metadata of a request say.

    Attributes:
        interaction: What is asked for.
        route: Of whom.
        routed: There is a route at all.
        handler: Who answers, if anybody does.
        auth: Who is asking.
        trace: What it belongs to.
        plain: The handler, where the request is neither to be authenticated nor traced.
    """

    __slots__ = ("auth", "handler", "interaction", "plain", "route", "routed", "trace")

    def __init__(self, interaction: Interaction, route: Route) -> None:
        self.interaction = interaction
        self.route = route
        self.routed = False
        self.handler: Handler | None = None
        self.auth: Authentication | None = None
        self.trace: ZipkinTracing | None = None
        self.plain: Handler | None = None

    def missing(self) -> Invalid:
        where = f"route {shown(self.route.name)}" if self.routed else "requests without a route"
        return Invalid(f"no {self.interaction.value} handler for {where}")


def _wishes(entries: CompositeMetadata) -> tuple[IdOrName, ...]:
    # They may be disregarded, so damage is no reason to refuse a request.
    try:
        return AcceptMimeTypes.decode(entries.first(MIME.ACCEPT_MIME_TYPES) or b"").mime_types
    except MetadataError:
        return ()


def _named(mime_type: str) -> bytes | None:
    try:
        return Metadata(data_mime_type=mime_type).encode()
    except MetadataError:
        return None  # a name of SETUP that is too long to be written here


def _remember(cache: dict[Any, Any], key: object, value: object) -> None:
    if len(cache) >= _CACHED:
        cache.clear()
    cache[key] = value
