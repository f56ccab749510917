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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
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
    MAX_ANSWER,
    MAX_SIZE,
    Answer,
    Ask,
    Closing,
    Counts,
    Handed,
    Malformed,
    Returned,
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

_PART: Final = MAX_SIZE - 3
"""The bytes of a part of an answer."""

_LAST_WORDS: Final = 1.0
"""How long the end of a worker waits for a parent that does not listen, in seconds."""

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

    def answers(self, question: Ask) -> list[Answer]:
        """Return what this worker says about itself; an error of that is no end of it."""
        what = "metrics" if question.metrics else "report"
        try:
            text = self.metrics() if question.metrics else self._report()
        except Exception:  # of what is counted: it must not end the accepting
            logger.exception("the %s of this worker failed", what)
            text = b""
        if len(text) > MAX_ANSWER:
            logger.error("the %s of this worker cannot be told: %d bytes", what, len(text))
            text = b""
        ends = range(_PART, len(text) + _PART, _PART) or [_PART]
        return [Answer(question.metrics, end < len(text), text[end - _PART : end]) for end in ends]

    def _report(self) -> bytes:
        numbers: dict[str, Any] = {}
        for server in self.servers:
            found: Any = attrs.asdict(server.statistics())
            add_up(numbers, found)
        return json.dumps(numbers, default=str).encode()

    def tell(self) -> None:
        listener = self._listeners[0]
        if self.metrics is not bytes and listener.catch_up():
            for each in self.answers(Ask(metrics=True)):
                listener.say(encode(each))

    async def keep_telling(self) -> None:
        while True:
            self.tell()
            await trio.sleep(_LOOK)

    def say_last_words(self) -> None:
        """Say what could not be said yet, as nobody will."""
        for each in self._listeners:
            each.say_last_words()


def add_up(total: dict[str, Any], report: Mapping[str, Any]) -> None:
    """Add the numbers of a report to those of others, also within mappings and lists."""
    for name, value in report.items():
        if isinstance(value, Mapping):
            within = total.setdefault(name, {})
            if isinstance(within, dict):
                add_up(within, value)
        elif isinstance(value, list | tuple):
            within = total.setdefault(name, [])
            if isinstance(within, list):
                total[name] = _added(within, value)
        elif isinstance(value, int | float) and isinstance(total.get(name, 0), int | float):
            total[name] = total.get(name, 0) + value
        else:
            total.setdefault(name, value)


def _added(total: list[Any], report: Sequence[Any]) -> list[Any]:
    """Add two lists: of numbers by their places, of mappings those that have the same texts."""
    if all(isinstance(each, int | float) for each in (*total, *report)):
        return [one + other for one, other in zip_longest(total, report, fillvalue=0)]
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    for each in (*total, *report):
        if isinstance(each, Mapping):
            texts = tuple(each for each in each.values() if each is None or isinstance(each, str))
            add_up(rows.setdefault(texts, {}), each)
    return list(rows.values())


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
        self._listens = False
        self._taken = self._ended = 0
        self._said: Counts | None = None
        self._unsaid: deque[bytes] = deque()  # bounded by sessions, connections, metrics
        self._waiting: trio.CancelScope | None = None

    async def accept(self) -> trio.SocketStream:
        """Wait for the next connection.

        Checkpoint: always.
        If cancelled: no connection is lost.
        """
        self._listens = True
        while True:
            deadline = inf if self.catch_up() else trio.current_time() + _AGAIN
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
            case Ask() as question:
                for part in self._place.answers(question):
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
                self.catch_up()
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
        self.catch_up()

    def say(self, message: bytes) -> None:
        """Say something to the parent now, or when its socket has room."""
        self._unsaid.append(message)
        self.catch_up()

    def catch_up(self) -> bool:
        """Say what could not be said yet; return whether that is all said now."""
        try:
            while self._unsaid:
                self._sock.send(self._unsaid[0])
                self._unsaid.popleft()
            counts = Counts(self._taken, self._ended)
            if self._listens and self._said != counts:
                self._sock.send(encode(counts))
                self._said = counts
        except BlockingIOError:
            if self._waiting is not None:  # who accepts tries again
                self._waiting.deadline = trio.current_time() + _AGAIN
            return False
        except OSError:  # the parent is gone
            self._unsaid.clear()
            self._said = Counts(self._taken, self._ended)
        return True

    def say_last_words(self) -> None:
        """Say what could not be said yet, and wait for that."""
        self._sock.settimeout(_LAST_WORDS)
        self.catch_up()

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
    try:
        if inspect.iscoroutinefunction(function):
            trio.run(_run, partial(function, *job["arguments"]), place, job["spread"], job["grace"])
            return 0
        status: int = function(*job["arguments"])
        return status
    finally:
        place.say_last_words()


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
        await place.keep_telling()

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
