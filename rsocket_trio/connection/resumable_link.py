"""A transport that outlives the connections below it: `ResumableLink`.

The link is between the engine, which does not know about resumption, and the current transport
(`Attachment`). When that transport is lost, the engine notices only that no frame arrives or
leaves: its reader waits in `receive_frames`, its writer in `send_frames`, the outbox fills, and
producers wait. On a client a task beside the connection dials again; on a server a new connection
brings a RESUME. Then `attach` continues the session: the writer sends the frames again that the
peer has not received (Protocol.md, "Resume Operation"), and goes on.

    engine: reader, writer, outbox
       |
    ResumableLink: positions, retained frames, KEEPALIVE
       |
    Attachment: the current FrameTransport, if there is one

The link sends the KEEPALIVEs, not the engine. So a silent peer loses only its transport, not the
connection (`rsocket_trio.connection.link_watch`), and each KEEPALIVE carries the position received
(`rsocket_trio.connection.session_frames`). Frames of stream 0 have no position and are not
retained. Once either side has sent CONNECTION_CLOSE or CONNECTION_ERROR, the session is closing and
ends with its transport. This distinguishes a close from a loss.
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
from ..sockets.failures import describe_failure
from ..transports.base import FrameTransport
from .retention import Retention
from .session_frames import SessionFrames

__all__ = ["Attachment", "ResumableLink"]


class Attachment:
    """One transport below a link, from `ResumableLink.attach` until it is lost.

    Attributes:
        transport: Carries the frames.
        lost: Set when the link does not use it any more; its owner then closes it.
        reason: Why it was lost.
        clock: The clock of its KEEPALIVEs.
    """

    def __init__(
        self, transport: FrameTransport, clock: KeepaliveClock, first: list[bytes]
    ) -> None:
        self.transport = transport
        self.lost = trio.Event()
        self.reason = ""
        self.clock = clock
        self.first = first  # the frames to send before all others
        self.begun = False  # whether the writer has sent them
        self.sending_since: float | None = None  # while a batch is with the transport
        self.batches = 0


class ResumableLink(FrameTransport):
    """Carries the frames of a session over one transport after the other.

    Attributes:
        log: The positions, and the retained frames.
        retention: Keeps the log within bounds.
        attachment: The current transport; ``None`` while there is none.
        failure: Why the session is over; ``None`` while it is not.
        silences: How many transports were dropped because the peer gave no sign of life.

    Args:
        transport: The first transport; `attach` it too.
        max_retained_size: The number of bytes that the log may hold.
        interval: The time between our KEEPALIVEs, in seconds; ``None`` on a server.
        max_lifetime: After this time of silence, in seconds, a transport is dropped.
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
        self.sends_nowait = transport.sends_nowait
        self.retention = Retention(max_retained_size, self._wake)
        self.log = self.retention.log
        self.attachment: Attachment | None = None
        self.failure: Exception | None = None
        self.silences = 0
        self._interval = interval
        self._max_lifetime = max_lifetime
        self._frames = SessionFrames(self.retention)
        self._changed = trio.Event()
        self._received_early: list[bytes] = []
        self._own_keepalives: list[bytes] = []

    # -- for the owners of transports --------------------------------------------------------

    def attach(
        self,
        transport: FrameTransport,
        *,
        peer_received: int = 0,
        first: Sequence[bytes] = (),
        received: Sequence[bytes] = (),
    ) -> Attachment:
        """Go on over ``transport``; the previous transport is dropped.

        Args:
            transport: Ready to carry frames of the session. Its owner closes it once
                `Attachment.lost` is set.
            peer_received: The position that the peer has received; must be possible.
            first: Frames to send before the retained frames are sent again.
            received: The frames that have been received on it already.
        """
        self.drop("another connection took its place")
        clock = KeepaliveClock(self._interval, self._max_lifetime, trio.current_time())
        attachment = Attachment(transport, clock, list(first))
        if self.failure is not None:
            attachment.lost.set()
            return attachment
        self._received_early = list(received)
        self._own_keepalives = []
        self.info = transport.info
        transport.wake_writer = self._wake
        self.attachment = attachment
        self.retention.restart(peer_received)
        self._announce()
        self._wake()
        return attachment

    def drop(self, reason: str, cause: Exception | None = None) -> None:
        """Drop the current transport; the session waits for another, unless it is closing."""
        attachment = self.attachment
        if attachment is None:
            return
        logger.debug("lost the connection to %s: %s", self.info.peer, reason)
        attachment.transport.wake_writer = None
        self.attachment = None
        attachment.reason = reason
        attachment.lost.set()
        if self.on_lost is not None:
            self.on_lost()
        if self.closing:
            self.fail(reason, cause)
        else:
            self._announce()

    def fail(self, reason: str, cause: Exception | None = None) -> None:
        """End the session: the engine sees a broken transport. Only the first call counts."""
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
        self._own_keepalives.append(frame)
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

    async def wait_connected(self) -> trio.Event:
        """See `FrameTransport.wait_connected`; waits as `wait_attached` does."""
        return (await self.wait_attached()).lost

    # -- for the engine ----------------------------------------------------------------------

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """Send frames. If the transport breaks, frames of streams are sent over the next one.

        Raises:
            trio.BrokenResourceError: The session is over.

        Checkpoint: always.
        If cancelled: some frames may have been sent; the link can only be closed then.
        """
        attachment = await self.wait_attached()
        # No checkpoint until all frames are in the log.
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
            self._transport_broke(attachment, error)
        finally:
            attachment.sending_since = None

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`.

        Raises:
            trio.WouldBlock: There is no transport, it cannot send without waiting, or the writer
                has not yet sent its first frames.
        """
        attachment = self.attachment
        if attachment is None or not attachment.begun or not attachment.transport.sends_nowait:
            raise trio.WouldBlock
        batch: list[bytes] = []
        self._add(batch, frames)
        try:
            return attachment.transport.send_frames_nowait(batch)
        except Exception:
            # `send_frames` gets the same error and drops the transport. The frames of streams are
            # in the log.
            return False

    async def receive_frames(self) -> list[bytes]:
        """Receive frames from the current transport; wait for one if there is none.

        Raises:
            RemoteProtocolError: The peer sends malformed frames.
            trio.BrokenResourceError: The session is over.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        while True:
            attachment = await self.wait_attached()
            if self._received_early:
                await checkpoint()
                if self.attachment is not attachment:
                    continue  # another transport took its place, and these frames are of that one
                frames, self._received_early = self._received_early, []
            else:
                try:
                    frames = await attachment.transport.receive_frames()
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    self._transport_broke(attachment, error)
                    continue
            if self.attachment is not attachment:
                continue  # too late: the position sent to the peer does not include these frames
            if frames:
                attachment.clock.received(trio.current_time())
                for frame in frames:
                    self._frames.incoming(frame)
                return frames
            if self.closing:
                return []
            self.drop("the peer closed the connection")

    async def close_sending(self) -> bool:
        """Send CONNECTION_CLOSE, unless an end was announced already, and close the sending side.

        Waits for a transport if there is none.

        Raises:
            trio.BrokenResourceError: The session is over.

        Checkpoint: always.
        If cancelled: CONNECTION_CLOSE may or may not have been sent.
        """
        goodbye = encode_error(0, ErrorCode.CONNECTION_CLOSE, b"")
        await self.send_frames([] if self.closing else [goodbye])
        attachment = self.attachment
        return attachment is not None and await attachment.transport.close_sending()

    async def aclose(self) -> None:
        """End the session and drop the transport; its owner closes it.

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

    def _transport_broke(self, attachment: Attachment, error: Exception) -> None:
        if self.attachment is attachment:
            self.drop(describe_failure(error), error)

    def _add(self, batch: list[bytes], frames: Sequence[bytes]) -> None:
        """Add frames to a batch that is about to be sent, behind the link's own KEEPALIVEs."""
        own, self._own_keepalives = self._own_keepalives, []
        batch += map(self._frames.outgoing, own)
        batch += map(self._frames.outgoing, frames)
        self.retention.ask(batch)
