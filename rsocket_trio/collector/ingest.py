"""Events that come by RSocket into the spool: `Ingest` and its router."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Final, cast
from weakref import WeakSet

import attrs
import trio

from ..codecs import DEFAULT_CODECS
from ..errors import Rejected, RSocketError
from ..interactions.demand import PayloadStream
from ..log_policy import logger
from ..metadata import MIME
from ..payload import Payload
from ..responder import Setup
from ..routing import Router
from ..spool import SpoolError
from .gathering import Gathering, batches_of, size_of
from .ingest_config import IngestConfig
from .messages import EVENTS, Receipt
from .own_metadata import Item, own_metadata
from .refusals import refusal
from .storage import Storage

__all__ = ["Ingest", "drain"]


@attrs.define(eq=False)
class _Pending:
    """Events of fire_and_forget of one connection that wait to be stored."""

    facts: dict[str, str]
    items: deque[Item] = attrs.field(factory=deque)
    size: int = 0
    enough: trio.Event = attrs.field(factory=trio.Event)


class Ingest:
    """Stores the events that peers send to the route `EVENTS`.

    Args:
        storage: Where to store them.
        config: How they form batches.
        nursery: For the tasks that store events of fire_and_forget.
    """

    def __init__(self, storage: Storage, config: IngestConfig, nursery: trio.Nursery) -> None:
        self._storage: Final = storage
        self._config: Final = config
        self._nursery: Final = nursery
        self._pending: Final[dict[int, _Pending]] = {}
        self._pending_size = 0
        # The channels of each connection, by the id of its setup.
        self._channels: Final[Counter[int]] = Counter()
        self._idle = trio.Event()
        self._idle.set()
        self._scopes: Final[WeakSet[trio.CancelScope]] = WeakSet()  # those that wait now

    @property
    def pending_size(self) -> int:
        """The bytes of fire_and_forget that wait to be stored."""
        return self._pending_size

    def stop(self) -> None:
        """Take no more events, and store those that have come."""
        for scope in list(self._scopes):
            scope.cancel(reason="the collector is stopping")
        for pending in self._pending.values():
            pending.enough.set()

    async def wait_idle(self) -> None:
        """Wait until the events of fire_and_forget are stored."""
        await self._idle.wait()

    @contextmanager
    def until_stopped(self) -> Iterator[Callable[[], None]]:
        """Surround a wait for events: it ends when the collector stops.

        Yields:
            A function that ends this: the rest of the block goes on when the collector stops.
        """
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            if self._storage.stopping.is_set():
                scope.cancel(reason="the collector is stopping")
            yield partial(self._scopes.discard, scope)

    # -- fire_and_forget ------------------------------------------------------------------------

    def offer(self, payload: Payload, setup: Setup) -> None:
        """Take an event of fire_and_forget, or drop it."""
        item = own_metadata(payload, setup.data_mime_type, setup.metadata_mime_type)
        size = size_of(item.payload)
        pending = self._pending.get(id(setup))
        used = 0 if pending is None else pending.size
        if (
            self._storage.stopping.is_set()
            or used + size > self._config.max_pending_size
            or self._pending_size + size > self._config.max_all_pending_size
            or (pending is None and len(self._pending) >= self._config.max_pending_connections)
        ):
            self._storage.dropped += 1
            logger.warning(
                "an event of fire_and_forget from %s is dropped: %d bytes wait to be stored",
                setup.transport.peer,
                self._pending_size,
            )
            return
        if pending is None:
            pending = self._pending[id(setup)] = _Pending(_facts_of(setup))
            self._idle = trio.Event() if self._idle.is_set() else self._idle
            # The task has the setup, so its id is not used again meanwhile.
            self._nursery.start_soon(self._store, pending, setup)
        pending.items.append(item)
        pending.size += size
        self._pending_size += size
        if self._is_enough(pending):
            pending.enough.set()

    def _is_enough(self, pending: _Pending) -> bool:
        config = self._config
        return (
            len(pending.items) >= config.max_batch_events or pending.size >= config.max_batch_size
        )

    async def _store(self, pending: _Pending, setup: Setup) -> None:
        """Store what waits, until nothing waits."""
        try:
            while pending.items:
                if not self._storage.stopping.is_set():
                    with trio.move_on_after(self._config.linger):
                        await pending.enough.wait()
                items, size = self._take(pending)
                batches = batches_of(items, pending.facts)
                del items  # The batches have copies, which may wait for room.
                await self._storage.append_or_drop(batches, setup.transport.peer)
                pending.size -= size
                self._pending_size -= size
                if not self._is_enough(pending):
                    pending.enough = trio.Event()
        except SpoolError as error:
            self._storage.dropped += len(pending.items)
            logger.error("events of fire_and_forget are lost: %s", error)
        finally:
            self._pending_size -= pending.size
            del self._pending[id(setup)]
            if not self._pending:
                self._idle.set()

    def _take(self, pending: _Pending) -> tuple[list[Item], int]:
        items: list[Item] = []
        size = 0
        while (
            pending.items
            and len(items) < self._config.max_batch_events
            and size < self._config.max_batch_size
        ):
            item = pending.items.popleft()
            items.append(item)
            size += size_of(item.payload)
        return items, size

    # -- request_channel ------------------------------------------------------------------------

    async def receive(self, stream: PayloadStream, setup: Setup) -> AsyncGenerator[Receipt, None]:
        """Store the events of a channel, and yield a receipt for each batch that is durable.

        Raises:
            StreamError: The spool has failed, a batch is larger than it, or the requester has ended
                its half with an error.
        """
        gathering = Gathering(stream, self._config)
        facts = _facts_of(setup)
        data_type = setup.data_mime_type
        going_on = True
        while going_on:
            going_on = await self.fill(gathering)
            items = []
            for payload in gathering.take():
                item = own_metadata(payload, data_type, setup.metadata_mime_type)
                # A stream names the MIME type of its items in the first one.
                data_type = item.mime_type
                items.append(item)
            for batch in batches_of(items, facts):
                try:
                    first = await self._storage.append(batch)
                except SpoolError as error:
                    raise refusal(error) from None
                yield Receipt(first=first, count=batch.count)

    @contextmanager
    def _channel_of(self, setup: Setup) -> Iterator[None]:
        """Count a channel of a connection, for the time of the block.

        Raises:
            Rejected: There are too many.
        """
        most = self._config.max_channels_per_connection
        if self._channels[id(setup)] >= most:
            raise Rejected(
                f"{most} channels of events are open on this connection "
                "(max_channels_per_connection): end one of them"
            )
        # The channel has the setup, so its id is not used again meanwhile.
        self._channels[id(setup)] += 1
        try:
            yield
        finally:
            if left := self._channels.pop(id(setup)) - 1:
                self._channels[id(setup)] = left

    async def fill(self, gathering: Gathering) -> bool:
        """Gather events; return whether more may come.

        Raises:
            RSocketError: The stream has failed, and no event was taken.
        """
        going_on = False
        with self.until_stopped(), suppress(trio.EndOfChannel):
            await gathering.fill()
            going_on = True
        if not going_on:
            drain(gathering)
        return going_on

    def router(self) -> Router:
        """Return a router with the route `EVENTS`."""
        router = Router()

        @router.fire_and_forget(EVENTS)
        async def event(payload: Payload, setup: Setup) -> None:
            self.offer(payload, setup)

        @router.request_channel(EVENTS)
        async def events(
            stream: trio.abc.ReceiveChannel[Payload], setup: Setup
        ) -> AsyncIterator[Payload]:
            write = _receipt_writer(setup.data_mime_type)
            # The parameter of a channel of payloads is the stream itself.
            own = cast("PayloadStream", stream)
            with self._channel_of(setup):
                async with aclosing(self.receive(own, setup)) as receipts:
                    async for receipt in receipts:
                        yield Payload(write(receipt))

        return router


def _facts_of(setup: Setup) -> dict[str, str]:
    facts = {"source": "rsocket", "route": EVENTS}
    if setup.transport.peer:
        facts["peer"] = setup.transport.peer
    return facts


def _receipt_writer(mime_type: str) -> Callable[[Receipt], bytes]:
    """Return what writes receipts: as CBOR if the connection has CBOR, otherwise as JSON."""
    is_cbor = DEFAULT_CODECS.registered(mime_type) == MIME.CBOR
    return DEFAULT_CODECS.encoder(Receipt, MIME.CBOR if is_cbor else MIME.JSON)


def drain(gathering: Gathering) -> None:
    """Take what has arrived already, of a stream that is going to be left."""
    with suppress(trio.EndOfChannel, RSocketError):  # that it has ended does not matter any more
        while not gathering.full and gathering.take_one():
            pass
