"""A peer that is a script of raw frames: tests of either role that read like wire traces.

::

    peer = FramePeer(transport)
    await peer.setup()
    await peer.send(RequestStreamFrame(stream_id=1, initial_request_n=2, data=b"ticks"))
    assert (await peer.receive(PayloadFrame)).data == b"0"
    assert (await peer.receive(PayloadFrame)).data == b"1"
    await peer.expect_nothing()

Nothing happens behind the script's back: no KEEPALIVE is answered and no rule is kept, except by
a line of the script. Every failed expectation is an `AssertionError` that shows what came
instead, and the trace up to there.
"""

from __future__ import annotations

from collections import deque
from typing import NoReturn, TypeVar, overload

import trio
import trio.testing

from ..errors import MalformedFrame, code_name
from ..frames import ErrorFrame, Frame, KeepaliveFrame, SetupFrame, decode, describe
from ..transports.base import FrameTransport

__all__ = ["FramePeer"]

_F = TypeVar("_F", bound=Frame)


class FramePeer(trio.abc.AsyncResource):
    """Sends and expects raw frames on a transport; used by one task.

    Created by the test around its end of a transport, which it owns from then on: `aclose`, or
    leaving ``async with``, closes it.

    Attributes:
        transport: What carries the frames.
        received: Every frame received so far, KEEPALIVEs that were skipped included.
        received_bytes: The same frames as they came.
        patience: How long an expectation waits before it fails, in seconds. Longer than any
            timer the test waits for; under an autojump clock it costs nothing.
        cushion: How long all tasks must have been waiting before `expect_nothing` believes it, in
            seconds. 0 suits memory transports; a real socket needs some 0.05.
    """

    def __init__(
        self, transport: FrameTransport, *, patience: float = 10.0, cushion: float = 0.0
    ) -> None:
        self.transport = transport
        self.received: list[Frame] = []
        self.received_bytes: list[bytes] = []
        self.patience = patience
        self.cushion = cushion
        self._waiting: deque[bytes] = deque()
        self._end: str | None = None
        self._trace: list[str] = []

    @property
    def trace(self) -> str:
        """All that was sent (``->``) and received (``<-``), a line per frame, for people."""
        return "\n".join(self._trace)

    async def send(self, *frames: Frame | bytes) -> None:
        """Send frames, or bytes in place of frames, all in one go.

        Raises:
            trio.BrokenResourceError: The other side is gone.

        Checkpoint: always.
        If cancelled: frames may have been sent in part; the peer is good only for closing.
        """
        encoded = [frame if isinstance(frame, bytes) else frame.encode() for frame in frames]
        self._trace += [f"-> {describe(frame)}" for frame in encoded]
        await self.transport.send_frames(encoded)

    @overload
    async def receive(self) -> Frame: ...
    @overload
    async def receive(self, kind: type[_F]) -> _F: ...
    async def receive(self, kind: type[_F] | None = None) -> Frame:
        """Receive the next frame, which must be of a kind.

        KEEPALIVEs are skipped unless ``kind`` is `KeepaliveFrame`: they come when they come.

        Args:
            kind: The class the frame must have; any frame will do by default.

        Returns:
            The decoded frame.

        Raises:
            AssertionError: Another frame came, or bytes that are none, or the connection ended,
                or nothing came for `patience` seconds.

        Checkpoint: always.
        If cancelled: no frame is lost.
        """
        wanted = "a frame" if kind is None else kind.__name__
        frame = await self._next(wanted, skip_keepalive=kind is not KeepaliveFrame)
        if frame is None:
            self._fail(f"expected {wanted}, but {self._end}")
        if kind is not None and not isinstance(frame, kind):
            self._unexpected(wanted, frame)
        return frame

    async def expect_nothing(self) -> None:
        """Hold the other side to silence: wait until every task waits, and nothing has come.

        KEEPALIVEs do not count, and neither does a timer that has yet to fire.

        Raises:
            AssertionError: A frame came, or the connection ended.

        Checkpoint: always.
        If cancelled: no frame is lost.
        """
        for frame in await self.drain():
            if not isinstance(frame, KeepaliveFrame):
                self._unexpected("nothing", frame)
        if self._end is not None:
            self._fail(f"expected nothing, but {self._end}")

    async def drain(self) -> list[Frame]:
        """Receive all there is, until every task waits and nothing more has come.

        Returns:
            The frames, KEEPALIVEs included; none if there were none, or the connection has ended.

        Raises:
            AssertionError: Bytes came that are no frame.

        Checkpoint: always.
        If cancelled: no frame is lost.
        """
        frames: list[Frame] = []
        while True:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fill)
                await trio.testing.wait_all_tasks_blocked(self.cushion)
                nursery.cancel_scope.cancel(reason="all that was to come has come")
            if not self._waiting:
                return frames
            while self._waiting:
                frames.append(self._take())

    async def expect_closed(self, code: int | None = None) -> ErrorFrame | None:
        """Hold the other side to ending the connection.

        Args:
            code: The code of the ERROR on stream 0 that must come before the end. By default
                there may be one, of any code, or none.

        Returns:
            That ERROR, if there was one.

        Raises:
            AssertionError: Something else came, or the connection did not end.

        Checkpoint: always.
        If cancelled: no frame is lost.
        """
        wanted = "the end" if code is None else f"ERROR[{code_name(code)}] and the end"
        error: ErrorFrame | None = None
        while (frame := await self._next(wanted, skip_keepalive=True)) is not None:
            if not (
                error is None
                and isinstance(frame, ErrorFrame)
                and frame.stream_id == 0
                and code in {None, frame.code}
            ):
                self._unexpected(wanted, frame)
            error = frame
        if code is not None and error is None:
            self._fail(f"expected {wanted}, but {self._end}")
        return error

    async def expect_alive(self) -> None:
        """Hold the other side to silence and life: a KEEPALIVE is answered, by that alone.

        Raises:
            AssertionError: Something else came first, or no answer did.

        Checkpoint: always.
        If cancelled: the answer may be yet to come.
        """
        probe = b"probe %d" % len(self._trace)
        await self.send(KeepaliveFrame(respond=True, data=probe))
        while (answer := await self.receive(KeepaliveFrame)).respond:
            pass  # the other side's own KEEPALIVE
        if answer.data != probe:
            self._fail(f"expected KEEPALIVE with {probe!r}, not with {answer.data!r}")

    async def setup(
        self,
        *,
        keepalive_interval: float = 20.0,
        max_lifetime: float = 90.0,
        data_mime_type: str = "application/octet-stream",
        metadata_mime_type: str = "message/x.rsocket.composite-metadata.v0",
        data: bytes = b"",
        metadata: bytes | None = None,
        lease: bool = False,
    ) -> None:
        """Play the client: send a good SETUP. Nothing is expected back: SETUP has no answer.

        Args:
            keepalive_interval: In seconds.
            max_lifetime: In seconds.
            data_mime_type: Of every payload's data.
            metadata_mime_type: Of every payload's metadata.
            data: Setup data.
            metadata: Setup metadata.
            lease: Ask for leases (L).

        Checkpoint: always.
        If cancelled: as `send`.
        """
        await self.send(
            SetupFrame(
                major=1,
                minor=0,
                keepalive_interval_ms=round(keepalive_interval * 1000),
                max_lifetime_ms=round(max_lifetime * 1000),
                data_mime_type=data_mime_type,
                metadata_mime_type=metadata_mime_type,
                data=data,
                metadata=metadata,
                lease=lease,
            )
        )

    async def accept(self, *, keepalive: bool = True) -> SetupFrame:
        """Play the server: read the SETUP and answer the KEEPALIVE behind it.

        Args:
            keepalive: Whether the client is one that sends a KEEPALIVE right behind its SETUP.

        Returns:
            The SETUP.

        Raises:
            AssertionError: Something else came.

        Checkpoint: always.
        If cancelled: what was read is in `received`.
        """
        setup = await self.receive(SetupFrame)
        if keepalive:
            await self.answer_keepalive()
        return setup

    async def answer_keepalive(self) -> KeepaliveFrame:
        """Read a KEEPALIVE that asks for an answer, and give it.

        Returns:
            The KEEPALIVE read.

        Raises:
            AssertionError: Something else came, or a KEEPALIVE that asks for none.

        Checkpoint: always.
        If cancelled: as `receive` and `send`.
        """
        question = await self.receive(KeepaliveFrame)
        if not question.respond:
            self._fail("expected KEEPALIVE with R, but this one asks for no answer")
        await self.send(KeepaliveFrame(respond=False, data=question.data))
        return question

    async def aclose(self) -> None:
        """Close the transport.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        await self.transport.aclose()

    async def _next(self, wanted: str, *, skip_keepalive: bool) -> Frame | None:
        """The next frame to look at, ``None`` at the end of the connection."""
        with trio.move_on_after(self.patience):
            await trio.lowlevel.checkpoint()
            while True:
                while not self._waiting:
                    if self._end is not None:
                        return None
                    await self._fill()
                frame = self._take()
                if not (skip_keepalive and isinstance(frame, KeepaliveFrame)):
                    return frame
        return self._fail(f"expected {wanted}, but nothing came for {self.patience} seconds")

    async def _fill(self) -> None:
        """Receive one batch, or learn of the end."""
        if self._end is not None:
            return
        try:
            batch = await self.transport.receive_frames()
        except trio.BrokenResourceError:
            batch, self._end = [], "the connection broke"
        else:
            if not batch:
                self._end = "the connection was closed"
        if self._end is not None:
            self._trace.append(f"<- {self._end}")
        self._waiting += batch

    def _take(self) -> Frame:
        encoded = self._waiting.popleft()
        self._trace.append(f"<- {describe(encoded)}")
        self.received_bytes.append(encoded)
        try:
            frame = decode(encoded)
        except MalformedFrame as error:
            self._fail(f"these bytes are no frame ({error}): {encoded.hex(' ')}")
        self.received.append(frame)
        return frame

    def _unexpected(self, wanted: str, frame: Frame) -> NoReturn:
        self._fail(f"expected {wanted}, but there came {describe(frame.encode())}")

    def _fail(self, message: str) -> NoReturn:
        raise AssertionError(f"{message}\n\nThe trace:\n{self.trace}")
