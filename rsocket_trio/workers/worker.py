"""The program of a worker: ``python -m rsocket_trio.workers JOB``.

Its servers ask for a listener as always, and get one that gives the connections which the parent
hands over (`rsocket_trio.sockets.workplace`). There is no task for that: who accepts reads the
socket to the parent, and what there is to say is said at once.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from math import inf
from threading import Thread
from typing import Any, Final

import attrs
import trio

from ..log_policy import logger
from ..os_support import STOP_SIGNALS
from ..sockets.workplace import HandedListener, Workplace, work_at, workplace
from ..uri import RSOCKET, Uri, owner_of, parse_uri
from .messages import (
    MAX_METRICS,
    MAX_SIZE,
    Ask,
    Closing,
    Counts,
    Handed,
    Malformed,
    Metrics,
    Report,
    Returned,
    Scrape,
    Session,
    Unready,
    decode,
    encode,
    token_hash,
)

__all__ = ["WorkerInfo", "add_up", "address_of", "main", "this_worker"]

_LOOK: Final = 1.0
"""How often a worker looks whether its parent is there, in seconds. While a lifespan begins, or if
it never does, nobody reads the socket that would say so."""

_PART: Final = MAX_SIZE - 2
"""The bytes of a part of the metrics."""

_AGAIN: Final = 0.05
"""How long what could not be said to the parent waits, in seconds: its socket was full."""


@attrs.frozen(kw_only=True)
class WorkerInfo:
    """Which worker this process is.

    Attributes:
        number: From 1 to the number of workers. One that is replaced has the same.
        generation: From 1 on; each new generation of workers has the next.
    """

    number: int
    generation: int


def this_worker() -> WorkerInfo | None:
    """Return which worker this process is; ``None`` if it is none.

    E.g. for a lifespan that does something in one worker only, or names its metrics.
    """
    place = workplace()
    return place.info if isinstance(place, _Place) else None


def address_of(text: str) -> Uri:
    """Return an address of any wire.

    Raises:
        ValueError: It is not an address.
    """
    wire = owner_of(text.partition(":")[0].lower()) or RSOCKET
    if wire != RSOCKET:
        importlib.import_module(f"rsocket_trio.{wire}.addresses")  # registers its schemes
    return parse_uri(text, wire)


class _Place(Workplace):
    """The place of a worker process.

    Args:
        job: What the parent says about this worker.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__()
        self.info = WorkerInfo(number=job["number"], generation=job["generation"])
        self.number = self.info.number
        self.is_first = self.info == WorkerInfo(number=1, generation=1)
        self._listeners = [
            _Listener(self, each["descriptor"], address_of(each["uri"]), each["bound"])
            for each in job["addresses"]
        ]
        self._parent: Final[int] = job["parent"]
        self._over: trio.Event | None = None

    def listener(self, uri: Uri) -> HandedListener | None:
        there = (each for each in self._listeners if each.uri == uri and not each.used)
        found = next(there, None)
        if found is not None:
            found.used = True
        return found

    def serves(self, uri: Uri) -> bool:
        return any(each.uri == uri for each in self._listeners)

    def session(self, token: bytes, *, kept: bool) -> None:
        self._listeners[0].say(encode(Session(token_hash(token), kept)))

    async def wait_stopping(self) -> None:
        if self._over is None:
            self._over = trio.Event()
        self.look()
        while not self._over.is_set():
            with trio.move_on_after(_LOOK):
                await self._over.wait()
            self.look()
        await trio.lowlevel.checkpoint()

    def look(self) -> None:
        """See whether the parent hands anything over any more."""
        used = [each.over for each in self._listeners if each.used]
        dismissed = used and all(used)
        if self._over is not None and (dismissed or os.getppid() != self._parent):
            self._over.set()

    def unready(self) -> None:
        """Let probes know that the servers of this process will stop."""
        for each in self.servers:
            each._serving.unready()  # noqa: SLF001 - not for applications

    def report(self) -> bytes:
        """Return what this worker says about itself, as JSON; an error of that is no end of it."""
        numbers: dict[str, Any] = {}
        try:
            for server in self.servers:
                add_up(numbers, _numbers_of(server))
            text = json.dumps(numbers, default=str).encode()
        except Exception:  # of what a server counts: it must not end the accepting
            logger.exception("the report of this worker failed")
            return b"{}"
        if len(text) >= MAX_SIZE:
            logger.error("the report of this worker is too long: %d bytes", len(text))
            return b"{}"
        return text

    def parts(self) -> list[Metrics]:
        """Return what this worker says to scrapers; an error of that is no end of it."""
        try:
            text = self.metrics()
        except Exception:  # of what is counted: it must not end the accepting
            logger.exception("the metrics of this worker failed")
            text = b""
        if len(text) > MAX_METRICS:
            logger.error("the metrics of this worker are too long: %d bytes", len(text))
            text = b""
        ends = range(_PART, len(text) + _PART, _PART) or [_PART]
        return [Metrics(text[end - _PART : end], end < len(text)) for end in ends]


