"""The parent of several workers: `serve_workers`.

It has no code of the application. It holds the listeners, starts the processes, and hands each
connection to the worker with the fewest open ones, by descriptor (SCM_RIGHTS, unix(7)).

A generation is all the workers that were started at one time. The next one begins while the present
one serves; when it is ready it gets the connections, and the present one is dismissed: it ends as
its servers do at a stop.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from ..entrance import Home
from ..field_checks import COUNT, SECONDS, TEXT, argument, number, optional
from ..health import Health, check_health
from ..log_policy import logger
from ..os_support import HANDED_SOCKETS
from ..sealed import Sealed, make
from ..sockets.listen import open_listeners
from ..sockets.patient_listener import PatientListener
from ..sockets.shared import first_frame_is_hidden
from ..uri import Uri, is_opened, owner_of
from .channel import Channel
from .first_frame import LONGEST, Incomplete, resume_token
from .messages import (
    MAX_ANSWER,
    Answer,
    Ask,
    Closing,
    Counts,
    Handed,
    Malformed,
    Returned,
    Session,
    Unready,
    token_hash,
)
from .worker import add_up, address_of

__all__ = ["Job", "WorkerStatus", "Workers", "WorkersFailed", "serve_workers", "supervise"]

State: TypeAlias = Literal["starting", "ready", "ending", "gone"]

_KILL_AFTER: Final = 5.0
"""How long behind its grace a worker may take to end, in seconds; then it is killed."""

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
"""The pauses before a worker is replaced, in seconds: each is twice the one before, and the first
again after a worker that has lived for the longest."""

_MOST_FAILURES: Final = 8
"""How often in a row the replacement of a worker may fail to start; then all are stopped, so that
what watches the parent learns of it."""

_PEEK_TIME: Final = 1.0
"""How long the first frame of a connection is waited for, in seconds, while there are sessions that
it might resume."""

_MOST_PEEKS: Final = 256
"""The connections whose first frame is waited for at once. With a further one the wait for that
which is silent for longest is over: so who sends nothing keeps no client from its worker."""

_MOST_SESSIONS: Final = 65_536
"""The sessions whose worker is known; of more, the oldest is forgotten, and begins anew."""

_REPORT_TIME: Final = 2.0
"""How long a worker may take for its report, in seconds."""

_PRIVATE: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd says to the parent alone."""


@attrs.frozen(kw_only=True)
class Job:
    """What a worker does.

    Attributes:
        run: ``module:function``.
        arguments: The arguments of the function.
        spread: Within how many seconds its servers say goodbye, when they stop.
        grace: How long what is open may take then, in seconds.
    """

    run: str = attrs.field(validator=TEXT)
    arguments: Sequence[object] = ()
    spread: float = attrs.field(default=0.0, validator=number(at_least=0, finite=True))
    grace: float = attrs.field(default=5.0, validator=number(at_least=0))


