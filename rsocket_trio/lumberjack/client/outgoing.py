"""One connection of a client: `Outgoing`.

It has two tasks: one forms and writes windows, one reads ACKs and watches the time.
"""

from __future__ import annotations

from math import inf
from typing import Final

import attrs
import trio

from ...errors import RemoteProtocolError
from ...sockets.failures import describe_failure
from ..wire.acks import AckReader
from .backlog import Backlog
from .bell import Bell
from .config import ShipperConfig
from .deliveries import Piece
from .event_encoder import EventEncoder
from .flight import Flight
from .forming import form, pack
from .window_size import WindowSize

__all__ = ["Load", "Outgoing", "Totals"]

_READ_SIZE: Final = 4096
"""Bytes of ACKs in one read: some hundred. A flood does not keep other tasks waiting for long."""

_CHUNK: Final = 128 * 2**10
"""Bytes of one write. Each one that a slow network has taken is a sign of life of the server."""

_STRANGE: Final = (
    " without an answer: its log may say why; check that it speaks this version of Lumberjack, "
    "that it uses TLS exactly for addresses lumberjacks://, and that it accepts the certificate of "
    "this client"
)


@attrs.define(kw_only=True)
class Totals:
    """Counts over all connections of a client.

    Attributes:
        sent: Events that were written, each time.
        resent: Events that were on the way when their connection was lost, and queued again.
        acknowledged: Events that were acknowledged.
    """

    sent: int = 0
    resent: int = 0
    acknowledged: int = 0


@attrs.frozen(kw_only=True)
class Load:
    """What all connections of a client share.

    Attributes:
        config: Times and sizes.
        encoder: Encodes events.
        backlog: The events that wait.
        bell: Rung when there may be something to do.
        totals: Counts.
    """

    config: ShipperConfig
    encoder: EventEncoder
    backlog: Backlog
    bell: Bell
    totals: Totals = attrs.field(factory=Totals)


class Outgoing:
    """Ships events on one connection, until it is lost or its time is over.

    Args:
        stream: The connection. The caller closes it afterwards.
        load: What all connections share.
        window: The size of the windows of this host.

    Attributes:
        flight: The windows on the way.
        trouble: Why the connection is lost; ``None`` if its time is over.
        busy: Whether windows were on the way at the end.
        returned: How many of their events will be sent again: those of callers that still wait.
    """

    def __init__(self, stream: trio.abc.Stream, load: Load, window: WindowSize) -> None:
        config = load.config
        self._stream: Final = stream
        self._load: Final = load
        self._window: Final = window
        self._acks: Final = AckReader(config.version)
        self.flight: Final = Flight(config.pipelining, config.ack_timeout, config.ack_deadline)
        self.trouble: str | None = None
        self.busy: bool  # Both are known when it is over.
        self.returned: int
        self._forming: list[Piece] = []
        ttl = inf if config.connection_ttl is None else config.connection_ttl
        self._expires: Final = trio.current_time() + ttl
        self._most: Final = min(
            config.limits.max_window, config.limits.max_compressed_frames, config.max_window
        )
        # Whether a window was sent. Each connection sends one, also if its time is over before:
        # otherwise a short time, or a slow machine, would make connections without end.
        self._used = False
        self._answered = False  # Whether anything has arrived.
        self._everything: Final = trio.CancelScope()
        self._watch = trio.CancelScope()  # While the reader waits.

    async def run(self) -> None:
        """Ship until the connection is lost, or its time is over and nothing is on the way.

        Then the events that are not acknowledged are in the backlog again.

        Checkpoint: always.
        If cancelled: at once, with the same effect.
        """
        try:
            with self._everything:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read)
                    await self._write()
                    nursery.cancel_scope.cancel(reason="the time of the connection is over")
        finally:
            load = self._load
            self.busy = bool(self.flight)
            self.returned = load.backlog.give_back(self.flight.land())
            load.totals.resent += self.returned
            load.backlog.give_back(self._forming)

    def _lose(self, why: str) -> None:
        if self.trouble is None:
            self.trouble = why
            self._everything.cancel(reason="the connection to the server is lost")

    # -- events ---------------------------------------------------------------------------------

    async def _write(self) -> None:
        load = self._load
        while await self._wait_due():
            self._forming = load.backlog.take(min(self._window.size, self._most))
            size = min(load.config.max_window_size, load.encoder.max_frames)
            if load.config.version == 1:  # A pair takes eight bytes at least.
                size = min(size, 8 * load.config.limits.max_batch_pairs)
            formed = await form(self._forming, load.encoder, size, load.backlog.fail)
            self._forming = formed.pieces
            load.backlog.give_back(formed.rest)
            if not formed.pieces:
                continue
            data = await pack(formed.events, load.encoder)
            self._forming = []
            load.totals.sent += self.flight.launch(formed.pieces, trio.current_time())
            self._used = True
            del formed  # Its events are in `data`, and those of the caller are in the backlog.
            self._watch_time()
            try:
                await self._send(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._lose(describe_failure(error))  # The next checkpoint is cancelled.
            del data

    async def _wait_due(self) -> bool:
        """Wait until a window is to be sent; return false if the time of the connection is over."""
        flight, backlog = self.flight, self._load.backlog
        await trio.lowlevel.checkpoint()  # Others run between windows, and may add events.
        with trio.CancelScope(deadline=self._expires):
            await self._load.bell.wait_until(lambda: flight.has_room and backlog.waiting)
        if trio.current_time() < self._expires or (backlog.waiting and not self._used):
            return True
        await self._load.bell.wait_until(lambda: not flight)
        return False

    async def _send(self, data: bytes) -> None:
        if len(data) <= _CHUNK:
            await self._stream.send_all(data)
            return
        with memoryview(data) as view:
            for start in range(0, len(view), _CHUNK):
                with view[start : start + _CHUNK] as chunk:
                    await self._stream.send_all(chunk)
                self.flight.alive(trio.current_time())
                self._watch_time()

    # -- acknowledgements ----------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while not self._acks.refused:
                data = await self._receive()
                if data is None:
                    return
                if not data:
                    strange = self.flight and not self._answered
                    self._lose(f"the server closed the connection{_STRANGE if strange else ''}")
                    return
                self._answered = True
                self._take(self._acks.feed(data))
            self._acks.feed(b"")  # Raises the error, now that the numbers before it are taken.
        except RemoteProtocolError as error:
            self._lose(str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._lose(describe_failure(error))

    async def _receive(self) -> bytes | bytearray | None:
        """Wait for bytes; ``None``: the server is overdue."""
        while True:
            with trio.CancelScope(deadline=self.flight.deadline) as self._watch:
                return await self._stream.receive_some(_READ_SIZE)
            if trio.current_time() >= self.flight.deadline:
                self._lose(self.flight.overdue())
                return None

    def _take(self, numbers: list[int]) -> None:
        flight, before = self.flight, self.flight.acknowledged
        try:
            for count in flight.acknowledge(numbers, trio.current_time()):
                self._window.acknowledged(count)
        finally:
            self._load.totals.acknowledged += flight.acknowledged - before
            self._load.bell.ring()

    def _watch_time(self) -> None:
        """Let the reader wait until the present deadline."""
        self._watch.deadline = self.flight.deadline
