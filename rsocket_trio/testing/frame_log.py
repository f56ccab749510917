"""What passed between two peers, and whether it kept to demand: `FrameLog`, `recorded`."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal, TypeAlias

import attrs
import trio

from ..connection.dialling import Dial
from ..errors import RemoteProtocolError
from ..frames.payload import PayloadFrame
from ..frames.request import RequestChannelFrame, RequestStreamFrame
from ..frames.request_n import RequestNFrame
from ..frames.union import Frame, decode
from ..transports.base import FrameTransport
from ..transports.wrapper import TransportWrapper

__all__ = ["End", "FrameLog", "Passed", "recorded"]

End: TypeAlias = Literal["client", "server"]
"""The end that sent a frame."""

_UNLIMITED: Final = 2**31 - 1


@attrs.frozen
class Passed:
    """One frame that passed.

    Attributes:
        by: The end that sent it.
        connection: The number of the connection, from 1.
        data: The frame, without the prefix of its length.
        frame: The same, decoded; ``None`` if it is no frame of RSocket 1.0.
    """

    by: End
    connection: int
    data: bytes = attrs.field(repr=False)
    frame: Frame | None


@attrs.define
class _Demand:
    """The items of one direction of a stream: how many were requested, and how many came."""

    requested: int = 0
    items: int = 0


class FrameLog:
    """Remembers frames that passed, and counts demand.

    Args:
        keep: The number of frames that are remembered, the latest ones. What is counted is not
            bounded by it: it is a few numbers for each stream.

    Attributes:
        passed: The frames that are remembered, in order.
        order: The connection and the stream of each item that is remembered, in order, of all
            streams together.
    """

    def __init__(self, keep: int = 10_000) -> None:
        self.passed: Final[deque[Passed]] = deque(maxlen=keep)
        self.order: Final[deque[tuple[int, int]]] = deque(maxlen=keep)
        self._demand: dict[tuple[int, int, End], _Demand] = {}
        self._excess: str | None = None
        self._changed = trio.Event()

    def add(self, connection: int, by: End, data: bytes) -> Passed:
        """Note a frame; before it is passed on, so that an answer to it comes later."""
        try:
            frame = decode(data)
        except RemoteProtocolError:
            frame = None
        passed = Passed(by, connection, data, frame)
        self.passed.append(passed)
        self._count(passed)
        self._changed.set()
        self._changed = trio.Event()
        return passed

    def _count(self, passed: Passed) -> None:
        by = passed.by
        other: End = "server" if by == "client" else "client"
        match passed.frame:
            case RequestStreamFrame() | RequestChannelFrame() as request:
                self._of(passed, other).requested = request.initial_request_n
                self._of(passed, by)  # of a channel: what the responder asks for
            case RequestNFrame(n=n):
                demand = self._of(passed, other)
                demand.requested = min(_UNLIMITED, demand.requested + n)
            # Only a PAYLOAD costs credit, once for all its fragments; neither the payload of a
            # request does nor a response (Protocol.md, "Flow Control").
            case PayloadFrame(next=True, follows=False) as item:
                demand_of = self._demand.get((passed.connection, item.stream_id, by))
                if demand_of is None:
                    return
                demand_of.items += 1
                self.order.append((passed.connection, item.stream_id))
                if demand_of.items > demand_of.requested and self._excess is None:
                    self._excess = (
                        f"the {by} sent item {demand_of.items} of stream {item.stream_id} on "
                        f"connection {passed.connection}, and {demand_of.requested} were requested"
                    )

    def _of(self, passed: Passed, by: End) -> _Demand:
        assert passed.frame is not None
        key = passed.connection, passed.frame.stream_id, by
        return self._demand.setdefault(key, _Demand())

    def frames(self, by: End, *types: type[Frame]) -> list[Frame]:
        """Return the remembered frames of an end, of these types if any are named."""
        return [
            each.frame
            for each in self.passed
            if each.by == by and each.frame is not None and isinstance(each.frame, types or object)
        ]

    async def wait_for(
        self,
        by: End,
        kind: type[Frame],
        count: int = 1,
        *,
        where: Callable[[Frame], bool] = lambda _: True,
    ) -> list[Frame]:
        """Wait until an end has sent a number of these frames; return all of them.

        Checkpoint: if they have not been sent.
        If cancelled: nothing is lost.
        """
        while len(found := [each for each in self.frames(by, kind) if where(each)]) < count:
            await self._changed.wait()
        return found

    def requested(self, stream_id: int, *, of: End = "server", connection: int = 1) -> int:
        """Return how many items of a stream one end may send, by what the other has requested.

        2,147,483,647 and more is unlimited.
        """
        demand = self._demand.get((connection, stream_id, of))
        return 0 if demand is None else demand.requested

    def items(self, stream_id: int, *, of: End = "server", connection: int = 1) -> int:
        """Return how many items of a stream one end has sent."""
        demand = self._demand.get((connection, stream_id, of))
        return 0 if demand is None else demand.items

    def assert_demand_kept(self) -> None:
        """Fail if an end has sent an item that was not requested, on any stream.

        Raises:
            AssertionError: It has. The text names the first one.
        """
        if self._excess is not None:
            raise AssertionError(self._excess)


def recorded(dial: Dial, log: FrameLog) -> Dial:
    """Return a function that dials as another one does, and notes the frames of its connections.

    ``async with served(router) as dial, connect(recorded(dial, log)) as requester: ...``
    """
    connections = 0

    @asynccontextmanager
    async def noting() -> AsyncIterator[FrameTransport]:
        nonlocal connections
        connections += 1
        async with dial() as transport:
            yield _Noting(transport, log, connections)

    return noting


class _Noting(TransportWrapper):
    """A client's transport whose frames are noted."""

    def __init__(self, inner: FrameTransport, log: FrameLog, connection: int) -> None:
        super().__init__(inner)
        self._log = log
        self._connection = connection

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self._log.add(self._connection, "client", frame)
        await super().send_frames(frames)

    async def receive_frames(self) -> list[bytes]:
        frames = await super().receive_frames()
        for frame in frames:
            self._log.add(self._connection, "server", frame)
        return frames
