"""Send the lines of files, and remember what is acknowledged: `Shipment`."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from time import time as now
from typing import Final

import attrs
import trio

from ..log_policy import logger
from .counts import Counts
from .discovery import Found, Listings, Look, Problem, Source, find_moved, scan
from .file_task import FileTask
from .identity import FileKey, Fingerprint
from .recorder import Recorder
from .registry import KEPT, Position, Registry, new_id
from .sender import Sender
from .tail import Reading, Tail
from .wanted import Wanted, WantedFile

__all__ = ["FilesMissing", "Following", "Shipment"]


_TIDY: Final = 3600.0
"""Seconds between two looks for files that were renamed, or do not exist any more."""
_ATTEMPTS: Final = 5
"""How many times a file is opened that is renamed at the same moment, before the next look."""
_RETRY: Final = 1.0
"""Seconds until a file that cannot be read on is opened again."""
_NAMED: Final = 20
"""How many files one error names. All of them are in the log."""


class FilesMissing(Exception):
    """Files that should be read cannot be read.

    Attributes:
        problems: All of them, with their reasons.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        named = [f"cannot read {each.path}: {each.reason}" for each in self.problems[:_NAMED]]
        more = len(self.problems) - len(named)
        super().__init__("; ".join([*named, f"and {more} more"] if more else named))


