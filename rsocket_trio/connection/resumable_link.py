"""A transport that outlives the connections below it: `ResumableLink`.

It stands between the engine, which knows nothing of resumption, and the real transport of the
moment (`Attachment`). When that is lost the engine notices only that nothing comes and nothing
leaves: its reader waits in `receive_frames`, its writer in `send_frames`, the outbox fills and
producers wait. A task beside the connection dials again (client) or a new connection brings a
RESUME (server); `attach` then continues: the writer sends again what the peer has not received
(Protocol.md, "Resume Operation"), and goes on.

    engine: reader, writer, outbox
       |
    ResumableLink: positions, retained frames, KEEPALIVE
       |
    Attachment: the FrameTransport of the moment, or none

KEEPALIVEs are the link's, not the engine's: silence costs the transport here and not the
connection (`rsocket_trio.connection.link_watch`), and each carries the position received
(`rsocket_trio.connection.session_frames`). Frames of stream 0 have no position and are not
retained. Once CONNECTION_CLOSE or CONNECTION_ERROR went either way the session is being closed, and
does not survive its transport: that is how a close is told from a loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio
from trio.lowlevel import checkpoint

from ..errors import ErrorCode
from ..frames.error import encode_error
from ..log_policy import logger
from ..protocol.keepalive_clock import KeepaliveClock
from ..transports.base import FrameTransport
from .retention import Retention
from .session_frames import SessionFrames

__all__ = ["Attachment", "ResumableLink"]


class Attachment:
    """One transport below a link, from `ResumableLink.attach` until it is lost.

    Attributes:
        transport: What carries the frames.
        lost: Set when the link does not use it any more; whoever brought it closes it.
        clock: Of its KEEPALIVEs.
    """

    def __init__(
        self, transport: FrameTransport, clock: KeepaliveClock, first: list[bytes]
    ) -> None:
        self.transport = transport
        self.lost = trio.Event()
        self.clock = clock
        self.first = first  # to be sent before all else
        self.begun = False  # whether the writer has sent them
        self.sending_since: float | None = None  # while a batch is with the transport
        self.batches = 0


class ResumableLink(FrameTransport):
    """Carries the frames of a session over one transport after the other.

    Attributes:
        log: Positions, and what is retained.
        retention: Keeps the log within bounds.
        attachment: The transport of the moment; ``None`` while there is none.
        failure: Why there will never be one again, once that is so.

    Args:
        transport: The first transport; `attach` it too.
        max_retained_size: Bytes the log may hold.
        interval: Between our KEEPALIVEs, in seconds; ``None`` on a server.
        max_lifetime: The peer's silence that costs a transport, in seconds.
    """

    def __init__(
        self,
        transport: FrameTransport,
        max_retained_size: int,
        *,
        interval: float | None,
        max_lifetime: float,
    ) -> None:
        self.info = transport.info
        self.capabilities = attrs.evolve(transport.capabilities, resumable=True)
        self.immediate = transport.immediate
        self.retention = Retention(max_retained_size, self._wake)
        self.log = self.retention.log
        self.attachment: Attachment | None = None
        self.failure: Exception | None = None
        self._interval = interval
        self._max_lifetime = max_lifetime
        self._frames = SessionFrames(self.retention)
        self._changed = trio.Event()
        self._early: list[bytes] = []
        self._own: list[bytes] = []

    # -- for those who bring transports ------------------------------------------------------

    def attach(
        self,
        transport: FrameTransport,
        *,
        peer_received: int = 0,
        first: Sequence[bytes] = (),
        received: Sequence[bytes] = (),
    ) -> Attachment:
        """Go on over ``transport``; the one before it is let go.

        Args:
            transport: Ready to carry frames of the session. Closed by its owner once
                `Attachment.lost` is set.
            peer_received: The position the peer has received; must be possible.
            first: Frames to be sent before what is sent again.
            received: What has been received on it already.
        """
        self.drop("another connection took its place")
        clock = KeepaliveClock(self._interval, self._max_lifetime, trio.current_time())
        attachment = Attachment(transport, clock, list(first))
        if self.failure is not None:
            attachment.lost.set()
            return attachment
        self._early = list(received)
        self._own = []
        self.info = transport.info
        transport.wake_writer = self._wake
        self.attachment = attachment
        self.retention.restart(peer_received)
        self._announce()
        self._wake()
        return attachment

    def drop(self, reason: str, cause: Exception | None = None) -> None:
        """Let the transport of the moment go; the session waits for another, unless it closes."""
        attachment = self.attachment
        if attachment is None:
            return
        logger.debug("lost the connection to %s: %s", self.info.peer, reason)
        attachment.transport.wake_writer = None
        self.attachment = None
        attachment.lost.set()
        if self.on_lost is not None:
            self.on_lost()
        if self.closing:
            self.fail(reason, cause)
        else:
            self._announce()

    def fail(self, reason: str, cause: Exception | None = None) -> None:
        """The session is over; the engine learns that its transport broke. The first counts."""
        if self.failure is None:
            self.failure = trio.BrokenResourceError(reason)
            self.failure.__cause__ = cause
            self._frames.closing = True
            self.drop(reason, cause)
            self._announce()

    @property
    def closing(self) -> bool:
        """An end was announced, by us or by the peer: the session is not resumed any more."""
        return self._frames.closing

    def resume_no_more(self, reason: str) -> None:
        """End the session once its transport is lost; at once, where it has none."""
        self._frames.closing = True
        if self.attachment is None:
            self.fail(reason)

    def send_soon(self, frame: bytes) -> None:
        """Send a frame of the link's own, before the next ones of the engine."""
        self._own.append(frame)
        self._wake()

    async def wait_attached(self) -> Attachment:
        """Wait for a transport.

        Raises:
            trio.BrokenResourceError: The session is over.

        Checkpoint: only if there is none.
        If cancelled: nothing changes.
        """
        while (attachment := self.attachment) is None:
            if self.failure is not None:
                await checkpoint()
                raise trio.BrokenResourceError(str(self.failure)) from self.failure.__cause__
            await self._changed.wait()
        return attachment

    async def wait_carried(self) -> trio.Event:
        """As `wait_attached`; see `FrameTransport.wait_carried`.

        Raises:
            trio.BrokenResourceError: The session is over.

        Checkpoint: only if there is none.
        If cancelled: nothing changes.
        """
        return (await self.wait_attached()).lost

    # -- for the engine ----------------------------------------------------------------------

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames, now or, those of streams, whenever there is a transport again.

        Raises:
            trio.BrokenResourceError: The session is over.

        Checkpoint: always.
        If cancelled: frames may have been sent in part; the link is good only for closing.
        """
        attachment = await self.wait_attached()
        # No checkpoint until all of them are in the log.
        batch: list[bytes] = []
        if not attachment.begun:
            attachment.begun = True
            batch += attachment.first
            batch += self.log.replay()
        self._add(batch, frames)
        attachment.sending_since = trio.current_time()
        attachment.batches += 1
        try:
            await attachment.transport.send_frames(batch)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._broke(attachment, error)
        finally:
            attachment.sending_since = None

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`.

        Raises:
            trio.WouldBlock: There is no transport that could, or it has not begun.
        """
        attachment = self.attachment
        if attachment is None or not attachment.begun or not attachment.transport.immediate:
            raise trio.WouldBlock
        batch: list[bytes] = []
        self._add(batch, frames)
        try:
            return attachment.transport.send_frames_nowait(batch)
        except Exception:
            # `send_frames` finds the same and drops the transport; what matters is in the log.
            return False

    async def receive_frames(self) -> list[bytes]:
        """Receive what has arrived, from whichever transport there is.

        Raises:
            RemoteProtocolError: What arrives is no frame.
            trio.BrokenResourceError: The session is over.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        while True:
            attachment = await self.wait_attached()
            if self._early:
                await checkpoint()
                if self.attachment is not attachment:
                    continue  # another took its place, and what is here now came over that one
                frames, self._early = self._early, []
            else:
                try:
                    frames = await attachment.transport.receive_frames()
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    self._broke(attachment, error)
                    continue
            if self.attachment is not attachment:
                continue  # too late: the position given to the peer excludes them
            if frames:
                attachment.clock.received(trio.current_time())
                for frame in frames:
                    self._frames.incoming(frame)
                return frames
            if self.closing:
                return []
            self.drop("the peer closed the connection")

    async def close_sending(self) -> bool:
        """Say CONNECTION_CLOSE, unless an end was announced already, and that nothing follows.

        Waits for a transport where there is none.

        Raises:
            trio.BrokenResourceError: The session is over.

        Checkpoint: always.
        If cancelled: it may or may not have been said.
        """
        goodbye = encode_error(0, ErrorCode.CONNECTION_CLOSE, b"")
        await self.send_frames([] if self.closing else [goodbye])
        attachment = self.attachment
        return attachment is not None and await attachment.transport.close_sending()

    async def aclose(self) -> None:
        """Let the transport go, for good; its owner closes it.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        self.fail("the session was closed here")
        await checkpoint()

    # -- inside ------------------------------------------------------------------------------

    def _announce(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _wake(self) -> None:
        if self.wake_writer is not None:
            self.wake_writer()

    def _broke(self, attachment: Attachment, error: Exception) -> None:
        if self.attachment is attachment:
            self.drop(str(error) or "the connection broke", error)

    def _add(self, batch: list[bytes], frames: Sequence[bytes]) -> None:
        """Put frames into a batch that is about to be sent, behind those of the link's own."""
        own, self._own = self._own, []
        batch += map(self._frames.outgoing, own)
        batch += map(self._frames.outgoing, frames)
        self.retention.ask(batch)
