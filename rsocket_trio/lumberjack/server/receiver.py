"""One connection of a sender: `Receiver`.

Its tasks: one reads and collects batches, one has them handled in order, one writes ACKs.

    read -> room of the server -> waiting batches -> handler -> ACKs
"""

from __future__ import annotations

from math import inf
from typing import Final

import attrs
import trio

from ...errors import ConnectionLost, RemoteProtocolError
from ...interactions.leftovers import Watch, watched
from ...log_policy import logger
from ...sealed import make
from ...sockets.byte_stream import ByteStream
from ...sockets.departure import has_left
from ...sockets.failures import describe_failure
from ...sockets.farewell import half_close
from ...sockets.peer import Turn
from ..wire.batches import IncomingBatch, held_size
from .acknowledgements import AckWriter, BatchProgress
from .batch import Batch, PoisonHook
from .bytes_in import TimedReader
from .config import LumberjackConfig
from .handling import Handler, call, judge
from .incoming_memory import IncomingMemory, ShareOfIncoming
from .room import Room, ShareOfRoom
from .turns import ShareOfTurns, Turns
from .waiting import WaitingBatches

__all__ = ["Receiver", "Shared", "Totals"]

_STRANGE: Final = (
    "; nothing valid came before: check that it ships by Lumberjack (Beats: output.logstash), and "
    "uses TLS exactly for addresses lumberjacks://"
)
_HANDLING: Final = 4
"""The work of a handler for a byte of its batch: it decodes events, usually at once."""
_LAST_MOMENT: Final = 1.0
"""Seconds in which ACKs that were handed over may leave, if the connection is cancelled."""


@attrs.define(kw_only=True)
class Totals:
    """Counts over all connections of a server, since its start.

    Attributes:
        batches: Batches that were handled.
        events: Events in these batches.
        acknowledged: Events that were acknowledged.
    """

    batches: int = 0
    events: int = 0
    acknowledged: int = 0


@attrs.frozen(kw_only=True)
class Shared:
    """What all connections of a server share.

    Attributes:
        handler: Called with each batch.
        on_poison: Called with each event that cannot be decoded, or ``None``.
        config: Limits and times.
        room: Bounds the batches that are held.
        intake: Bounds what has been read besides.
        turns: Bounds the work of one turn of the loop.
        totals: Counts.
    """

    handler: Handler
    on_poison: PoisonHook | None
    config: LumberjackConfig
    room: Room
    intake: IncomingMemory
    turns: Turns = attrs.field(factory=Turns)
    totals: Totals = attrs.field(factory=Totals)