@attrs.frozen(kw_only=True)
class Following:
    """How files are followed.

    Attributes:
        poll: The time between two looks at the files, in seconds. 0.5 s.
        close_after: How long a file that was renamed or deleted is read on after its last new byte,
            in seconds: its writer may still have it open. 60 s.
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
        self._wanted = Wanted()
        # Where files are that were renamed since the last look.
        self._listings = Listings()
        # Files that could not be read on, until they are read to their ends.
        self._failing: dict[FileKey, Problem] = {}
        # Links that are not followed.
        self._links: set[str] = set()
        self._tidied = -inf
        self._reads = trio.CancelScope()
        self._everything = trio.CancelScope()
        self._failure: Exception | None = None
        # What is raised when everything else is acknowledged.
        self._late: Exception | None = None

    @property
    def problems(self) -> list[Problem]:
        """What should be read, and cannot be read now."""
        return list(self._wanted.problems.values())

    def stop(self, grace: float) -> None:
        """Stop reading. What was read has ``grace`` seconds to be acknowledged."""
        self._reads.cancel(reason="stopped")
        self._everything.deadline = trio.current_time() + grace

    async def run(self) -> bool:
        """Send everything, or until `stop`.

        Returns:
            Whether everything that was read is acknowledged.

        Raises:
            FilesMissing: Not all files can be read, and they are not followed. The others are sent
                before it is raised.
            OSError: The registry failed; or a file did, if it is not followed, and the others are
                sent.
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
        if self._late is not None and not self.counts.waiting:
            raise self._late
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

    def _look(self) -> Look:
        """Find the files of the sources, without those of the registry. This blocks."""
        look = scan(self._sources)
        self._listings = Listings()
        own = [each for each in look.found if self._registry.owns(each.path)]
        look.problems += [
            Problem(each.path, "it is the registry") for each in own if not each.source.is_pattern
        ]
        look.found = [each for each in look.found if each not in own]
        return look

    def _find_moved(self, found: Sequence[Found]) -> list[tuple[str, Found]]:
        """Find the files of our sources that were renamed meanwhile and not read to their ends.

        At the start that is not known: also of one that seems to be complete, the writer may still
        have it open. Each comes with the name that it had. Positions of files that have not been
        there for long are forgotten. This blocks.

        Raises:
            OSError: The process has no descriptors.
        """
        is_start = self._following is not None and self._tidied == -inf
        there = {each.key for each in found}
        absent = [each for each in self._registry.positions() if each.key not in there]
        moved = find_moved(absent)
        there.update(position.key for position, _ in moved)
        there.update(list(self._files))
        there.update(self._wanted.keys())
        for position in absent:
            if position.key not in there and position.updated < now() - KEPT:
                self._registry.forget(position.key)
        return [
            (position.path, file)
            for position, file in moved
            if self._is_ours(position) and (is_start or file.size > position.offset)
        ]

    def _is_ours(self, position: Position) -> bool:
        """Return whether a file was found by one of our sources, or would have been."""
        return any(
            source.text == position.source or source.names(position.path)
            for source in self._sources
        )

    def _unknown(
        self, wanted: Sequence[WantedFile]
    ) -> tuple[list[Position], dict[FileKey | str, Problem]]:
        """Return the files that the registry does not have, and those that cannot be opened.

        Of those there is only the identity: it is enough to find them again. This blocks.
        """
        positions: list[Position] = []
        problems: dict[FileKey | str, Problem] = {}
        for each in wanted:
            found = each.found
            real, content, first = os.path.realpath(found.path), new_id(), 0
            fingerprint = Fingerprint.of(b"")
            try:
                tail = self._open_tail(each)
            except OSError as error:
                problems[found.key] = Problem.of(found.path, error)
                is_new = not isinstance(error, FileNotFoundError)
                is_new = is_new and not self._registry.has(found.key)
            else:
                tail.close()
                real, content, first = tail.real, tail.id, tail.first
                fingerprint = tail.fingerprint
                is_new = tail.known is None or tail.known.fingerprint != fingerprint
            if is_new:
                positions.append(
                    Position(
                        path=found.path,
                        real=real,
                        source=found.source.text,
                        key=found.key,
                        id=content,
                        fingerprint=fingerprint,
                        offset=first,
                    )
                )
        return positions, problems

    async def _open(self, wanted: WantedFile, sender: Sender) -> FileTask:
        """Open a file.

        Raises:
            FileNotFoundError: It is gone.
            OSError: It cannot be opened now.
        """
        tail = await trio.to_thread.run_sync(self._open_tail, wanted)
        source = wanted.found.source.text
        file = FileTask(tail, wanted.name, source, sender=sender, recorder=self._recorder)
        self._files[tail.key] = file
        self.counts.opened += 1
        self.counts.files += 1
        return file

    def _open_tail(self, wanted: WantedFile) -> Tail:
        """Open exactly the file that was found, also if it was renamed since then. This blocks."""
        found = wanted.found
        for _ in range(_ATTEMPTS):
            path = self._path_now(found)
            if path is None:
                break
            try:
                tail = Tail(
                    path,
                    wanted.name,
                    self._reading,
                    self._registry.known,
                    follow_links=found.source.follow_links,
                )
            except FileNotFoundError:
                continue
            is_other = wanted.is_moved and tail.known is None
            if tail.key == found.key and not is_other:
                if tail.known is None:
                    self._tell_copy(tail)
                return tail
            tail.close()
            if is_other:
                break
        else:
            raise OSError(errno.EBUSY, "it is renamed again and again", found.path)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), found.path)

    def _tell_copy(self, tail: Tail) -> None:
        """Log that a new file is the copy of another one (``copytruncate``)."""
        original = self._registry.original(tail.key, tail.fingerprint)
        if original is not None:
            logger.warning(
                "%s begins as %s: if it is a copy (copytruncate), its lines are shipped twice; name"
                " no copies, or rotate by renaming",
                tail.real,
                original.path,
            )

    async def _settle(self, file: FileTask) -> None:
        """Close a file when everything is acknowledged."""
        await file.settle()
        del self._files[file.key]
        self.counts.files -= 1

    async def _read_all(self, sender: Sender, sending: trio.Nursery) -> None:
        """Read each file once, one after the other. The last batches of several may be on the way.

        Raises:
            FilesMissing: Nothing can be read.
        """
        look = await trio.to_thread.run_sync(self._look)
        problems = await self._want(look)
        wanted = self._wanted.files()
        new, unreadable = await trio.to_thread.run_sync(self._unknown, wanted)
        problems |= unreadable
        readable = [each for each in wanted if each.found.key not in problems]
        if problems and not readable:
            raise FilesMissing(problems.values())
        self._tell_links(look)
        self._wanted.report(problems)
        for position in new:  # All with one write: each file has its turn much later.
            self._recorder.put(position)
        await self._recorder.written()
        if problems:
            self._late = FilesMissing(problems.values())
        for each in readable:
            try:
                file = await self._open(each, sender)
                try:
                    await file.read_once()
                finally:
                    sending.start_soon(self._settle, file)
            except OSError as error:
                problems[each.found.key] = Problem.of(each.found.path, error)
                self._wanted.report(problems)
                self._late = error

    async def _follow(self, following: Following, sender: Sender) -> None:
        """Look at the files again and again, and begin a task for each new one."""
        async with trio.open_nursery() as nursery:
            while True:
                look = await trio.to_thread.run_sync(self._look)
                problems = await self._want(look)
                self._tell(look)
                self._tell_links(look)
                problems |= await self._begin_wanted(following, sender, nursery)
                problems |= self._still_failing(look)
                self._wanted.report(problems)
                self.counts.looks += 1
                await trio.sleep(following.poll)

    async def _want(self, look: Look) -> dict[FileKey | str, Problem]:
        """Take what a look has found, and from time to time the files that were renamed.

        Returns:
            What could not be looked at.
        """
        problems: dict[FileKey | str, Problem] = {each.path: each for each in look.problems}
        if trio.current_time() >= self._tidied + _TIDY:
            try:
                moved = await trio.to_thread.run_sync(self._find_moved, look.found)
            except OSError as error:
                problems[str(error.filename)] = Problem.of(str(error.filename), error)
            else:
                self._tidied = trio.current_time()
                for name, each in moved:
                    if each.key not in self._files:
                        self._wanted.add(each, name, is_moved=True)
        for each in look.found:
            if each.key not in self._files:
                self._wanted.add(each, each.path)
        return problems

    def _tell(self, look: Look) -> None:
        """Tell each open file what was found at its place."""
        there = {each.key: each for each in look.found}
        for key, file in self._files.items():
            if key in there:
                file.seen(there[key].path, there[key].size, there[key].modified)
            elif not look.is_hidden(file.path_now):
                file.missed()

    def _tell_links(self, look: Look) -> None:
        """Log the links that a pattern does not follow, once."""
        for path in look.links:
            if path not in self._links:
                logger.warning(
                    "%s is a link, and is not followed: name it, or use --follow-links", path
                )
        self._links = set(look.links)

    async def _begin_wanted(
        self, following: Following, sender: Sender, nursery: trio.Nursery
    ) -> dict[FileKey | str, Problem]:
        """Begin to follow the files that are not open yet; return those that cannot be opened.

        They are in the registry, so they are found after a restart.
        """
        problems: dict[FileKey | str, Problem] = {}
        for each in self._wanted.files():
            key, path = each.found.key, each.found.path
            if len(self._files) >= self._max_open:
                break
            older = [file for file in self._files.values() if file.path == each.name]
            try:
                file = await self._open(each, sender)
            except FileNotFoundError:
                self._wanted.remove_gone(key)
            except OSError as error:
                problems[key] = Problem.of(path, error)
            else:
                self._wanted.remove(key)
                before = [one.end() for one in older]
                nursery.start_soon(self._follow_one, file, before, following)
        await self._enter_wanted()
        no_room = [each.found for each in self._wanted.files() if each.found.key not in problems]
        gone = await trio.to_thread.run_sync(self._gone, no_room) if no_room else set()
        for found in no_room:
            if found.key in gone:
                self._wanted.remove_gone(found.key)
            else:
                reason = f"{len(self._files)} files are open; raise ulimit -n"
                problems[found.key] = Problem(found.path, reason)
        return problems

    async def _enter_wanted(self) -> None:
        """Have the files that could not be opened in the registry, each once."""
        new = [each for each in self._wanted.files() if not each.is_entered]
        if new:
            positions, _ = await trio.to_thread.run_sync(self._unknown, new)
            for position in positions:
                self._recorder.put(position)
            for each in new:
                each.is_entered = True

    def _gone(self, wanted: list[Found]) -> set[FileKey]:
        """Return which files are not there any more. This blocks."""
        try:
            return {each.key for each in wanted if self._path_now(each) is None}
        except OSError:  # It cannot be found out.
            return set()

    def _path_now(self, found: Found) -> str | None:
        """See `Listings.path_now`. A new registry may have got the inode of a deleted file."""
        path = self._listings.path_now(found)
        return None if path is None or self._registry.owns(path) else path

    async def _follow_one(
        self, file: FileTask, before: list[trio.Event], following: Following
    ) -> None:
        rule = self._reading.multiline
        patience = inf if rule is None else rule.timeout
        try:
            try:
                await file.follow(before, following.close_after, patience)
            except OSError as error:  # It is opened again.
                self._failing[file.key] = Problem.of(file.path, error)
                await trio.sleep(_RETRY)
            await self._settle(file)
        except Exception as error:  # raised by `run`: the nursery would wrap it in a group
            self._fail(error)

    def _still_failing(self, look: Look) -> dict[FileKey | str, Problem]:
        """Return the files that could not be read on, and not to their ends since then."""
        there = {each.key for each in look.found}
        problems: dict[FileKey | str, Problem] = {}
        for key, problem in list(self._failing.items()):
            file = self._files.get(key)
            if key not in there if file is None else file.has_reached_end:
                del self._failing[key]
            else:
                problems[key] = problem
        return problems
