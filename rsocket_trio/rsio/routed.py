"""Serve a `rsocket_trio.Router` over rsio: `accept_router`.

The route is the name of a publisher before ``?``, and the query has the arguments
(`rsocket_trio.rsio.queries`). A request_stream handler answers with its items, a request_response
handler with one. The router treats the peer as a client whose SETUP has no metadata: guards are
asked about the connection, and about each subscription. A handler with a parameter annotated
`rsocket_trio.rsio.Connection` gets the connection, and can subscribe to publishers of the peer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import attrs
import trio

from ..errors import ConnectFailed, Invalid, MetadataError, addressed
from ..interactions.isolation import failure_of
from ..metadata.builder import Metadata
from ..metadata.mime_types import MIME
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..responder import Acceptor, Responder, accept_with
from ..routing.admission import admitted
from ..routing.bound import BoundRouter
from ..routing.converted_streams import in_one_piece
from ..routing.parameters import register_fact
from ..routing.request import NoHandler
from ..routing.stand_ins import mute_requester, setup_of
from ..sockets.peer import Peer, Turn
from ..stopping import Stopping
from ..streamed import StreamedPayload
from .connection.connection import Connection
from .errors import PublisherError
from .queries import arguments, missing, split_name

if TYPE_CHECKING:
    from ..sockets.byte_stream import TransportInfo

__all__ = ["accept_router"]

CONNECTION: Final = "rsio"
"""Where `TransportInfo.extra` has the connection."""

_KINDS: Final = (Interaction.REQUEST_STREAM, Interaction.REQUEST_RESPONSE)

register_fact(Connection, CONNECTION)


async def accept_router(
    responder: Responder | Acceptor,
    info: TransportInfo,
    connection: Connection,
    peer: Peer,
    stopping: Stopping,
    data_mime_type: str,
    patience: float,
    *,
    ours: bool,
) -> tuple[Callable[[str, Connection], Any], AbstractAsyncContextManager[None] | None]:
    """Ask a responder about a connection.

    Args:
        responder: The router.
        info: Facts about the transport.
        connection: The connection.
        peer: The same for the application.
        stopping: Tells that the connection drains.
        data_mime_type: The MIME type of results.
        patience: The time for the guards, in seconds.
        ours: We have opened the connection.

    Returns:
        A function that finds publishers by their names; and the block of the connection.

    Raises:
        ConnectFailed: The connection is refused, which is logged.

    Checkpoint: always.
    If cancelled: the guards are cancelled.
    """
    known = attrs.evolve(info, extra={**info.extra, CONNECTION: connection})
    setup = setup_of(peer, data_mime_type, transport=known, stopping=stopping, ours=ours)

    async def ask() -> _Routes:
        turn = peer._turn  # noqa: SLF001 - not for applications
        return _Routes(await accept_with(responder, setup, mute_requester(info)), turn)

    name = "the server" if ours else "the client"
    routes = await admitted(ask, info, peer=name, patience=patience, setting="connect_timeout")
    if routes is None:
        raise ConnectFailed("the guards of the Router refused the connection")
    return routes.find, routes.connection_block()


class _Routes:
    """The handlers of a responder as publishers."""

    def __init__(self, responder: Responder, turn: Turn) -> None:
        self._responder = responder
        self._turn = turn

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        """See `rsocket_trio.Responder.connection_block`."""
        return self._responder.connection_block()

    def find(self, name: str, _connection: Connection) -> Any:
        """Return what a name stands for; ``None`` if no handler has this route."""
        route, pairs = split_name(name)
        responder = self._responder
        interaction = Interaction.REQUEST_STREAM
        signature = None
        if isinstance(responder, BoundRouter):
            found = responder.first_of(_KINDS, route)
            if found is None:
                return self._unknown(responder, route)
            interaction, signature = found
        try:
            metadata = Metadata(route=route, data_mime_type=MIME.JSON if pairs else None).encode()
        except MetadataError:  # longer than a route may be, so that nobody can have it
            return None
        payload = Payload(arguments(pairs, signature), metadata)
        hint = missing(route, pairs, signature)
        arrived = self._turn.arrived  # now: the handlers of others begin before this one
        if interaction is Interaction.REQUEST_RESPONSE:
            return _Answers(self._answer(payload, hint, arrived))
        return self._stream(payload, hint, arrived)

    def _unknown(self, router: BoundRouter, route: str) -> Any:
        """Let guards and middleware see a name without a handler, if there are any."""
        try:
            metadata = Metadata(route=route).encode()
        except MetadataError:  # as in `find`
            return None
        if router.body_responder(Interaction.REQUEST_STREAM, metadata) is None:
            return None
        return _refused(router, Payload(b"", metadata))

    async def _answer(
        self, payload: Payload, hint: str, arrived: float | None
    ) -> AsyncIterator[Any]:
        """Give one answer, or none; a subscriber may leave before this begins."""
        with _hinting(hint):
            self._turn.arrived = arrived
            answer = await self._responder.request_response(payload)
        if answer is not None:
            yield answer

    async def _stream(self, payload: Payload, hint: str, arrived: float | None) -> Any:
        with _hinting(hint):
            self._turn.arrived = arrived
            items: Any = self._responder.request_stream(payload)
            if isinstance(items, Awaitable):
                items = await items
        source = getattr(items, "source", items)
        if getattr(source, "element_size", 0):
            return source  # of `fixed_size`: its items are bytes, and their size is worth telling
        return _Answers(items)


async def _refused(router: BoundRouter, payload: Payload) -> None:
    """Wait for the refusal of a request without a handler: the publisher is unknown."""
    items: Any = router.request_stream(payload)
    try:
        async with aclosing(await items) as refused:
            await anext(refused)
    except NoHandler:
        return


@contextmanager
def _hinting(hint: str) -> Iterator[None]:
    """Say how to give arguments, if none were given and the handler could not be called."""
    try:
        yield
    except Invalid as error:
        if not hint or addressed(error, Invalid) is None:
            raise
        raise PublisherError(f"{error.message}; {hint}") from error


class _Answers(AsyncIterator[bytes]):
    """The items of a handler as elements. The task that iterates closes it."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self._iterator: Any = None

    async def __anext__(self) -> bytes:
        if self._iterator is None:
            self._iterator = aiter(self._items)
        try:
            item: Any = await self._iterator.__anext__()
        except trio.Cancelled as error:  # one that belongs to no scope is a fault of the handler
            raise failure_of(error) from error
        if isinstance(item, StreamedPayload):
            return await in_one_piece(item)
        return cast("bytes", item.data)

    async def aclose(self) -> None:
        """Close the handler's iterator, if it can be closed.

        Checkpoint: as the handler's iterator does.
        If cancelled: as the handler's iterator does.
        """
        close = getattr(self._iterator or self._items, "aclose", None)
        if close is not None:
            await close()