class Receiver:
    """Receives from one sender until one of both ends it.

    Args:
        stream: The connection. The caller closes it afterwards.
        shared: What all connections share.

    Attributes:
        turn: When the batch came whose handler begins.
    """

    def __init__(self, stream: ByteStream, shared: Shared) -> None:
        config = shared.config
        self.turn: Final = Turn()
        self._shared: Final = shared
        self._info: Final = stream.info
        self._stream: Final = stream.stream
        self._name: Final = stream.info.peer or "a peer"
        self._incoming: Final = ShareOfIncoming(shared.intake, self._evict)
        self._turns: Final = ShareOfTurns(shared.turns)
        self._reader: Final = TimedReader(
            stream.stream,
            config,
            self._incoming,
            self._turns,
            owes=lambda: any(self._owed),
            pauses=lambda: self._acks.arm(),
        )
        self._waiting: Final = WaitingBatches(config.max_waiting_batches)
        self._share: Final = ShareOfRoom(shared.room)
        self._acks: Final = AckWriter(
            stream.stream,
            keepalive_interval=config.keepalive_interval,
            send_timeout=config.send_timeout,
            awaited=lambda: self._reader.pausing or any(self._owed),
            wants_keepalive=self._wants_keepalive,
            departed=self._departed,
            lost=self._lose,
        )
        self._handling: tuple[Batch, BatchProgress, int] | None = None
        self._owed = [0, 0]  # Batches of version 1 and 2 that are not acknowledged.
        self._reading = trio.CancelScope()
        self._stopping = False
        self._everything: Final = trio.CancelScope()
        self._began = False  # Whether a batch has arrived.
        self._lost = False

    async def run(self) -> None:
        """Receive until the sender leaves, `stop` is called, or something fails.

        Failures are logged and not raised.

        Checkpoint: always.
        If cancelled: the handler is cancelled; ACKs that were handed over leave, within a second.
        """
        patience = _LAST_MOMENT
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._acks.run)
                try:
                    with self._everything:
                        await self._receive()
                        patience = self._shared.config.send_timeout
                finally:
                    self._acks.finish(patience)
        finally:
            self._share.close()
            self._incoming.close()
        if not self._lost:
            await half_close(self._stream, self._shared.config.close_timeout)

    def stop(self, reason: str = "", deadline: float = inf) -> None:
        """Read no more; the batches that have been read are handled, and acknowledged.

        Args:
            reason: Why, for our side: the protocol has no words for it.
            deadline: Handlers that run then are cancelled, by trio's clock.
        """
        self._stopping = True
        self._reading.cancel(reason=reason or "the connection was closed here")
        self._everything.deadline = min(self._everything.deadline, deadline)

    def _evict(self) -> None:
        """End the connection, because others need the memory of its incomplete batch."""
        logger.warning(
            "closing the connection of the sender %s: other senders wait for the memory that its"
            " incomplete batch takes (max_incoming_size)",
            self._name,
        )
        self._stopping = True
        self._reading.cancel(reason="other senders need the memory")

    async def _receive(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            await self._work()
            nursery.cancel_scope.cancel(reason="no more batches are handled")

    async def _read(self) -> None:
        try:
            while not self._stopping:
                batches: list[IncomingBatch] | None = []
                with trio.CancelScope() as self._reading:
                    await self._waiting.wait_room()
                    self._reader.resumed()
                    batches = await self._reader.read()
                if batches is None:
                    self._lose("it closed the connection")
                    return
                await self._take(batches)
                del batches  # Do not hold the events while waiting for the next ones.
        except trio.BrokenResourceError as error:
            self._lose(describe_failure(error))
        except RemoteProtocolError as error:
            logger.warning(
                "closing the connection of the sender %s: %s%s",
                self._name,
                error,
                "" if self._began else _STRANGE,
            )
        finally:
            self._reader.close()
            self._waiting.close()

    async def _take(self, batches: list[IncomingBatch]) -> None:
        """Queue batches, each when there is room for it."""
        self._began = self._began or bool(batches)
        now = trio.current_time()
        for batch in batches:
            self._owed[batch.version - 1] += 1
        self._acks.arm()
        for batch in batches:
            await self._waiting.wait_room()
            size = held_size(batch)
            await self._share.take(size)
            self._reader.delivered(size)
            self._waiting.put(batch, size, now)

    async def _work(self) -> None:
        """Have the batches handled, one after the other, until there is no more or one fails.

        One task handles many, as a task for each costs as much as ten events. The next one begins
        when a handler has left something behind in its task.
        """
        going_on = True
        while going_on:
            error = await watched(self._handle_some)
            if self._handling is None:  # Not the handler has ended the task.
                if error is not None:
                    raise error
                return
            batch, progress, size = self._handling
            self._handling = None
            going_on = self._finish(len(batch), progress, size, succeeded=error is None)
            if error is not None:
                judge(error, batch)
            del batch, progress, error  # As above.

    async def _handle_some(self, watch: Watch) -> None:
        while (taken := await self._waiting.get()) is not None:
            if not await self._handle(*taken, watch):
                return
            del taken  # As above.

    async def _handle(
        self, incoming: IncomingBatch, size: int, arrived: float, watch: Watch
    ) -> bool:
        """Handle one batch; return whether to go on in this task."""
        await self._acks.wait_backlog()
        await self._turns.take(_HANDLING * size)
        version = incoming.version
        progress = BatchProgress(incoming, self._acks, lambda: self._done(version))
        if len(incoming):  # such a batch is true, see there
            batch = make(Batch, incoming, self._info, progress)
            self._handling = batch, progress, size
            self.turn.arrived = arrived
            await call(self._shared.handler, self._shared.on_poison, batch)
            if watch.changed():
                return False
            self._handling = None
        return self._finish(len(incoming), progress, size, succeeded=True)

    def _finish(self, events: int, progress: BatchProgress, size: int, *, succeeded: bool) -> bool:
        """Acknowledge a batch if its handler has succeeded; return whether to go on."""
        try:
            if succeeded:
                progress.advance(events)
        except ConnectionLost:
            succeeded = False  # The writer has reported it, and everything is being cancelled.
        totals = self._shared.totals
        totals.batches += bool(events)
        totals.events += events
        totals.acknowledged += progress.acknowledged
        if succeeded:
            self._share.give_back(size)
        return succeeded

    def _done(self, version: int) -> None:
        self._owed[version - 1] -= 1
        self._reader.answered()

    def _wants_keepalive(self) -> bool:
        of_version_1, of_version_2 = self._owed
        return of_version_2 > 0 and not of_version_1

    def _departed(self) -> bool:
        return not self._reader.reading and has_left(self._stream)

    def _lose(self, why: str) -> None:
        """End the connection, as the sender is gone: its handler is cancelled."""
        if self._lost:
            return
        self._lost = True
        owed = sum(self._owed)
        if owed or self._reader.inside:
            logger.info(
                "the sender %s is gone, with %d batches not acknowledged%s: %s",
                self._name,
                owed,
                " and one not complete" if self._reader.inside else "",
                why,
            )
        else:
            logger.debug("the sender %s is gone: %s", self._name, why)
        self._everything.cancel(reason="the sender is gone")
