"""One connection, from its first octet to its last: `Link`.

    Link.run
    ├─ writer       the only caller of send_frames, see `SendQueue.run`
    ├─ reader       feeds the rules, and calls subscribers and publishers; never waits for them
    ├─ greeting     ends the connection if the peer's hello is late
    └─ nursery      a task for each publisher whose source is asynchronous

    Link            the tasks, the beginning and the end     → all of these
    ├─ Subscriptions   ours, to publishers of the peer       → Session, SendQueue
    ├─ Publications    the peer's, to publishers of ours     → Session, SendQueue
    ├─ SendQueue       what waits to be sent, in its order
    └─ Lifecycle       whether it is over, and why

State changes are synchronous and come first: `Lifecycle.end` fails every stream before anything
waits. A connection ends in one of three ways: our goodbye was sent (wait for that of the peer, for
`RsioConfig.goodbye_timeout`), the peer's goodbye or a violation came (send the rest and close), or
the transport broke (close).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final, Literal

import trio
from trio.lowlevel import checkpoint

from ...connection.lifecycle import Lifecycle
from ...connection.reader import READ_ERRORS
from ...errors import ConnectionClosed, ConnectionLost, RemoteProtocolError
from ...foreign import ENOUGH, recognise_foreign
from ...log_policy import logger
from ...transports.base import close_politely
from ..errors import GoodbyeReceived, HelloRefused, VersionMismatch
from ..rules import events as ev
from ..rules.session import Session
from ..wire.violations import Handling, ViolationCode
from .publications import Publications, Resolve
from .send_queue import SendQueue
from .subscriptions import Subscriptions

if TYPE_CHECKING:
    from ...transports.base import FrameTransport
    from ..config import RsioConfig

__all__ = ["Link"]

MESSAGES_AT_ONCE: Final = 1024
"""The most elements that are handled before another task may run; of other messages a fourth,
because publishers may run for each."""

_FIRST_MESSAGE: Final = 128 * 2**10
"""The longest WebSocket message before the hello of the peer: the bytes of a message are kept until
it is whole. A first write of ours has half of it."""

LEAVING: Final = "the connection is being closed"

_CLOSED: Final = "the connection was closed here"


class Link:
    """One connection.

    Attributes:
        transport: Carries the octets. Its owner closes it, after `run`.
        config: Times, sizes and limits.
        session: The rules.
        lifecycle: Whether it is over, and how to end it.
        queue: What waits to be sent.
        subscriptions: Ours, to publishers of the peer.
        publications: The peer's, to publishers of ours.
        hello: The hello of the peer, when it has come.
        greeted: Set when it has come, or the connection is over.
        on_extension: Called with the type and the content of messages of extensions.
        received: The octets that have arrived.
        over: Set when `run` is over.
    """

    def __init__(
        self,
        transport: FrameTransport,
        role: Literal["client", "server"],
        config: RsioConfig,
        resolve: Resolve,
        extensions: dict[int, Sequence[int]],
    ) -> None:
        self.transport: Final = transport
        self.config: Final = config
        self.session: Final = Session(role, config.limits, extensions)
        self.queue: Final = SendQueue(config.max_control_size)
        self.subscriptions: Final = Subscriptions(self.session, self.queue, config.max_unread_size)
        self.publications: Final = Publications(self.session, self.queue, config, resolve)
        self.lifecycle: Final = Lifecycle(established=True, peer=self._peer)
        self.hello: ev.PeerHello | None = None
        self.greeted: Final = trio.Event()
        self.on_hello: list[Callable[[], object]] = []
        self.on_extension: Callable[[int, bytes], object] | None = None
        self.received = 0
        self._first = b""  # what has come before the hello, to see what the peer speaks
        self.over: Final = trio.Event()
        self._stopped_reading: Final = trio.Event()
        self._farewell: Final = trio.Event()  # nothing more comes from the peer
        self._reading = trio.CancelScope()
        self._draining = trio.CancelScope()  # its deadline is when we say goodbye in any case
        self._leaving = LEAVING  # the text of our goodbye
        self.lifecycle.on_end += [self._end_streams]
        self.lifecycle.on_drain += [self._refuse_streams]
        self.lifecycle.is_idle = lambda: not self.publications.by_id

    def _peer(self) -> str:
        info = self.transport.info
        return info.peer or info.scheme

    # -- the tasks ----------------------------------------------------------------------------

    async def run(
        self,
        begin: Callable[[trio.Nursery], object] | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Drive the connection until it is over; then `Lifecycle.failure` says why.

        Args:
            begin: Called with the nursery of the connection, before anything is read.
            task_status: Is told when our hello is queued.

        Checkpoint: always.
        If cancelled: every stream ends at once. A goodbye is sent if that needs no wait.
        """
        lifecycle = self.lifecycle
        self.transport.wake_writer = self.queue.wake
        try:
            async with trio.open_nursery() as outer:
                if not self.session.hello_sent:
                    self.queue.put(self.session.hello())
                outer.start_soon(self._write)
                async with trio.open_nursery() as nursery:
                    self.publications.nursery = nursery
                    if begin is not None:
                        begin(nursery)
                    outer.start_soon(self._read)
                    outer.start_soon(self._greet)
                    task_status.started()
                    try:
                        with self._draining:
                            await lifecycle.drained.wait()
                    finally:
                        # Before the nursery closes: the reader may still run for one turn.
                        self.goodbye(self._leaving)
                        nursery.cancel_scope.cancel(reason="the connection is over")
                await self._close()
                outer.cancel_scope.cancel(reason="the connection is over")
        finally:
            self._part_at_once()
            self.over.set()

    async def _write(self) -> None:
        try:
            await self.queue.run(self.transport.send_frames)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.queue.discard()
            self.lost(error)

    async def _greet(self) -> None:
        """Wait for the peer's hello, for a limited time."""
        seconds = self.config.hello_timeout
        with trio.move_on_after(seconds):
            await self.greeted.wait()
        if not self.greeted.is_set():
            text = f"no hello came within {seconds:g} s"
            why = f"{text} (RsioConfig.hello_timeout): the peer does not speak rsio, or is busy"
            self.end(ConnectionLost(why), goodbye=text)

    async def _read(self) -> None:
        transport = self.transport
        if self.hello is None:
            transport.limit_frames(_FIRST_MESSAGE)
        try:
            with self._reading:
                while not self._farewell.is_set():
                    pieces = await transport.receive_frames()
                    if not pieces:
                        self._peer_ended()
                        break
                    self.publications.read_at = trio.current_time()
                    for piece in pieces:
                        self.received += len(piece)
                        if self.hello is None and len(self._first) < ENOUGH:
                            self._first += piece[:ENOUGH]
                        self.session.feed(piece)
                        while not self._handle_events():
                            self._check_unread()
                            await checkpoint()
                        self._check_unread()
        except READ_ERRORS as error:
            self.lost(error)
        finally:
            self._stopped_reading.set()

    def _check_unread(self) -> None:
        """End the connection if the peer reads none of our answers.

        Reading goes on until then, whatever waits to be sent: two ends that each wait for the other
        to read would wait without end.
        """
        size = self.queue.reply_size
        limit = self.config.max_unsent_control_size
        if size > limit and self.lifecycle.failure is None:
            logger.info("closing the connection to %s: the peer does not read", self._peer())
            self.end(
                ConnectionClosed(
                    f"{size} octets of answers are unsent, as the peer does not read them "
                    f"(RsioConfig.max_unsent_control_size is {limit})"
                ),
                goodbye=f"{size} octets of answers were not read",
            )

    # -- what the peer does -------------------------------------------------------------------

    def _handle_events(self) -> bool:
        """Handle some of what was fed; return whether that was all."""
        session = self.session
        by_id = self.subscriptions.by_id
        left = MESSAGES_AT_ONCE
        while True:
            for event in session.events():
                if isinstance(event, ev.ElementsReceived):
                    subscription = by_id.get(event.subscriber)
                    if subscription is not None:
                        subscription.elements(event.elements)
                elif isinstance(event, ev.PackedReceived):
                    subscription = by_id.get(event.subscriber)
                    if subscription is not None:
                        subscription.block(event.elements, event.size, event.count)
                else:
                    left -= 3
                    self._handle(event)
            if session.needs_data:
                return True
            left -= 256
            if left <= 0:
                return False

    def _handle(self, event: ev.Event) -> None:
        match event:
            case ev.RequestReceived(stream_id, demand):
                self.publications.request(stream_id, demand)
            case ev.SubscribeReceived(stream_id, name, demand, excess):
                self.publications.subscribe(stream_id, name, demand, excess=excess)
            case ev.CancelReceived(stream_id):
                self.publications.cancel(stream_id)
            case ev.SubscribedReceived(stream_id, size):
                self.subscriptions.subscribed(stream_id, size)
            case ev.CompleteReceived(stream_id):
                self.subscriptions.complete(stream_id)
            case ev.ErrorReceived(stream_id, text):
                self.subscriptions.fail(stream_id, text)
            case ev.StreamViolation(stream_id, _, _, reason):
                self.publications.refuse(stream_id, reason)
            case ev.ExtensionReceived(code, content):
                if self.on_extension is not None:
                    self.on_extension(code, content)
            case ev.PeerHello():
                self.hello = event
                self.transport.limit_frames(None)
                self.greeted.set()
                for tell in self.on_hello:
                    tell()
            case ev.GoodbyeReceived(reason):
                self._goodbye_received(reason)
            case ev.Violation(ViolationCode.HELLO_EXPECTED, handling, reason):
                spoken = recognise_foreign(self._first)
                what = "the peer does not speak rsio" + (f", but {spoken}" if spoken else "")
                self._violated(handling, reason, what)
            case ev.Violation(_, handling, reason):
                self._violated(handling, reason)

    def _goodbye_received(self, reason: str) -> None:
        error: Exception = GoodbyeReceived(reason)
        if self.hello is None:
            error = HelloRefused(f"the peer refused the connection: {reason}", reason)
        self._farewell.set()
        self.end(error, goodbye="")

    def refuse(self, reason: str) -> None:
        """End the connection because the peer broke a rule of an extension."""
        self._violated(Handling.CONNECTION_ERROR, f"protocol error: {reason}")

    def _violated(
        self, handling: Handling, reason: str, what: str = "the peer broke the protocol"
    ) -> None:
        logger.info("closing the connection to %s: %s", self._peer(), reason)
        cause = RemoteProtocolError(reason)
        error: Exception = ConnectionClosed(f"{what}: {reason}")
        if handling is Handling.VERSION_MISMATCH:
            error = VersionMismatch(f"the peer has another version of rsio: {reason}", reason)
        error.__cause__ = cause
        self._farewell.set()
        self.end(error, goodbye=reason)

    def _peer_ended(self) -> None:
        """The peer has closed its sending half."""
        self._farewell.set()
        text = "the peer closed the connection without a goodbye"
        if self.hello is None:
            text = "the peer closed the connection without a hello: it may not speak rsio"
        if self.session.pending:
            text = "the connection ended inside a message"
        self.end(ConnectionLost(text))

    def lost(self, cause: Exception) -> None:
        """End the connection because the transport broke, or the peer broke its rules."""
        self._farewell.set()
        self.lifecycle.lost(cause)

    # -- the end ------------------------------------------------------------------------------

    def end(self, error: Exception, *, goodbye: str | None = None) -> None:
        """End the connection. Only the first call has an effect.

        Args:
            error: What every subscriber gets.
            goodbye: The text of our goodbye, if there should be one.
        """
        if self.lifecycle.failure is not None:
            return
        message = b"" if goodbye is None else self.session.goodbye(goodbye)
        self.lifecycle.end(error)
        self.queue.put(message)
        self.queue.close()

    def goodbye(self, reason: str) -> None:
        """End the connection at our own wish, in the orderly way."""
        self.end(trio.ClosedResourceError(_CLOSED), goodbye=reason)

    def drain(self, reason: str, deadline: float = inf) -> None:
        """Refuse new subscriptions, and say goodbye when the last one of the peer has ended.

        The goodbye of the peer is waited for, as every goodbye of ours is; see `_close`.

        Args:
            reason: The text of the goodbye.
            deadline: When to say it in any case, by trio's clock.
        """
        self._leaving = reason
        self.lifecycle.drain(trio.ClosedResourceError(_CLOSED), linger=inf)
        if deadline <= trio.current_time():
            self.goodbye(reason)
        self._draining.deadline = min(self._draining.deadline, deadline)

    def _refuse_streams(self, _error: Exception) -> None:
        self.publications.drain()
        self.publications.on_ended = self.lifecycle.check_drained

    def _end_streams(self, error: Exception, _last_words: bytes | None) -> None:
        self.subscriptions.end(error)
        self.publications.end()
        self.greeted.set()

    async def _close(self) -> None:
        """Send what is queued, wait for the goodbye of the peer, and close, for a limited time."""
        with (
            trio.move_on_after(self.config.goodbye_timeout),
            suppress(trio.BrokenResourceError, trio.ClosedResourceError, RemoteProtocolError),
        ):
            await self.queue.wait_idle()
            if self.session.goodbye_sent:
                await self._farewell.wait()
            self._reading.cancel(reason="the connection is over")
            await self._stopped_reading.wait()
            self.transport.wake_writer = None
            await close_politely(self.transport)

    def _part_at_once(self) -> None:
        """End without a wait: this is over already, or is being cancelled."""
        queue = self.queue
        idle = not queue.writing
        self.goodbye(LEAVING)
        transport = self.transport
        if idle and transport.sends_nowait and (words := queue.take_rest()):
            with suppress(Exception):  # whatever it is, the transport is closed next
                transport.send_frames_nowait(words)
        queue.discard()
