"""Send the lines of files, and remember what is acknowledged: `Shipment`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from time import time as now
from typing import Final

import attrs
import trio

from ..log_policy import logger
from .counts import Counts
from .discovery import Found, Problem, Source, find_moved, path_now, scan
from .file_task import FileTask
from .identity import FileKey
from .recorder import Recorder
from .registry import KEPT, Position, Registry
from .sender import Sender
from .tail import Reading, Tail

__all__ = ["FilesMissing", "Following", "Shipment"]


_TIDY: Final = 3600.0
"""Seconds between two looks for positions whose files do not exist any more."""
_ATTEMPTS: Final = 5
"""How many times a file is opened that is renamed at the same moment, before the next look."""


class FilesMissing(Exception):
    """Files that should be read cannot be read.

    Attributes:
        problems: All of them, with their reasons.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"cannot read {each.path}: {each.reason}" for each in problems))
        self.problems = problems


@attrs.frozen(kw_only=True)
class Following:
    """How files are followed.

    Attributes:
        poll: The time between two looks at the files, in seconds.
        close_after: How long a file that was renamed or deleted is read on after its last new byte,
            in seconds: its writer may still have it open.
    """

    poll: float = 0.5
    close_after: float = 60.0


class Shipment:
    """Reads files and sends their lines.

    Args:
        sources: The files.
        send: Sends events, and returns when they are acknowledged. It is called by several tasks
            at the same time, for one file in the order of its events.
        registry: Where the files and their acknowledged offsets are kept.
        reading: How files are read.
        following: How they are followed; ``None``: each is read to its end, once.
        in_flight: How many batches may be on the way at the same time.
        max_open: How many files may be open at the same time, when they are followed.

    Attributes:
        counts: What was read and acknowledged.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        send: Callable[[list[bytes]], Awaitable[None]],
        *,
        registry: Registry,
        reading: Reading,
        following: Following | None,
        in_flight: int,
        max_open: float = inf,
    ) -> None:
        self.counts = Counts()
        self._sources = sources
        self._send = send
        self._registry = registry
        self._reading = reading
        self._following = following
        self._in_flight = in_flight
        self._max_open = max_open
        self._recorder = Recorder(registry)
        self._files: dict[FileKey, FileTask] = {}
        self._reported: set[Problem] = set()
        self._reads = trio.CancelScope()
        self._everything = trio.CancelScope()
        self._failure: Exception | None = None

    def stop(self, grace: float) -> None:
        """Stop reading. What was read has ``grace`` seconds to be acknowledged."""
        self._reads.cancel(reason="stopped")
        self._everything.deadline = trio.current_time() + grace

    async def run(self) -> bool:
        """Send everything, or until `stop`.

        Returns:
            Whether everything that was read is acknowledged.

        Raises:
            FilesMissing: Not all files can be read. It is raised before anything is sent, if the
                files are not followed.
            OSError: A file, or the registry, failed.
            Exception: What ``send`` raised.

        Checkpoint: always.
        If cancelled: the acknowledged offsets are written.
        """
        # A registry that cannot be written is said now, and not after lines were sent.
        await self._recorder.check()
        try:
            async with trio.open_nursery() as recording:
                recording.start_soon(self._recorder.run)
                with self._everything:
                    async with trio.open_nursery() as sending:
                        await self._read(self._sender(sending), sending)
                recording.cancel_scope.cancel(reason="everything is acknowledged")
        finally:
            for file in self._files.values():
                file.close()
            await self._recorder.finish()
        if self._failure is not None:
            raise self._failure
        return not self.counts.waiting

    def _sender(self, nursery: trio.Nursery) -> Sender:
        return Sender(
            self._send,
            places=self._in_flight,
            nursery=nursery,
            counts=self.counts,
            fail=self._fail,
        )

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._everything.cancel(reason="the shipment failed")

    async def _read(self, sender: Sender, sending: trio.Nursery) -> None:
        """Read the files until they end or `stop` is called."""
        with self._reads:
            try:
                if self._following is None:
                    await self._read_all(sender, sending)
                else:
                    await self._follow(self._following, sender)
            except Exception as error:  # raised by `run`: the nursery would wrap it in a group
                self._fail(error)

    def _look(self) -> tuple[list[Found], list[Problem]]:
        """Find the files of the sources, without those of the registry. This blocks."""
        found, problems = scan(self._sources)
        own = [each for each in found if self._registry.owns(each.path)]
        problems += [
            Problem(each.path, "it is the registry") for each in own if not each.source.is_pattern
        ]
        return [each for each in found if each not in own], problems

    def _find_moved(self, found: Sequence[Found]) -> list[tuple[str, Found]]:
        """Find the files of our sources that were renamed meanwhile and not read to their ends.

        Each comes with the name that it had. Positions of files that have not been there for long
        are forgotten. This blocks.
        """
        there = {each.key for each in found}
        absent = [each for each in self._registry.positions() if each.key not in there]
        moved = find_moved(absent)
        there.update(position.key for position, _ in moved)
        there.update(list(self._files))
        for position in absent:
            if position.key not in there and position.updated < now() - KEPT:
                self._registry.forget(position.key)
        return [
            (position.path, file)
            for position, file in moved
            if self._is_ours(position) and self._is_wanted(file, position.offset)
        ]

    def _is_ours(self, position: Position) -> bool:
        """Return whether a file was found by one of our sources, or would have been."""
        return any(
            source.text == position.source or source.names(position.path)
            for source in self._sources
        )

    def _is_wanted(self, moved: Found, offset: int) -> bool:
        if moved.size > offset or self._following is None:
            return moved.size > offset
        # Its writer may still have it open.
        return now() - moved.modified / 1e9 < self._following.close_after

    def _unknown(self, found: Sequence[Found]) -> tuple[list[Position], list[Problem]]:
        """Return the files that the registry does not have, and those that cannot be opened.

        This blocks.
        """
        positions: list[Position] = []
        problems: list[Problem] = []
        for each in found:
            try:
                tail = Tail(each.path, each.path, self._reading, self._registry.known)
            except FileNotFoundError:  # It was renamed a moment ago: `_open` looks for it.
                continue
            except OSError as error:
                problems.append(Problem(each.path, error.strerror or str(error)))
                continue
            tail.close()
            if tail.known is None:
                positions.append(
                    Position(
                        path=each.path,
                        real=tail.real,
                        source=each.source.text,
                        key=tail.key,
                        id=tail.id,
                        fingerprint=tail.fingerprint,
                        offset=0,
                    )
                )
        return positions, problems

    async def _open(self, found: Found, name: str, sender: Sender) -> FileTask | None:
        """Open a file, unless it is open already, or has disappeared since it was found.

        Raises:
            OSError: It cannot be opened.
        """
        tail = await trio.to_thread.run_sync(self._open_tail, found, name)
        if tail is None:
            return None
        if tail.key in self._files:
            tail.close()
            return None
        file = FileTask(tail, name, found.source.text, sender=sender, recorder=self._recorder)
        self._files[tail.key] = file
        self.counts.opened += 1
        self.counts.files += 1
        return file

    def _open_tail(self, found: Found, name: str) -> Tail | None:
        """Open exactly the file that was found, also if it was renamed since then. This blocks."""
        path: str | None = found.path
        for _ in range(_ATTEMPTS):
            assert path is not None
            gone: FileNotFoundError | None = None
            try:
                tail = Tail(path, name, self._reading, self._registry.known)
            except FileNotFoundError as error:
                gone = error
            else:
                if tail.key == found.key:
                    return tail
                tail.close()
            path = path_now(found)
            if path is None and gone is not None:
                raise gone
            if path is None:
                return None
        return None

    async def _settle(self, file: FileTask) -> None:
        """Close a file when everything is acknowledged."""
        await file.settle()
        del self._files[file.key]
        self.counts.files -= 1

    async def _read_all(self, sender: Sender, sending: trio.Nursery) -> None:
        """Read each file once, one after the other. The last batches of several may be on the way.

        Raises:
            FilesMissing: See `run`.
            OSError: A file cannot be read.
        """
        found, problems = await trio.to_thread.run_sync(self._look)
        new, unreadable = await trio.to_thread.run_sync(self._unknown, found)
        if problems or unreadable:
            raise FilesMissing([*problems, *unreadable])
        for position in new:  # All with one write: each file has its turn much later.
            self._recorder.put(position)
        await self._recorder.written()
        moved = await trio.to_thread.run_sync(self._find_moved, found)
        for name, each in (*moved, *((each.path, each) for each in found)):
            file = await self._open(each, name, sender)
            if file is not None:
                await file.read_once()
                sending.start_soon(self._settle, file)

    async def _follow(self, following: Following, sender: Sender) -> None:
        """Look at the files again and again, and begin a task for each new one."""
        async with trio.open_nursery() as nursery:
            begin = partial(self._begin, sender=sender, nursery=nursery, following=following)
            tidy = -inf
            while True:
                found, problems = await trio.to_thread.run_sync(self._look)
                if trio.current_time() >= tidy + _TIDY:
                    moved = await trio.to_thread.run_sync(self._find_moved, found)
                    # Later, a file that is renamed is open already, or its time is over.
                    for name, each in moved if tidy == -inf else ():
                        await begin(each, name)
                    tidy = trio.current_time()
                self._tell(found)
                for each in found:
                    if each.key not in self._files:
                        problem = await begin(each, each.path)
                        problems += [] if problem is None else [problem]
                self._report(problems)
                self.counts.looks += 1
                await trio.sleep(following.poll)

    def _tell(self, found: list[Found]) -> None:
        """Tell each open file what was found at its place."""
        there = {each.key: each for each in found}
        for key, file in self._files.items():
            if key in there:
                file.seen(there[key].path, there[key].size, there[key].modified)
            else:
                file.missed()

    async def _begin(
        self,
        found: Found,
        name: str,
        *,
        sender: Sender,
        nursery: trio.Nursery,
        following: Following,
    ) -> Problem | None:
        """Begin to follow a file."""
        if len(self._files) >= self._max_open:
            return Problem(found.path, f"{len(self._files)} files are open; raise ulimit -n")
        older = [file for file in self._files.values() if file.path == name]
        try:
            file = await self._open(found, name, sender)
        except OSError as error:
            return Problem(found.path, error.strerror or str(error))
        if file is not None:
            before = [each.end() for each in older]
            nursery.start_soon(self._follow_one, file, before, following)
        return None

    async def _follow_one(
        self, file: FileTask, before: list[trio.Event], following: Following
    ) -> None:
        rule = self._reading.multiline
        patience = inf if rule is None else rule.timeout
        try:
            await file.follow(before, following.close_after, patience)
            await self._settle(file)
        except Exception as error:  # raised by `run`: the nursery would wrap it in a group
            self._fail(error)

    def _report(self, problems: list[Problem]) -> None:
        """Log what cannot be read, once."""
        for problem in problems:
            if problem not in self._reported:
                logger.warning("cannot read %s yet: %s", problem.path, problem.reason)
        self._reported = set(problems)
