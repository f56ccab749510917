"""The task of one file: `FileTask`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio

from .progress import Progress
from .recorder import Recorder
from .registry import Position
from .sender import Sender
from .tail import Batch, Tail

__all__ = ["FileTask"]


class FileTask:
    """Reads one file, and records what is acknowledged.

    Args:
        tail: The open file. This object closes it.
        path: Its path.
        source: What named it.
        sender: Takes the batches.
        recorder: Takes the acknowledged offsets.

    Attributes:
        key: The identity of the file.
        path: The path by which the file became known.
        path_now: Where the last look has found it.
        has_reached_end: Whether the last time it was read, it was to its end, without a failure.
    """

    def __init__(
        self, tail: Tail, path: str, source: str, *, sender: Sender, recorder: Recorder
    ) -> None:
        self.key = tail.key
        self.path = path
        self.has_reached_end = False
        self._tail = tail
        self.path_now = path
        self._source = source
        self._sender = sender
        self._recorder = recorder
        # What is written down: `tail` may know more already. An acknowledgement of older events
        # must not write down what was known when they were read.
        self._id = tail.id
        self._fingerprint = tail.fingerprint
        self._progress = Progress(tail.first)
        # The identity and the fingerprint that the registry has.
        known = tail.known
        self._entered = None if known is None else (known.id, known.fingerprint)
        self._facts: tuple[int, int] | None = None
        self._woken = trio.Event()
        self._over = False
        self._ends: list[trio.Event] = []
        # When the last byte was read, and when the file disappeared from its place.
        self._fresh = trio.current_time()
        self._gone = inf

    def seen(self, path: str, size: int, modified: int) -> None:
        """Take what a look at the file found. If it has changed, it is read on."""
        self.path_now = path
        self._gone = inf
        if self._facts != (size, modified):
            self._facts = (size, modified)
            self._woken.set()

    def missed(self) -> None:
        """Take that the file is not at its place any more. It is read on for a while."""
        self._gone = min(self._gone, trio.current_time())
        self._woken.set()

    def end(self) -> trio.Event:
        """Return an event that is set when the file is read to its end once more from now on.

        A newer file of the same path waits for it, so that the lines keep their order.
        """
        event = trio.Event()
        if self._over:
            event.set()
        else:
            self._ends.append(event)
            self._woken.set()
        return event

    async def read_once(self) -> None:
        """Read the file to its end.

        Raises:
            OSError: It cannot be read.

        Checkpoint: always.
        If cancelled: what was read is sent.
        """
        try:
            await self._read_to_end()
        except OSError as error:
            error.filename = self.path  # A failed read does not name a file.
            raise
        await self._forward(self._tail.finish)

    async def follow(self, before: list[trio.Event], close_after: float, patience: float) -> None:
        """Read the file as it grows, until it is gone and nothing more comes.

        Args:
            before: The ends of older files of the same path, which are waited for.
            close_after: How long it is read on after it is gone and its last byte has come.
            patience: How long an entry of several lines waits for its next line.

        Raises:
            OSError: It cannot be read.

        Checkpoint: always.
        If cancelled: what was read is sent.
        """
        try:
            # At once: it may lose its name before the older files are read.
            await self._enter()
            for end in before:
                await end.wait()
            while True:
                # Only these: a read that has begun may have missed the last bytes.
                reached, self._ends = self._ends, []
                self.has_reached_end = False
                try:
                    await self._read_to_end()
                    self.has_reached_end = True
                finally:
                    for end in reached:
                        end.set()
                now = trio.current_time()
                if now >= max(self._gone, self._fresh) + close_after:
                    await self._forward(self._tail.finish)
                    break
                until = self._fresh + patience if self._tail.pending else inf
                if now >= until:
                    await self._forward(self._tail.flush)
                with trio.CancelScope(deadline=until):
                    await self._woken.wait()
                self._woken = trio.Event()
        finally:
            self._over = True
            for end in self._ends:
                end.set()

    async def settle(self) -> None:
        """Wait until everything is acknowledged, and close the file.

        Checkpoint: always.
        If cancelled: the file is closed.
        """
        try:
            await self._progress.settled()
            if self._tail.deleted:
                self._recorder.forget(self._tail.key)
        finally:
            self.close()

    def close(self) -> None:
        """Close the file, if it is open."""
        self._tail.close()

    async def _enter(self) -> None:
        """Write the file down, before anything of its content is read.

        So it is found again if it is renamed while nobody reads it, also if nothing of it was ever
        acknowledged. It is written down once more when it has more first bytes: without them,
        another content that begins alike would get its identity.
        """
        content = self._tail.id, self._tail.fingerprint
        if content == self._entered:
            return
        if self._tail.id != self._id:
            # It was truncated: the acknowledgements of the old content mean nothing now.
            self._id = self._tail.id
            self._progress = Progress(0)
            self._sender.counts.truncations += 1
        self._fingerprint = self._tail.fingerprint
        self._record()
        await self._recorder.written()
        self._entered = content

    def _record(self) -> None:
        self._recorder.put(
            Position(
                path=self.path_now,
                real=self._tail.real,
                source=self._source,
                key=self._tail.key,
                id=self._id,
                fingerprint=self._fingerprint,
                offset=self._progress.offset,
            )
        )

    async def _read_to_end(self) -> None:
        at_end = False
        while not at_end:
            await self._enter()
            before = self._tail.offset
            at_end = (await self._forward(self._tail.read)).at_end
            if self._tail.offset != before:
                self._fresh = trio.current_time()

    async def _forward(self, read: Callable[[], Batch]) -> Batch:
        return await self._sender.forward(read, self._begin)

    def _begin(self, batch: Batch) -> Callable[[], None]:
        progress = self._progress
        part = progress.begin(batch.end)

        def acknowledged() -> None:
            progress.acknowledged(part)
            # An offset of a file that was truncated since then means nothing now.
            if progress is self._progress:
                self._record()

        return acknowledged
