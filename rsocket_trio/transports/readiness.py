"""Waiting for many sockets at once, with one registration for each: `Readiness`.

`trio.lowlevel.wait_readable` tells the kernel about a socket anew for each wait, and makes half a
dozen objects for it. Where hundreds of connections wait for one message each, that is a third of
all the work of a server. So where a trio run has many connections, each socket is registered once,
with an epoll of our own, in edge-triggered mode. One system task waits for this epoll and wakes the
tasks whose sockets have become readable.

A message then takes one more turn of trio's loop, so a run with few connections waits as trio does.
Systems without epoll always wait as trio does (`rsocket_trio.os_support`).

The rules of edge-triggered mode (epoll(7)):

- The kernel tells once that bytes have arrived. An event that comes while no task waits is kept
  (`Watch.ready`); the next wait then ends at once.
- A read that fills its buffer may have left bytes behind, so the next wait ends at once too.
- The end of the peer's stream may come together with its last bytes. From then on every wait ends
  at once (`Watch.ended`), so that a read finds the end.
"""

from __future__ import annotations

import select
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.lowlevel import (
    Abort,
    RunVar,
    checkpoint,
    current_task,
    reschedule,
    spawn_system_task,
    wait_readable,
    wait_task_rescheduled,
)

from .. import os_support

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["MANY", "Readiness", "Watch"]

MANY: Final = 32
"""With this many connections or more, a run uses one epoll for all. It stops below half of this."""

_EVENTS_AT_ONCE: Final = 1024
"""The most events that one poll returns; the next poll returns the others."""

_END: Final = os_support.EPOLL_END


class Readiness:
    """The sockets of one trio run that wait to be readable.

    Attributes:
        streams: The number of streams that are open in this run.
        shared: The streams wait with the epoll of this object, because there are many.
    """

    def __init__(self) -> None:
        self.streams = 0
        self.shared = False
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
        self.streams += 1
        if self.streams >= MANY:
            self.shared = os_support.EPOLL

    def leave(self) -> None:
        """Count a stream that is closed."""
        self.streams -= 1
        if self.streams < MANY // 2:
            self.shared = False

    def register(self, watch: Watch, fd: int) -> None:
        """Let the kernel tell ``watch`` when ``fd`` becomes readable.

        Raises:
            OSError: The kernel refuses to.
        """
        epoll = self._epoll
        if epoll is None:
            epoll = self._epoll = select.epoll()
            self._waiting = trio.CancelScope()
            spawn_system_task(self._wake_readers, epoll, self._waiting)
        epoll.register(fd, os_support.EPOLL_EVENTS)
        self._watches[fd] = watch

    def forget(self, watch: Watch, fd: int) -> None:
        """Undo `register`. The descriptor may be closed already."""
        if self._watches.get(fd) is not watch:
            return
        del self._watches[fd]
        if self._epoll is not None:
            with suppress(OSError):  # the kernel forgets a descriptor that is closed
                self._epoll.unregister(fd)
        if not self._watches and self._waiting is not None:
            self._epoll = None
            self._waiting.cancel(reason="no socket is registered")

    async def _wake_readers(self, epoll: select.epoll, scope: trio.CancelScope) -> None:
        """Wake the tasks whose sockets have become readable; this runs in a system task."""
        watches = self._watches
        with epoll, scope:
            while True:
                await wait_readable(epoll.fileno())
                for fd, events in epoll.poll(0, _EVENTS_AT_ONCE):
                    watch = watches.get(fd)
                    if watch is None:
                        continue
                    if events & _END:
                        watch.ended = True
                    task = watch.task
                    if task is None:
                        watch.ready = True
                    else:
                        watch.task = None
                        reschedule(task)


_readiness: Final[RunVar[Readiness | None]] = RunVar("rsocket_trio_readiness", None)


class Watch:
    """Waits until one socket is readable.

    Attributes:
        task: The task that waits.
        readiness: The `Readiness` of the trio run.
        registered: The kernel tells us when the socket becomes readable.
        ready: There may be something to read, so the next wait ends at once.
        ended: The peer has ended its stream, or the connection broke, so every wait ends at once.
    """

    __slots__ = ("_fd", "_socket", "ended", "readiness", "ready", "registered", "task")

    def __init__(self, socket: trio.socket.SocketType) -> None:
        self._socket = socket
        self._fd = -1
        self.readiness = Readiness.of_this_run()
        self.registered = False
        self.task: Task | None = None
        self.ready = False
        self.ended = False
        self.readiness.join()

    def wait(self) -> Awaitable[None]:
        """Wait until a read may find something. Await it at once, in one task at a time.

        Raises:
            trio.ClosedResourceError: The socket was closed.

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        if not self.readiness.shared:
            if self.registered:
                self._forget()
            return wait_readable(self._socket)  # noqa: ASYNC105  # the caller awaits it
        if not self.registered:
            self._fd = self._socket.fileno()
            if self._fd == -1:
                raise trio.ClosedResourceError("this socket was closed")
            try:
                self.readiness.register(self, self._fd)
            except OSError:  # the kernel has no room in our epoll; it may have room in trio's
                return wait_readable(self._socket)  # noqa: ASYNC105  # the caller awaits it
            self.registered = True
        if self.ready or self.ended:
            self.ready = False
            return checkpoint()  # noqa: ASYNC105  # the caller awaits it
        self.task = current_task()
        return wait_task_rescheduled(self._abort)  # noqa: ASYNC105  # the caller awaits it

    def close(self) -> None:
        """End the wait, if there is one, because the stream is being closed. Call it only once."""
        if self.registered:
            self._forget()
        self.readiness.leave()
        task, self.task = self.task, None
        if task is not None:
            reschedule(task)

    def _forget(self) -> None:
        self.readiness.forget(self, self._fd)
        self.registered = self.ready = self.ended = False

    def _abort(self, _raise_cancel: Any) -> Abort:
        self.task = None
        return Abort.SUCCEEDED
