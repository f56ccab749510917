"""A peer that sends and expects raw frames: tests of either role that read like wire traces.

::

    peer = FramePeer(transport)
    await peer.setup()
    await peer.send(RequestStreamFrame(stream_id=1, initial_request_n=2, data=b"ticks"))
    assert (await peer.receive(PayloadFrame)).data == b"0"
    assert (await peer.receive(PayloadFrame)).data == b"1"
    await peer.expect_nothing()

The peer does only what the script says: it answers no KEEPALIVE and keeps no rule by itself. Every
failed expectation raises an `AssertionError` that shows the frame received instead, and the trace.
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
    """Sends and expects raw frames on a transport. Only one task may use it.

    The peer owns the transport: `aclose`, or the end of an ``async with`` block, closes it.

    Attributes:
        transport: The transport that carries the frames.
        received: All frames received so far, including skipped KEEPALIVEs.
        received_bytes: The same frames, encoded.
        timeout: How long an expectation waits before it fails, in seconds. It must be longer
            than any timer the test waits for. With an autojump clock it takes no real time.
        cushion: How long all tasks must wait before `expect_nothing` returns, in seconds. 0 is
            right for memory transports; a real socket needs about 0.05.
    """

    def __init__(
        self, transport: FrameTransport, *, timeout: float = 10.0, cushion: float = 0.0
    ) -> None:
        self.transport = transport
        self.received: list[Frame] = []
        self.received_bytes: list[bytes] = []
        self.timeout = timeout
        self.cushion = cushion
        self._waiting: deque[bytes] = deque()
        self._end: str | None = None
        self._trace: list[str] = []

    @property
    def trace(self) -> str:
        """All frames sent (``->``) and received (``<-``) as text, one line per frame."""
        return "\n".join(self._trace)

    async def send(self, *frames: Frame | bytes) -> None:
        """Send frames, or bytes in place of frames, in one call of the transport.

        Raises:
            trio.BrokenResourceError: The other side is gone.

        Checkpoint: always.
        If cancelled: a part of the frames may have been sent; the peer must be closed.
        """
        encoded = [frame if isinstance(frame, bytes) else frame.encode() for frame in frames]
        self._trace += [f"-> {describe(frame)}" for frame in encoded]
        await self.transport.send_frames(encoded)

    @overload
    async def receive(self) -> Frame: ...
    @overload
    async def receive(self, kind: type[_F]) -> _F: ...
    async def receive(self, kind: type[_F] | None = None) -> Frame:
        """Receive the next frame, which must be of the given class.

        KEEPALIVEs may arrive at any time, so they are skipped unless ``kind`` is `KeepaliveFrame`.

        Args:
            kind: The class the frame must have; by default any class.

        Returns:
            The decoded frame.

        Raises:
            AssertionError: Another frame or a malformed frame arrived, or the connection ended,
                or nothing arrived for `timeout` seconds.

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
        """Wait until every task waits, and check that no frame has arrived.

        It ignores KEEPALIVEs, and does not wait for timers.

        Raises:
            AssertionError: A frame arrived, or the connection ended.

        Checkpoint: always.
        If cancelled: no frame is lost.
        """
        for frame in await self.drain():
            if not isinstance(frame, KeepaliveFrame):
                self._unexpected("nothing", frame)
        if self._end is not None:
            self._fail(f"expected nothing, but {self._end}")

    async def drain(self) -> list[Frame]:
        """Receive all frames, until every task waits and no more frames have arrived.

        Returns:
            The frames, including KEEPALIVEs; empty if there are none or the connection has ended.

        Raises:
            AssertionError: A malformed frame arrived.

        Checkpoint: always.
        If cancelled: no frame is lost.
        """
        frames: list[Frame] = []
        while True:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fill)
                await trio.testing.wait_all_tasks_blocked(self.cushion)
                nursery.cancel_scope.cancel(reason="every task waits")
            if not self._waiting:
                return frames
            while self._waiting:
                frames.append(self._take())

    async def expect_closed(self, code: int | None = None) -> ErrorFrame | None:
        """Check that the other side ends the connection.

        Args:
            code: The code of the ERROR on stream 0 that must come before the end. By default an
                ERROR with any code may come, or no ERROR.

        Returns:
            That ERROR, or ``None``.

        Raises:
            AssertionError: Another frame arrived, or the connection did not end.

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
        """Send a KEEPALIVE and check that the next frame is its answer.

        Raises:
            AssertionError: Another frame arrived first, or no answer arrived.

        Checkpoint: always.
        If cancelled: the answer may arrive later.
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
        """Act as the client: send a valid SETUP. SETUP has no answer, so this waits for none.

        Args:
            keepalive_interval: In seconds.
            max_lifetime: In seconds.
            data_mime_type: MIME type of the data of all payloads.
            metadata_mime_type: MIME type of the metadata of all payloads.
            data: Setup data.
            metadata: Setup metadata.
            lease: Ask for leases (flag L).

        Checkpoint: always.
        If cancelled: as for `send`.
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
        """Act as the server: receive the SETUP and answer the KEEPALIVE after it.

        Args:
            keepalive: Whether the client sends a KEEPALIVE directly after its SETUP.

        Returns:
            The SETUP.

        Raises:
            AssertionError: Another frame arrived.

        Checkpoint: always.
        If cancelled: the frames read so far are in `received`.
        """
        setup = await self.receive(SetupFrame)
        if keepalive:
            await self.answer_keepalive()
        return setup

    async def answer_keepalive(self) -> KeepaliveFrame:
        """Receive a KEEPALIVE that asks for an answer, and answer it.

        Returns:
            The received KEEPALIVE.

        Raises:
            AssertionError: Another frame arrived, or a KEEPALIVE that asks for no answer.

        Checkpoint: always.
        If cancelled: as for `receive` and `send`.
        """
        question = await self.receive(KeepaliveFrame)
        if not question.respond:
            self._fail("expected KEEPALIVE with flag R, but this one asks for no answer")
        await self.send(KeepaliveFrame(respond=False, data=question.data))
        return question

    async def aclose(self) -> None:
        """Close the transport.

        Checkpoint: always.
        If cancelled: the transport is closed.
        """
        await self.transport.aclose()

    async def _next(self, wanted: str, *, skip_keepalive: bool) -> Frame | None:
        """Return the next frame, or ``None`` at the end of the connection."""
        with trio.move_on_after(self.timeout):
            await trio.lowlevel.checkpoint()
            while True:
                while not self._waiting:
                    if self._end is not None:
                        return None
                    await self._fill()
                frame = self._take()
                if not (skip_keepalive and isinstance(frame, KeepaliveFrame)):
                    return frame
        return self._fail(f"expected {wanted}, but nothing arrived for {self.timeout} seconds")

    async def _fill(self) -> None:
        """Receive one batch of frames, or note the end of the connection."""
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
            self._fail(f"malformed frame ({error}): {encoded.hex(' ')}")
        self.received.append(frame)
        return frame

    def _unexpected(self, wanted: str, frame: Frame) -> NoReturn:
        self._fail(f"expected {wanted}, but received {describe(frame.encode())}")

    def _fail(self, message: str) -> NoReturn:
        raise AssertionError(f"{message}\n\nThe trace:\n{self.trace}")