def _numbers_of(server: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = attrs.asdict(server.statistics())
    return found


def add_up(total: dict[str, Any], report: Mapping[str, Any]) -> None:
    """Add the numbers of a report to those of others, also within its mappings."""
    for name, value in report.items():
        if isinstance(value, Mapping):
            within = total.setdefault(name, {})
            if isinstance(within, dict):
                add_up(within, value)
        elif isinstance(value, int | float) and isinstance(total.get(name, 0), int | float):
            total[name] = total.get(name, 0) + value
        else:
            total.setdefault(name, value)


class _Listener(HandedListener):
    """Gives the connections that come over one socket from the parent.

    Attributes:
        uri: The address.
        used: A server has it.
        over: The parent hands nothing over any more.
    """

    def __init__(self, place: _Place, descriptor: int, uri: Uri, bound: list[str]) -> None:
        super().__init__([address_of(each) for each in bound])
        self.uri = uri
        self.used = False
        self.over = False
        self._place = place
        self._sock = socket.socket(fileno=descriptor)
        self._sock.setblocking(False)
        os.set_inheritable(descriptor, False)
        self._taken = self._ended = 0
        self._said: Counts | None = None
        self._unsaid: deque[bytes] = deque()  # bounded by sessions, connections, metrics
        self._waiting: trio.CancelScope | None = None

    async def accept(self) -> trio.SocketStream:
        """Wait for the next connection.

        Checkpoint: always.
        If cancelled: no connection is lost.
        """
        while True:
            self._flush()
            deadline = trio.current_time() + _AGAIN if self._unsaid_at_all() else inf
            with trio.CancelScope(deadline=deadline) as self._waiting:
                await trio.lowlevel.wait_readable(self._sock)
            if self._waiting.cancelled_caught:
                continue
            received = self._receive()
            if received is not None:
                return received
            if self.over:
                self._place.look()
                await trio.sleep_forever()

    def _receive(self) -> trio.SocketStream | None:
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._sock, MAX_SIZE, 1, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except ConnectionError:
            data, descriptors = b"", []
        if not data:
            self.over = True
            return None
        match decode(data):
            case Ask():
                self.say(encode(Report(self._place.report())))
            case Scrape():
                for part in self._place.parts():
                    self.say(encode(part))
            case Unready():
                self._place.unready()
            case Handed(number, excess):
                self._taken = number
                if not descriptors:  # this process may have no more
                    logger.error("cannot take connections now: no file descriptor is left")
                    self._unsaid.append(encode(Returned(number)))
                    self.ended()
                    return None
                self._flush()
                sock = socket.socket(fileno=descriptors[0])
                sock.setblocking(False)
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
                if excess:
                    self.excess.add(stream)
                return stream
            case other:
                raise Malformed(f"{other} from the parent")
        return None

    def ended(self) -> None:
        self._ended += 1
        self._flush()

    def say(self, message: bytes) -> None:
        """Say something to the parent now, or when its socket has room."""
        self._unsaid.append(message)
        self._flush()

    def _unsaid_at_all(self) -> bool:
        return bool(self._unsaid) or self._said != Counts(self._taken, self._ended)

    def _flush(self) -> None:
        try:
            while self._unsaid:
                self._sock.send(self._unsaid[0])
                self._unsaid.popleft()
            counts = Counts(self._taken, self._ended)
            if self._said != counts:
                self._sock.send(encode(counts))
                self._said = counts
        except BlockingIOError:
            if self._waiting is not None:  # who accepts tries again
                self._waiting.deadline = trio.current_time() + _AGAIN
        except OSError:  # the parent is gone
            self._unsaid.clear()
            self._said = Counts(self._taken, self._ended)

    async def aclose(self) -> None:
        """Take no more connections; those that come are for other workers.

        Checkpoint: always.
        If cancelled: the parent is told nevertheless.
        """
        if not self.over:
            self.say(encode(Closing()))
        await trio.lowlevel.checkpoint()


def main(argv: list[str] | None = None) -> int:
    """Run a worker: a function of a module, with the arguments of the parent.

    A function that returns a coroutine runs in trio, and its servers stop gracefully at a signal or
    when the parent says so. Another one, which runs trio itself, sees to that.

    Returns:
        The exit status.
    """
    job = json.loads((sys.argv[1:] if argv is None else argv)[0])
    Thread(target=_end_with, args=(job["parent"], job["patience"]), daemon=True).start()
    place = _Place(job)
    work_at(place)
    module, _, name = job["run"].partition(":")
    function = getattr(importlib.import_module(module), name)
    if inspect.iscoroutinefunction(function):
        trio.run(_run, partial(function, *job["arguments"]), place, job["spread"], job["grace"])
        return 0
    status: int = function(*job["arguments"])
    return status


def _end_with(parent: int, patience: float) -> None:
    """End this process when its parent is gone, and its patience is over.

    The thread of trio learns of it too, and stops gracefully: but a handler that does not give back
    the processor hears of nothing. (PR_SET_PDEATHSIG of prctl(2) is no way: the kernel takes the
    thread that has started a process for its parent, and threads of trio end when they are idle.)
    """
    while os.getppid() == parent:
        time.sleep(_LOOK)
    end = time.monotonic() + patience
    while time.monotonic() < end:  # it may be infinite
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGKILL)


async def _run(
    function: Callable[[], Awaitable[object]], place: _Place, spread: float, grace: float
) -> None:
    failure: Exception | SystemExit | None = None
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        for server in list(place.servers):
            server.stop(spread=spread, grace=grace)

    async def at_wish() -> None:
        await place.wait_stopping()
        if not place.servers:  # none has begun
            nursery.cancel_scope.cancel(reason="the parent is gone, or wants no more")
        stop()

    async def at_signals(signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            if stopping:
                nursery.cancel_scope.cancel(reason="a second signal")
            stop()

    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at_wish)
            nursery.start_soon(at_signals, signals)
            try:
                await function()
            except (Exception, SystemExit) as error:  # raised below: the nursery would wrap it
                failure = error
            nursery.cancel_scope.cancel(reason="the function has returned")
    if failure is not None:
        raise failure
