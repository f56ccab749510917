"""The lines of files by offset: `ReplayLines`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import trio

from ... import Payload
from .messages import NotReplayable, Offsets, ReplayOffsets, not_replayable
from .source import ReplaySource

__all__ = ["ReplayLines"]

_STEP: Final = 1024
"""Lines between two known places in a file. A read skips so many lines at most."""


class ReplayLines(ReplaySource):
    """The lines of files. Each file is a partition, and a line without its end is an element.

    Lines may be added to the files while they are served; a line counts when its end is there. The
    lines that are there must not change. The identity of the elements (`Offsets.id`) is made of the
    first line, so a file that is made anew has another one.

    Args:
        paths: The files. They need not exist yet.
        max_line_size: Longer lines are an error, in bytes.
    """

    def __init__(self, *paths: str | os.PathLike[str], max_line_size: int = 2**20) -> None:
        self._files = [_Lines(Path(path), max_line_size) for path in paths]

    async def offsets(self) -> ReplayOffsets:
        """See `ReplaySource.offsets`.

        Raises:
            OSError: A file cannot be read.
            ValueError: A line is too long.

        Checkpoint: always.
        If cancelled: the lines that were counted so far stay counted.
        """
        await trio.lowlevel.checkpoint()
        partitions: dict[int, Offsets] = {}
        for number, lines in enumerate(self._files):
            async with lines.lock:
                await trio.to_thread.run_sync(lines.look)
            partitions[number] = Offsets(0, lines.count, lines.identity)
        return ReplayOffsets(partitions)

    async def elements(
        self, partition: int, start: int, stop: int
    ) -> AsyncIterator[bytes | Payload]:
        """See `ReplaySource.elements`.

        Raises:
            CustomError: The file was made anew since its offsets were told.
            OSError: The file cannot be read.

        Checkpoint: every 1024 lines.
        If cancelled: nothing changes.
        """
        lines = self._files[partition]
        while start < stop:
            # Up to the next known place, so that lines are skipped once only.
            end = min(stop, (start // _STEP + 1) * _STEP)
            for line in await trio.to_thread.run_sync(lines.read, start, end):
                yield line
            start = end


class _Lines:
    """A file whose lines are counted. Its methods run in threads."""

    def __init__(self, path: Path, max_line_size: int) -> None:
        self.path = path
        self.lock = trio.Lock()
        self.count = 0
        self.identity: str | None = None
        self._max_line_size = max_line_size
        self._size = 0
        self._places = [0]

    def look(self) -> None:
        """Count the lines that are new."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._begin(None)
            return
        with file:
            identity = self._identify(file)
            if identity != self.identity or os.fstat(file.fileno()).st_size < self._size:
                self._begin(identity)
            file.seek(self._size)
            while (line := self._line(file)).endswith(b"\n"):
                self._size += len(line)
                self.count += 1
                if self.count % _STEP == 0:
                    self._places.append(self._size)

    def read(self, start: int, stop: int) -> list[bytes]:
        """Return some lines."""
        place, skipped = divmod(start, _STEP)
        with self.path.open("rb") as file:
            same = self._identify(file) == self.identity
            file.seek(self._places[place] if same else 0)
            lines = [self._line(file) for _ in range(skipped + stop - start)] if same else []
        if not same or not all(line.endswith(b"\n") for line in lines):
            raise not_replayable(NotReplayable.OTHER_ID, "the file was written anew")
        return [line.removesuffix(b"\n").removesuffix(b"\r") for line in lines[skipped:]]

    def _begin(self, identity: str | None) -> None:
        self.identity = identity
        self.count = self._size = 0
        self._places = [0]

    def _identify(self, file: BinaryIO) -> str | None:
        """Return the identity, and None before the first line is there."""
        file.seek(0)
        line = self._line(file)
        return sha256(line).hexdigest()[:32] if line.endswith(b"\n") else None

    def _line(self, file: BinaryIO) -> bytes:
        line = file.readline(self._max_line_size + 1)
        if len(line) > self._max_line_size:
            raise ValueError(
                f"{self.path}: a line is longer than {self._max_line_size} bytes (max_line_size)"
            )
        return line