class WorkersFailed(Exception):
    """Workers did not start; all have been stopped.

    Attributes:
        status: The exit status of the worker that failed; 128 and the number of the signal that
            ended it; 1 if it was not ready in time.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@attrs.frozen(kw_only=True)
class WorkerStatus:
    """A worker, as its parent sees it.

    Attributes:
        number: From 1 on.
        generation: From 1 on.
        pid: Its process.
        state: ``starting``, ``ready``, ``ending``: it gets no more connections; or ``gone``.
        connections: Its open connections.
        accepted: Those that it has got since it has started.
    """

    number: int
    generation: int
    pid: int
    state: str
    connections: int
    accepted: int


class _Worker:
    """One process, from its start to its end."""

    def __init__(self, number: int, generation: int) -> None:
        self.number: Final = number
        self.generation: Final = generation
        self.state: State = "starting"
        self.channels: list[Channel] = []
        self.process: trio.Process | None = None
        self.since = trio.current_time()
        self.settled = trio.Event()  # it is ready, or gone
        self.gone = trio.Event()
        self.unwanted = False  # killed before it was there
        self.asked: dict[Ask, trio.Event] = {}  # the questions, and whether it answered
        self.report: Mapping[str, Any] = {}
        self.metrics = b""
        self.parts = b""  # of the next answer

    @property
    def open(self) -> int:
        return sum(each.open for each in self.channels)

    @property
    def name(self) -> str:
        pid = "" if self.process is None else f", pid {self.process.pid}"
        return f"worker {self.number} (generation {self.generation}{pid})"

    @property
    def status(self) -> int:
        """The exit status as a shell has it; 1 for 0, as a worker should not end by itself."""
        code = None if self.process is None else self.process.returncode
        return 1 if not code else 128 - code if code < 0 else code

    def dismiss(self) -> None:
        """Let it serve what it has, and end."""
        if self.state != "gone":
            self.state = "ending"
        for each in self.channels:
            each.dismiss()

    def kill(self) -> None:
        if self.process is None:
            self.unwanted = True
        elif self.process.returncode is None:
            self.process.kill()


class _Address:
    """One address of the parent."""

    def __init__(self, uri: Uri) -> None:
        self.uri: Final = uri
        self.bound: list[Uri] = []
        self.turn: Final = trio.Lock()
        self.listeners: list[PatientListener] = []
        self.shows_frames: Final = owner_of(uri.scheme) is None and not first_frame_is_hidden(uri)


class _Parent:
    """The addresses, the processes, and who gets a connection."""

    def __init__(
        self,
        job: Job,
        addresses: Iterable[Uri],
        workers: int,
        max_connections: int | None,
        start_timeout: float,
        health: Health,
    ) -> None:
        self.health: Final = health
        self.job: Final = job
        self.addresses: Final = [_Address(each) for each in addresses]
        self.count: Final = workers
        self.start_timeout: Final = start_timeout
        self.most: Final = inf if max_connections is None else max_connections
        self.all: Final[list[_Worker]] = []
        self.generation = 0
        self.changing = trio.Lock()
        self.stopping = False
        self.accepting: Final = trio.CancelScope()
        self.over: Final = trio.Event()
        self.at_end: Final[list[Callable[[bytes], object]]] = []  # get the last metrics of each
        self.patience = job.spread + job.grace
        self._sessions: OrderedDict[bytes, _Worker] = OrderedDict()
        self._room = trio.Event()
        self._peeks: Final = trio.Semaphore(_MOST_PEEKS)
        self._silent: Final[dict[trio.CancelScope, None]] = {}  # the oldest first
        self._failure: WorkersFailed | None = None
        self._nursery: trio.Nursery

    # The processes.

    async def run(self, started: Callable[[], object]) -> None:
        """Serve until `stop`.

        Raises:
            OSError: An address cannot be listened on.
            WorkersFailed: Workers did not start.
        """
        self.health._begins()  # noqa: SLF001 - not for applications
        try:
            for each in self.addresses:
                each.bound, listeners = await open_listeners(each.uri)
                takes = not is_opened(each.uri)  # others may accept there
                each.listeners = [
                    PatientListener(listener, each.uri, takes_last=takes) for listener in listeners
                ]
            async with trio.open_nursery() as self._nursery:
                try:
                    await self.begin_generation()
                except WorkersFailed as error:  # raised below: the nursery would wrap it
                    self._failure = error
                else:
                    self.health._starts()  # noqa: SLF001 - not for applications
                    started()
                    await self._accept_all()
                await self._end()
                self._nursery.cancel_scope.cancel(reason="all workers are gone")
        finally:
            self.health._stops()  # noqa: SLF001 - not for applications
            self.over.set()
            with trio.CancelScope(shield=True):
                await self._close_listeners()
        if self._failure is not None:
            raise self._failure

    async def _close_listeners(self) -> None:
        for each in self.addresses:
            for listener in each.listeners:
                await listener.aclose()

    async def begin_generation(self) -> None:
        """Start the workers of the next generation, and dismiss those of the present one.

        Raises:
            WorkersFailed: They did not start in time, and the present ones go on; or all stop.
        """
        async with self.changing:
            if self.stopping:
                raise WorkersFailed("the workers are being stopped", 1)
            before = [each for each in self.all if each.state != "ending"]
            following = self.generation + 1
            new = [self._spawn(each + 1, following) for each in range(self.count)]
            try:
                await self._ready(new)
            except BaseException:
                for each in new:
                    each.kill()
                raise
            self.generation = following
            for each in new:
                self._nursery.start_soon(self._keep, each)
            self._wake()
            for each in before:
                self._dismiss(each)
            if before:
                logger.info("generation %d serves; the one before ends", following)

    async def _ready(self, workers: Sequence[_Worker]) -> None:
        """Wait until all are ready.

        Raises:
            WorkersFailed: One has ended, or the time is over.
        """
        with trio.move_on_after(self.start_timeout):
            for each in workers:
                await each.settled.wait()
        for each in workers:
            if each.state == "gone":
                text = f"{each.name} has not started: it ended with the status {each.status}"
                raise WorkersFailed(text, each.status)
        for each in workers:
            if each.state != "ready":
                text = f"{each.name} was not ready within {self.start_timeout:g} s"
                raise WorkersFailed(text, 1)

    def _spawn(self, number: int, generation: int) -> _Worker:
        worker = _Worker(number, generation)
        self.all.append(worker)
        self._nursery.start_soon(self._live, worker)
        return worker

    async def _live(self, worker: _Worker) -> None:
        """Run one process to its end, and say what is then to be known of it."""
        theirs: list[socket.socket] = []
        try:
            try:
                for place in range(len(self.addresses)):
                    ours, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    theirs.append(there)
                    worker.channels.append(Channel(ours, place))
                worker.process = await trio.lowlevel.open_process(
                    [sys.executable, "-m", "rsocket_trio.workers", self._job_of(worker, theirs)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[each.fileno() for each in theirs],
                    env={name: each for name, each in os.environ.items() if name not in _PRIVATE},
                    start_new_session=True,  # Ctrl-C is for the parent, which tells the workers
                )
                if worker.unwanted:
                    return
            except OSError as error:
                logger.error("%s cannot be started: %s", worker.name, error)
                return
            finally:
                for each in theirs:
                    each.close()
            async with trio.open_nursery() as nursery:
                for channel in worker.channels:
                    nursery.start_soon(self._listen_to, worker, channel)
                await worker.process.wait()
                # Its last words say what it has taken; a program that it started may hold a socket.
                nursery.cancel_scope.deadline = trio.current_time() + 1
        finally:
            if worker.process is not None:
                worker.kill()
                with trio.CancelScope(shield=True):
                    await worker.process.wait()
            self._buried(worker)

    def _job_of(self, worker: _Worker, sockets: Sequence[socket.socket]) -> str:
        addresses = [
            {"descriptor": sock.fileno(), "uri": str(each.uri), "bound": list(map(str, each.bound))}
            for each, sock in zip(self.addresses, sockets, strict=True)
        ]
        return json.dumps(
            {
                "run": self.job.run,
                "arguments": list(self.job.arguments),
                "parent": os.getpid(),
                "spread": self.job.spread,
                "grace": self.job.grace,
                "patience": self.job.spread + self.job.grace + _KILL_AFTER,
                "number": worker.number,
                "generation": worker.generation,
                "addresses": addresses,
            }
        )

    def _buried(self, worker: _Worker) -> None:
        """Forget a worker that is gone; what it has not taken is for others."""
        worker.state = "gone"
        self.all.remove(worker)
        self._forget_sessions(worker)
        for channel in worker.channels:
            for stream in channel.close():
                if self.accepting.cancel_called:
                    stream.socket.close()
                else:
                    self._nursery.start_soon(self._hand, channel.place, stream)
        for tell in self.at_end:
            tell(worker.metrics)
        worker.settled.set()
        worker.gone.set()
        self._wake()

    async def _keep(self, worker: _Worker) -> None:
        """Replace a worker that has ended by itself, again and again, while its generation is."""
        pause, failures = _FIRST_PAUSE, 0
        number, generation = worker.number, worker.generation
        while True:
            await worker.gone.wait()
            if self.stopping or self.generation != generation:
                return
            if trio.current_time() - worker.since >= _LONGEST_PAUSE:
                pause = _FIRST_PAUSE
            logger.error(
                "%s has ended with the status %d: it is replaced in %g s",
                worker.name,
                worker.status,
                pause,
            )
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            async with self.changing:  # a new generation may have come
                if self.stopping or self.generation != generation:
                    return
                worker = self._spawn(number, generation)
                try:
                    await self._ready([worker])
                except WorkersFailed as error:
                    failures += 1
                    worker.kill()
                    if failures == _MOST_FAILURES:
                        self._failure = error
                        self.stop(0.0, self.patience)
                        return
                else:
                    failures = 0

    def _dismiss(self, worker: _Worker) -> None:
        if worker.state != "gone":
            worker.dismiss()
            self._forget_sessions(worker)
            self._nursery.start_soon(self._kill_late, worker)

    async def _kill_late(self, worker: _Worker) -> None:
        with trio.move_on_after(self.patience + _KILL_AFTER):
            await worker.gone.wait()
            return
        logger.error("%s has not ended in time, and is killed", worker.name)
        worker.kill()

    def stop(self, delay: float, patience: float) -> None:
        self.health._stops()  # noqa: SLF001 - not for applications
        self.patience = min(self.patience, patience)
        self.accepting.deadline = min(self.accepting.deadline, trio.current_time() + delay)
        self.stopping = True
        for each in self.all:
            for channel in each.channels:
                channel.say(Unready())

    async def _end(self) -> None:
        """Dismiss all workers, and wait until they are gone."""
        self.stopping = True
        await self._close_listeners()
        for each in list(self.all):
            self._dismiss(each)
        for each in list(self.all):
            await each.gone.wait()

    # What workers say.

    async def _listen_to(self, worker: _Worker, channel: Channel) -> None:
        try:
            while (message := await channel.receive()) is not None:
                match message:
                    case Counts():
                        channel.took(message)
                        self._settle(worker)
                        self._wake()
                    case Returned():
                        stream = channel.gave_back(message)
                        if stream is not None:
                            self._nursery.start_soon(self._hand, channel.place, stream)
                    case Session(digest, kept):
                        self._note(worker, digest, kept=kept)
                    case Answer():
                        self._answered(worker, message)
                    case Closing():  # its server stops by itself
                        if worker.state != "ending":
                            self._dismiss(worker)
                    case Handed() | Ask() | Unready():
                        raise Malformed("only a parent says this")
        except ValueError as error:  # `Malformed`, or of a report
            logger.error("%s is killed: it has sent what is no message: %s", worker.name, error)
            worker.kill()

    def _settle(self, worker: _Worker) -> None:
        if worker.state == "starting" and all(each.listening for each in worker.channels):
            worker.state = "ready"
            worker.settled.set()
            logger.debug("%s is ready", worker.name)

    def _note(self, worker: _Worker, digest: bytes, *, kept: bool) -> None:
        if not kept:
            if self._sessions.get(digest) is worker:
                del self._sessions[digest]
        elif worker.state in ("starting", "ready"):
            self._sessions[digest] = worker
            self._sessions.move_to_end(digest)
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)

    def _forget_sessions(self, worker: _Worker) -> None:
        for digest in [digest for digest, whose in self._sessions.items() if whose is worker]:
            del self._sessions[digest]

    def _answered(self, worker: _Worker, answer: Answer) -> None:
        worker.parts += answer.part
        if len(worker.parts) > MAX_ANSWER:
            raise Malformed("an answer that is too long")
        if answer.more:
            return
        text, worker.parts = worker.parts, b""
        if answer.metrics:
            worker.metrics = text
        else:
            worker.report = _report_in(text)
        question = Ask(answer.metrics)
        if question in worker.asked:
            worker.asked[question].set()

    async def ask(self, question: Ask) -> None:
        """Ask the workers that are ready; return when they have answered, or the time is over."""
        asked = [each for each in self.all if each.state == "ready"]
        for each in asked:
            last = each.asked.get(question)
            if (last is None or last.is_set()) and each.channels[0].say(question):
                each.asked[question] = trio.Event()
        with trio.move_on_after(_REPORT_TIME):
            for each in asked:
                if question in each.asked:
                    await each.asked[question].wait()

    async def report(self) -> dict[str, Any]:
        """Return the sum of what the workers say about themselves."""
        total: dict[str, Any] = {}
        await self.ask(Ask())
        for each in self.all:
            try:
                add_up(total, each.report if each.state == "ready" else {})
            except (OverflowError, RecursionError) as error:
                logger.error("the report of %s cannot be added: %s", each.name, error)
        return total

    # Who gets a connection.

    def _wake(self) -> None:
        room, self._room = self._room, trio.Event()
        room.set()

    async def _accept_all(self) -> None:
        async with trio.open_nursery() as arriving:
            with self.accepting:
                async with trio.open_nursery() as nursery:
                    for place, address in enumerate(self.addresses):
                        for listener in address.listeners:
                            nursery.start_soon(self._accept, place, listener, arriving)
            await self._close_listeners()
            # What was in their queues would be reset; the workers answer it.
            for place, address in enumerate(self.addresses):
                for listener in address.listeners:
                    for stream in listener.last:
                        arriving.start_soon(self._hand, place, stream)
            arriving.cancel_scope.deadline = trio.current_time() + _PEEK_TIME

    async def _accept(self, place: int, listener: PatientListener, arriving: trio.Nursery) -> None:
        shows_frames = self.addresses[place].shows_frames
        while True:
            stream = await listener.accept()
            if not (shows_frames and self._sessions):
                await self._hand(place, stream)
                continue
            if not self._peeks.value and self._silent:
                oldest = next(iter(self._silent))
                del self._silent[oldest]
                oldest.cancel(reason="another connection has come")
            try:
                await self._peeks.acquire()
            except BaseException:  # also when cancelled
                stream.socket.close()
                raise
            arriving.start_soon(self._hand_by_frame, place, stream)

    async def _hand(self, place: int, stream: trio.SocketStream) -> None:
        """Hand a connection to the worker with the fewest; wait for one that has room."""
        try:
            # In the order of arrival, and only the first looks when there is room again.
            async with self.addresses[place].turn:
                while True:
                    room = self._room
                    for each in self._by_load(place):
                        if self._handed(each, place, stream):
                            return
                    with trio.move_on_after(_FIRST_PAUSE):
                        await room.wait()
        except BaseException:  # also when cancelled
            stream.socket.close()
            raise

    def _by_load(self, place: int) -> list[_Worker]:
        able = [
            each
            for each in self.all
            if each.state == "ready"
            and each.generation == self.generation
            and each.channels[place].has_room
        ]
        random.shuffle(able)  # ties; sorting is stable
        return sorted(able, key=lambda each: each.open)

    def _handed(self, worker: _Worker, place: int, stream: trio.SocketStream) -> bool:
        excess = self.most != inf and sum(each.open for each in self.all) >= self.most
        return worker.channels[place].hand(stream, excess=excess)

    async def _hand_by_frame(self, place: int, stream: trio.SocketStream) -> None:
        """Hand a connection to the worker whose session it resumes, if it does."""
        token: bytes | None = None
        try:
            with trio.move_on_after(_PEEK_TIME) as scope:
                self._silent[scope] = None
                try:
                    token = await _peek(stream)
                finally:
                    self._silent.pop(scope, None)
            worker = None if token is None else self._sessions.get(token_hash(token))
            able = worker is not None and worker.channels[place].has_room
            if worker is None or not (able and self._handed(worker, place, stream)):
                await self._hand(place, stream)
        except BaseException:  # also when cancelled
            stream.socket.close()
            raise
        finally:  # also those that wait for a worker with room are bounded so
            self._peeks.release()


def _report_in(text: bytes) -> dict[str, Any]:
    report: dict[str, Any] = {}
    try:
        found = json.loads(text or b"{}")
        add_up(report, found if isinstance(found, dict) else {})
    except RecursionError:
        raise Malformed("a report that is nested too deeply") from None
    return report


async def _peek(stream: trio.SocketStream) -> bytes | None:
    """Return the resume token with which a connection begins, without reading it."""
    pause = 0.002
    while True:
        try:
            head = await stream.socket.recv(LONGEST, socket.MSG_PEEK)
        except OSError:
            return None
        token = resume_token(head)
        if not isinstance(token, Incomplete):
            return token
        if not head:
            return None
        # The kernel says that there is something to read, and not that there is more.
        await trio.sleep(pause)
        pause = min(2 * pause, 0.1)


@final
class Workers(metaclass=Sealed, given="serve_workers gives one to task_status"):
    """Running workers; `serve_workers` makes it and gives it to ``task_status``.

    Attributes:
        uris: The addresses on which the parent listens, with their real ports.
    """

    def __init__(self, parent: _Parent) -> None:
        self.uris = [str(bound) for each in parent.addresses for bound in each.bound]
        self._parent = parent
        self._home = Home()

    def status(self) -> tuple[WorkerStatus, ...]:
        """Return the workers that are there.

        Raises:
            RuntimeError: The caller is in another thread than the parent.
        """
        self._home.check("these workers")
        return tuple(
            WorkerStatus(
                number=each.number,
                generation=each.generation,
                pid=0 if each.process is None else each.process.pid,
                state=each.state,
                connections=each.open,
                accepted=sum(channel.accepted for channel in each.channels),
            )
            for each in self._parent.all
        )

    async def report(self) -> dict[str, Any]:
        """Ask the workers for the statistics of their servers, and add them up.

        Of ``by_route`` the numbers of one interaction and route are added. Those that end are not
        asked; those that do not answer within 2 s count with their last answer.

        Raises:
            RuntimeError: The caller is in another thread than the parent.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._home.check("these workers")
        await trio.lowlevel.checkpoint()
        return await self._parent.report()

    async def metrics(self) -> tuple[bytes, ...]:
        """Ask the workers for their metrics; return the text of each that is there.

        `rsocket_trio.metrics.workers_page` shows their sums. A worker has them if it calls
        `rsocket_trio.metrics.worker_metrics`; else its text is empty.

        Raises:
            RuntimeError: The caller is in another thread than the parent.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._home.check("these workers")
        await trio.lowlevel.checkpoint()
        await self._parent.ask(Ask(metrics=True))
        return tuple(each.metrics for each in self._parent.all)

    def _at_end(self, tell: Callable[[bytes], object]) -> None:
        """Give the last metrics of each worker that is gone to a function."""
        self._parent.at_end.append(tell)

    async def reload(self) -> None:
        """Start workers anew, with the code and the files of now, and let the present ones end.

        Returns when the new ones are ready and get all connections. The present ones stop as
        servers do: they say goodbye, and what is open has the grace to finish. No connection is
        refused.

        Raises:
            WorkersFailed: The new workers did not start in time; they are stopped, and the present
                ones go on. Or all workers are being stopped.
            RuntimeError: The caller is in another thread.

        Checkpoint: always.
        If cancelled: the new workers are stopped, and the present ones go on.
        """
        self._home.check("these workers")
        await self._parent.begin_generation()

    def stop(self, *, delay: float = 0.0, spread: float = 0.0, grace: float = 5.0) -> None:
        """Begin to stop as `aclose` does, without waiting.

        Raises:
            RuntimeError: The caller is in another thread.
            TypeError: An argument is no number.
            ValueError: It is less than 0, or ``delay`` or ``spread`` is infinite.
        """
        self._home.check("these workers")
        argument("delay", delay, number(at_least=0, finite=True))
        argument("spread", spread, number(at_least=0, finite=True))
        argument("grace", grace, number(at_least=0))
        self._parent.stop(delay, spread + grace)

    async def aclose(self, *, delay: float = 0.0, spread: float = 0.0, grace: float = 5.0) -> None:
        """Stop all workers gracefully, at the same time.

        For ``delay`` seconds everything goes on; only the health, here and in each worker, says not
        ready. Then nothing more is accepted, and each worker stops its servers, with the spread and
        the grace of `serve_workers`. What is still there 5 s behind them, or behind ``spread`` and
        ``grace`` if these are shorter, is killed.

        Args:
            delay: Seconds.
            spread: Seconds.
            grace: Seconds.

        Raises:
            RuntimeError: The caller is in another thread.

        Checkpoint: always.
        If cancelled: they still stop.
        """
        self.stop(delay=delay, spread=spread, grace=grace)
        await self._parent.over.wait()


async def supervise(
    job: Job,
    addresses: Sequence[Uri],
    *,
    workers: int,
    max_connections: int | None,
    start_timeout: float,
    health: Health | None = None,
    task_status: trio.TaskStatus[Workers],
) -> None:
    """Run a job in several processes: `serve_workers`, for jobs of any kind.

    Raises:
        OSError: An address cannot be listened on, or this system has no such sockets.
        WorkersFailed: The first workers did not start.

    Checkpoint: always.
    If cancelled: all workers are killed.
    """
    if not HANDED_SOCKETS:
        raise OSError("several workers need sockets that only Linux has (SOCK_SEQPACKET)")
    told = Health() if health is None else health
    parent = _Parent(job, addresses, workers, max_connections, start_timeout, told)
    await parent.run(lambda: task_status.started(make(Workers, parent)))


async def serve_workers(
    main: str,
    *uris: str,
    workers: int,
    max_connections: int | None = None,
    spread: float = 0.0,
    grace: float = 5.0,
    start_timeout: float = 30.0,
    health: Health | None = None,
    task_status: trio.TaskStatus[Workers] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the same addresses by several processes, until stopped.

    This process accepts, and hands each connection to the worker with the fewest open ones; ties
    are broken at random. Each worker is a fresh interpreter that runs ``main``, an async function
    without arguments, which calls `rsocket_trio.serve` with these addresses, of any wire and with
    any options::

        async def main() -> None:
            await serve(router, "tcp://127.0.0.1:7878", resume=ServerResume())

    TLS and all handshakes are in the workers, each of which has a lifespan of its own;
    `this_worker` says which one it is. They share no state. A client that resumes its session finds
    its worker at plain addresses; with TLS or WebSocket ``serve`` refuses ``resume=``.

    A worker that ends by itself is replaced, at first within 0.1 s, then at growing intervals of at
    most 30 s; with it only its own connections are lost. If its replacement fails to start 8 times
    in a row, all are stopped. When this process is gone, the workers stop gracefully.

    Args:
        main: The function, as ``package.module:function``; the module is looked for as Python does,
            and in the working directory.
        uris: The addresses. Another address that ``main`` serves is the worker's own.
        workers: How many processes.
        max_connections: The connections that may be open at once over all workers and generations.
            One more is refused by a worker, on WebSocket with HTTP 503.
        spread: Within how many seconds the servers of a worker say goodbye when they stop.
        grace: How long what is open may take then, in seconds. 5 s behind it the worker is killed.
        start_timeout: How long a worker may take until its servers accept, in seconds.
        health: Is told when all workers accept connections, and when they stop.
        task_status: Gets the `Workers` when all are ready.

    Raises:
        OSError: An address cannot be listened on, or this system is not Linux.
        WorkersFailed: The first workers did not start, or a replacement failed again and again.
        TypeError: An argument is of a wrong type.
        ValueError: An address or a number is wrong, or there is no address.

    Checkpoint: always.
    If cancelled: all workers are killed. `Workers.aclose` is the graceful way.
    """
    argument("main", main, TEXT)
    argument("workers", workers, COUNT)
    argument("max_connections", max_connections, optional(COUNT))
    argument("start_timeout", start_timeout, SECONDS)
    check_health(health)
    if not uris:
        raise ValueError('name at least one address to listen on, e.g. "tcp://127.0.0.1:7878"')
    if not all(main.partition(":")):
        raise ValueError(f"{main!r} is not package.module:function")
    await supervise(
        Job(run=main, spread=spread, grace=grace),
        [address_of(each) for each in uris],
        workers=workers,
        max_connections=max_connections,
        start_timeout=start_timeout,
        health=health,
        task_status=task_status,
    )
