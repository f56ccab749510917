"""Waiting for many sockets at once, with one registration for each: `Readiness`.

`trio.lowlevel.wait_readable` tells the kernel about a socket anew for each wait, and makes half a
dozen objects for it. With 1000 connections that wait for one message each, that takes a fifth of
the processor time of a server (docs/performance.md). So where a trio run has many connections, each
socket is registered once, with an epoll of our own, in edge-triggered mode. One system task waits
for this epoll and wakes the tasks whose sockets have become readable.

A message then takes one more turn of trio's loop, so a run with few connections waits as trio does.
Systems without epoll always wait as trio does (`rsocket_trio.os_support`).

The rules of edge-triggered mode (epoll(7)):

- The kernel tells once that bytes have arrived. Each wait ends at once from this event
  (`Watch.ready`) until a read has taken all the bytes: a wait that is cancelled loses nothing.
- A read that fills its buffer may have left bytes behind, so the next wait ends at once too. A read
  of a Unix socket may always have: it stops behind bytes that came with file descriptors.
- The end of the peer's stream may come together with its last bytes, and a read stops before urgent
  data. After these events every wait ends at once (`Watch.ended`), until a read finds nothing.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.lowlevel import (
    Abort,
    RunVar,
    checkpoint,
    current_task,
    enable_ki_protection,
    reschedule,
    spawn_system_task,
    wait_readable,
    wait_task_rescheduled,
    wait_writable,
)

from .. import os_support

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["MANY", "Readiness", "Watch", "until_readable", "until_writable"]

MANY: Final = 32
"""With this many connections or more, a run uses one epoll for all. It stops below half of this."""

_EVENTS_AT_ONCE: Final = 1024
"""The most events that one poll returns; the next poll returns the others."""

_ENDS_AT_ONCE: Final = 32
"""The most connections that learn in one turn of the loop that their peer has left. The end of a
connection takes a server most of a millisecond. If ten thousand peers leave at once, those that are
still there would wait for seconds."""

_LASTING: Final = os_support.EPOLL_LASTING


def until_readable(socket: trio.socket.SocketType) -> Awaitable[None]:
    """Wait until a read of ``socket`` may find something, as trio waits. Await it at once.

    Raises:
        OSError: The descriptor of the socket was closed elsewhere.
        trio.BusyResourceError: Another task waits.
        trio.ClosedResourceError: The socket was closed.

    Checkpoint: always.
    If cancelled: nothing happens.
    """
    # If trio is asked to wait for the descriptor -1, later waits for -1 get BusyResourceError.
    if socket.fileno() == -1:
        raise trio.ClosedResourceError("this socket was closed")
    return wait_readable(socket)  # noqa: ASYNC105  # the caller awaits it


def until_writable(socket: trio.socket.SocketType) -> Awaitable[None]:
    """Wait until the kernel has room for a write; everything else as `until_readable`."""
    if socket.fileno() == -1:
        raise trio.ClosedResourceError("this socket was closed")
    return wait_writable(socket)  # noqa: ASYNC105  # the caller awaits it


class Readiness:
    """The sockets of one trio run that wait to be readable.

    Attributes:
        streams: The number of streams that are open in this run.
        shared: The streams wait with the epoll of this object, because there are many.
        dropped: The watches of streams that the garbage collector found, in any thread.
    """

    def __init__(self) -> None:
        self.streams = 0
        self.shared = False
        self.dropped: deque[Watch] = deque()
        self._over = False  # system tasks are cancelled, as the run ends
        self._epoll: select.epoll | None = None
        self._watches: dict[int, Watch] = {}
        self._waiting: trio.CancelScope | None = None

    @classmethod
    def of_this_run(cls) -> Readiness:
        """Return the `Readiness` of the current trio run."""
        readiness = _readiness.get()
        if readiness is None:
            readiness = cls()
            _readiness.set(readiness)
        return readiness

    def join(self) -> None:
        """Count a stream."""
        while self.dropped:
            self.dropped.pop().close()
        self.streams += 1
        if self.streams >= MANY:
            self.shared = os_support.EPOLL and not self._over

    def leave(self) -> None:
        """Count a stream that is closed."""
        self.streams -= 1
        if self.streams < MANY // 2:
            self.shared = False

    def register(self, watch: Watch, fd: int) -> None:
        """Let the kernel tell ``watch`` when ``fd`` becomes readable.

        Raises:
            OSError: The kernel refuses to.
            RuntimeError: The run is about to end.
        """
        epoll = self._epoll
        if epoll is None:
            epoll = self._start()
        try:
            epoll.register(fd, os_support.EPOLL_EVENTS)
        except OSError:
            self._stop_if_unused()
            raise
        self._watches[fd] = watch

    def forget(self, watch: Watch, fd: int) -> None:
        """Undo `register`. The descriptor may be closed already."""
        if self._watches.get(fd) is not watch:
            return
        del self._watches[fd]
        if self._epoll is not None:
            with suppress(OSError):  # the kernel forgets a descriptor that is closed
                self._epoll.unregister(fd)
        self._stop_if_unused()

    def _start(self) -> select.epoll:
        epoll = select.epoll()
        waiting = trio.CancelScope()
        try:
            spawn_system_task(self._wake_readers, epoll, waiting)
        except RuntimeError:
            epoll.close()
            raise
        self._epoll = epoll
        self._waiting = waiting
        return epoll

    def _stop_if_unused(self) -> None:
        if not self._watches and self._waiting is not None:
            self._epoll = None
            self._waiting.cancel(reason="no socket is registered")

    def _end(self) -> None:
        """Let all tasks wait as trio does; some system tasks outlive the main task."""
        self._over = True
        self.shared = False
        self._epoll = self._waiting = None
        watches = list(self._watches.values())
        self._watches.clear()
        for watch in watches:
            watch.registered = False
            watch.wake()

    async def _wake_readers(self, epoll: select.epoll, scope: trio.CancelScope) -> None:
        """Wake the tasks whose sockets have become readable. This runs in a system task."""
        try:
            with epoll, scope:
                await self._take_events(epoll)
        except OSError:  # trio's epoll has no room for ours
            self._end()
        except trio.Cancelled:
            self._end()
            raise

    async def _take_events(self, epoll: select.epoll) -> None:
        watches = self._watches
        ending: deque[Watch] = deque()
        while True:
            if ending:
                await checkpoint()
            else:
                await wait_readable(epoll.fileno())
            for fd, events in epoll.poll(0, _EVENTS_AT_ONCE):
                watch = watches.get(fd)
                if watch is None:
                    continue
                watch.ready = True
                task = watch.task
                if events & _LASTING:
                    watch.ended = True
                    if task is not None:
                        ending.append(watch)
                elif task is not None:
                    watch.task = None
                    reschedule(task)
            for _ in range(min(len(ending), _ENDS_AT_ONCE)):
                ending.popleft().wake()


_readiness: Final[RunVar[Readiness | None]] = RunVar("rsocket_trio_readiness", None)


class Watch:
    """Waits until one socket is readable.

    Attributes:
        task: The task that waits.
        readiness: The `Readiness` of the trio run.
        registered: The kernel tells us when the socket becomes readable.
        ready: There may be something to read, so waits end at once until a read has taken it.
        ended: The peer has ended its stream, the connection broke, or urgent data came. Waits end
            at once until a read finds nothing.
    """

    # No reference to the socket: the garbage collector closes one that was dropped.
    __slots__ = ("_fd", "ended", "readiness", "ready", "registered", "task")

    _fd: int  # set while `registered`

    def __init__(self) -> None:
        self.readiness = Readiness.of_this_run()
        self.registered = False
        self.task: Task | None = None
        self.ready = False
        self.ended = False
        self.readiness.join()

    # Ctrl-C must not come between two changes that belong together.
    @enable_ki_protection
    def wait(self, socket: trio.socket.SocketType) -> Awaitable[None]:
        """Wait until a read of ``socket`` may find something. Await it at once.

        Raises:
            OSError: The descriptor of the socket was closed elsewhere.
            trio.BusyResourceError: Another task waits.
            trio.ClosedResourceError: The socket was closed.

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        if self.task is not None:
            raise trio.BusyResourceError("another task is already receiving")
        if not self.readiness.shared:
            if self.registered:
                self._forget()
            return until_readable(socket)
        fd = socket.fileno()
        if fd == -1:
            # The kernel tells nothing about a socket that something else has closed.
            raise trio.ClosedResourceError("this socket was closed")
        if not self.registered:
            self._fd = fd
            try:
                self.readiness.register(self, fd)
            except (OSError, RuntimeError):  # the kernel has no room for more; trio may have room
                return until_readable(socket)
            self.registered = True
        if self.ready or self.ended:
            return checkpoint()  # noqa: ASYNC105  # the caller awaits it
        return self._sleep()

    @enable_ki_protection
    async def _sleep(self) -> None:
        self.task = current_task()
        await wait_task_rescheduled(self._abort)

    @enable_ki_protection
    def close(self) -> None:
        """End the wait, if there is one, because the stream is being closed. Call it only once."""
        if self.registered:
            self._forget()
        self.readiness.leave()
        self.wake()

    def wake(self) -> None:
        """End the wait, if there is one."""
        task, self.task = self.task, None
        if task is not None:
            reschedule(task)

    def _forget(self) -> None:
        self.readiness.forget(self, self._fd)
        self.registered = self.ready = self.ended = False

    def _abort(self, _raise_cancel: Any) -> Abort:
        self.task = None
        return Abort.SUCCEEDED
