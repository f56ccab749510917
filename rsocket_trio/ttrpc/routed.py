"""Serve a `rsocket_trio.Router` over ttrpc: `accept_router`.

The route of a call is ``package.Service/Method``. A request_response (or fire_and_forget) handler
answers unary calls, a request_stream handler those with a stream of answers, and a request_channel
handler those with streams in both directions. The router treats the peer as a client whose SETUP
has no metadata: guards are asked about the connection, and about each call. The metadata key
``authorization`` (``Bearer ...`` or ``Basic ...``) is the authentication of a call; all metadata
are an entry of `METADATA_TYPE`.

Another `Responder` works too; then the flags of a request say which handler is meant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final

import trio

from ..errors import MetadataError, fresh_copy
from ..interactions.sending import AnyItems
from ..metadata.builder import Metadata
from ..metadata.mime_types import WellKnownMimeType, check_mime_type
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..responder import Responder, accept_with
from ..routing.admission import admitted
from ..routing.bound import BoundRouter
from ..routing.converted_streams import in_one_piece
from ..routing.request import NoHandler
from ..routing.stand_ins import mute_requester, setup_of
from ..sockets.peer import Peer
from ..streamed import AnyPayload, StreamedPayload
from .codec import BYTES
from .errors import Unimplemented
from .inbox import MessageStream
from .methods import Method, MethodKind
from .server.bound import Methods, ServedMethod, no_method
from .server.call import Call
from .server.service import Handler
from .wire.frames import REMOTE_CLOSED, REMOTE_OPEN

__all__ = ["accept_router"]

_KINDS: Final = {
    Interaction.REQUEST_RESPONSE: MethodKind.UNARY,
    Interaction.FIRE_AND_FORGET: MethodKind.UNARY,
    Interaction.REQUEST_STREAM: MethodKind.SERVER_STREAM,
    Interaction.REQUEST_CHANNEL: MethodKind.BIDI_STREAM,
}


def accept_router(
    responder: Responder, data_mime_type: str | None, patience: float
) -> Callable[[Peer], Awaitable[Methods | None]]:
    """Return a function that asks a responder about a connection.

    Args:
        responder: The router.
        data_mime_type: The MIME type of messages; by default that of protobuf.
        patience: The time for the guards, in seconds.

    Returns:
        The function. It returns the methods of the connection, or ``None`` if the connection is
        refused, which is logged.

    Raises:
        TypeError: The MIME type is not a str.
        ValueError: It is no MIME type.
    """
    mime_type: object = data_mime_type
    if data_mime_type is None:
        mime_type = WellKnownMimeType.PROTOBUF.mime_type
    mime_type = check_mime_type(mime_type, "data_mime_type")

    async def accept(peer: Peer) -> Methods | None:
        setup, info = setup_of(peer, mime_type), peer.transport

        async def ask() -> Methods:
            return _Routes(await accept_with(responder, setup, mute_requester(info)))

        return await admitted(
            ask, info, peer="the client", patience=patience, setting="connect_timeout"
        )

    return accept


class _Routes:
    """The routes of a responder as methods; see `rsocket_trio.ttrpc.server.bound.Methods`."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self.unary: Mapping[bytes, ServedMethod] = {}  # the flags of a request may matter
        self._known: dict[tuple[str, str, MethodKind], ServedMethod] = {}
        self._services: frozenset[str] | None = None  # made for the first call of an unknown one

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        return self._responder.connection_block()

    def has_service(self, service: str) -> bool:
        if not isinstance(self._responder, BoundRouter):
            return True
        if self._services is None:
            routes = self._responder.routes()
            self._services = frozenset(each.rpartition("/")[0] for each in routes)
        return service in self._services

    def find(self, service: str, method: str, flags: int) -> ServedMethod | None:
        if not service or not method:
            return None
        interaction = self._interaction(f"{service}/{method}", flags)
        if interaction is None:
            return self._unknown(service, method, _meant(flags))
        key = (service, method, _KINDS[interaction])
        served = self._known.get(key)
        if served is None:
            try:
                served = self._serve(*key, interaction)
            except MetadataError:  # longer than a route may be, so that nobody can have it
                return None
            # Routes without variables are limited in number.
            if isinstance(self._responder, BoundRouter) and (
                f"{service}/{method}" in self._responder.routes()
            ):
                self._known[key] = served
        return served

    def _interaction(self, route: str, flags: int) -> Interaction | None:
        meant = _meant(flags)
        if not isinstance(self._responder, BoundRouter):
            return meant
        found = self._responder.first_of((meant, *_KINDS), route)
        return None if found is None else found[0]

    def _unknown(self, service: str, name: str, meant: Interaction) -> ServedMethod | None:
        """Let guards and middleware see a call without a handler, if there are any."""
        try:
            metadata = Metadata(route=f"{service}/{name}").encode()
        except MetadataError:  # as in `find`
            return None
        if self._responder.body_responder(meant, metadata) is None:
            return None
        served = self._serve(service, name, _KINDS[meant], meant)
        served.start = _refusing(served.start, no_method(self, service, name), meant)
        return served

    def _serve(
        self, service: str, name: str, kind: MethodKind, interaction: Interaction
    ) -> ServedMethod:
        method = Method(service, name, kind, BYTES, BYTES)
        route = f"{service}/{name}"
        plain = Metadata(route=route).encode()
        responder = self._responder

        def payload(data: bytes, call: Call) -> Payload:
            return Payload(data, call.metadata.encode() if call.pairs else plain)

        async def reply(data: bytes, call: Call) -> AnyPayload | None:
            answer = await responder.request_response(payload(data, call))
            if isinstance(answer, StreamedPayload):
                return Payload(await in_one_piece(answer))
            return answer

        async def take(data: bytes, call: Call) -> None:
            await responder.fire_and_forget(payload(data, call))

        def stream(data: bytes, call: Call) -> Any:
            return responder.request_stream(payload(data, call))

        async def channel(messages: MessageStream[bytes], call: Call) -> AnyItems:
            payloads = _Payloads(messages)
            first = await payloads.first()
            items = responder.request_channel(payload(first, call), payloads)
            return await items if isinstance(items, Awaitable) else items

        start: Any = {
            Interaction.REQUEST_RESPONSE: reply,
            Interaction.FIRE_AND_FORGET: take,
            Interaction.REQUEST_STREAM: stream,
            Interaction.REQUEST_CHANNEL: channel,
        }[interaction]
        return ServedMethod(
            method=method,
            interaction=interaction,
            start=start,
            wants_call=True,
            decode=BYTES.decode,
            encode=_data_of,
        )


