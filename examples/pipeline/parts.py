"""Run the parts of the pipeline as processes, each with a log of its own.

No process outlives the block of `supervised`, nor does a process that a part has started.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

import attrs
import trio
from demo_processes import Failed

GRACE: Final = 10.0
"""Seconds that a process has to end, after SIGTERM or after the process that started it."""


@attrs.define
class Part:
    """A running process, and the file with its standard error.

    Attributes:
        may_end: Whether it may end now, with status 0.
        stops_with: The status with which it ends after SIGTERM.
    """

    name: str
    log: Path
    process: trio.Process
    may_end: bool
    stops_with: int
    _unread: bytearray = attrs.field(factory=bytearray, init=False)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        """Return the next line of its standard output. One task may read them."""
        assert self.process.stdout is not None
        while b"\n" not in self._unread:
            some = await self.process.stdout.receive_some()
            if not some:
                raise StopAsyncIteration
            self._unread += some
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")

    async def first_lines(self, count: int) -> list[str]:
        """Return the first lines of its standard output, for example addresses."""
        found: list[str] = []
        async for line in self:
            found.append(line.removeprefix("listening on "))
            if len(found) == count:
                return found
        await self.process.wait()
        raise self.failed("did not start")

    def failed(self, what: str) -> Failed:
        """Return an error that says which part failed, why, and where its log is."""
        return Failed(f"the {self.name} {what}: {_reason(self.log)}\n  its log: {self.log}")


class Parts:
    """The running processes. They are stopped in the opposite order of their start."""

    def __init__(self, logs: Path, nursery: trio.Nursery) -> None:
        self._logs = logs
        self._nursery = nursery
        self._running: list[Part] = []

    async def start(
        self, name: str, command: list[str], *, ends: bool = False, stops_with: int = 0
    ) -> Part:
        """Start a process. If it fails, the block of `supervised` is cancelled, and raises."""
        log = self._logs / f"{name.replace(' ', '-')}.log"
        with log.open("wb") as errors:
            process = await trio.lowlevel.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C reaches only this program, which then stops its parts.
                start_new_session=True,
            )
        part = Part(name, log, process, ends, stops_with)
        self._running.append(part)
        self._nursery.start_soon(self._watch, part)
        return part

    async def stop(self, part: Part) -> None:
        """Stop a process with SIGTERM, if it still runs."""
        part.may_end = True
        if part.process.poll() is not None:
            return
        part.process.terminate()
        with trio.move_on_after(GRACE):
            await part.process.wait()
        if part.process.returncode != part.stops_with:
            raise part.failed(f"stopped with status {part.process.returncode}")

    async def stop_all(self) -> None:
        """Stop all processes, the last one first."""
        for part in reversed(self._running):
            await self.stop(part)

    async def kill_all(self) -> None:
        """Kill the processes that still run, and wait for all that they have started."""
        for part in self._running:
            part.process.kill()
        for part in self._running:
            await part.process.wait()
            await _end_of_session(part.process.pid)

    async def _watch(self, part: Part) -> None:
        status = await part.process.wait()
        fine = {0, part.stops_with} if part.may_end else set()
        if status not in fine:
            raise part.failed(f"ended with status {status}")


@asynccontextmanager
async def supervised(logs: Path) -> AsyncIterator[Parts]:
    """Run processes during the block, with their logs in a directory.

    Raises:
        Failed: In a group: a part has ended in the block, or with another status than 0.
    """
    async with trio.open_nursery() as nursery:
        parts = Parts(logs, nursery)
        try:
            yield parts
            await parts.stop_all()
        finally:
            with trio.CancelScope(shield=True):
                await parts.kill_all()
        nursery.cancel_scope.cancel()


async def _end_of_session(session: int) -> None:
    """Wait until the processes of a session have ended. Java ends soon after its parent."""
    with trio.move_on_after(GRACE):
        while any(_members(session)):  # noqa: ASYNC110  nothing says when they end
            await trio.sleep(0.05)
    for pid in _members(session):
        os.kill(pid, signal.SIGKILL)


def _members(session: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, found = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has ended meanwhile
            continue
        if int(found) == session and state not in "ZX":
            yield int(stat.parent.name)


def _reason(log: Path) -> str:
    """Return the last line of a log that says something. The stack of Java says nothing here."""
    lines = log.read_text(errors="replace").splitlines()
    said = (line for line in reversed(lines) if line.strip() and not line.startswith("\tat "))
    return next(said, "it gave no reason")