def _meant(flags: int) -> Interaction:
    """Return what a client means that sends these flags."""
    if flags & REMOTE_OPEN:
        return Interaction.REQUEST_CHANNEL
    return Interaction.REQUEST_STREAM if flags & REMOTE_CLOSED else Interaction.REQUEST_RESPONSE


def _refusing(start: Handler, refusal: Unimplemented, meant: Interaction) -> Handler:
    """Return a handler that gives the answer of ttrpc where a router has no handler."""

    async def refuse(request: Any, call: Any) -> Any:
        try:
            return await start(request, call)
        except NoHandler:
            raise fresh_copy(refusal) from None

    async def refuse_stream(request: Any, call: Any) -> AsyncIterator[Any]:
        try:
            items = start(request, call)
            async with aclosing(await items) as refused:
                yield await anext(refused)
        except NoHandler:
            raise fresh_copy(refusal) from None

    return refuse if meant is Interaction.REQUEST_RESPONSE else refuse_stream


def _data_of(answer: AnyPayload | None) -> bytes:
    if answer is None:
        return b""
    if isinstance(answer, StreamedPayload):
        raise TypeError("an item of a stream over ttrpc cannot be a StreamedPayload")
    return bytes(answer.data)


class _Payloads(trio.abc.ReceiveChannel[Payload]):
    """The messages of a client as payloads, the first one included."""

    def __init__(self, messages: MessageStream[bytes]) -> None:
        self._messages = messages
        self._first: list[Payload] = []

    async def first(self) -> bytes:
        """Wait for the first message; the stream may have none.

        Checkpoint: always.
        If cancelled: no message is lost.
        """
        try:
            data = await self._messages.receive()
        except trio.EndOfChannel:
            return b""
        self._first.append(Payload(data))
        return data

    async def receive(self) -> Payload:
        if self._first:
            await trio.lowlevel.checkpoint()
            return self._first.pop()
        return Payload(await self._messages.receive())

    async def aclose(self) -> None:
        await self._messages.aclose()
