"""The task that writes the registry: `Recorder`."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

import trio

from ..log_policy import logger
from .identity import FileKey
from .registry import Position, Registry

__all__ = ["Recorder"]

_SHARE: Final = 4
"""After each write there is a pause of this many times its duration, so that a large registry does
not take a whole core, and a slow disk is not busy all the time."""
_LONGEST_PAUSE: Final = 2.0
"""Seconds. Nothing of a new file is sent before it is written down: a disk that was stuck once for
five seconds would else hold every new file back for twenty more."""
_RETRY: Final = 1.0
"""Seconds until a write that failed is tried again."""


class Recorder:
    """Writes the registry after each change. Changes that come meanwhile share the next write.

    Args:
        registry: The registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._changed = trio.Event()
        # Numbers of changes. A cancelled write does not count as stored.
        self._changes = 0
        self._stored = 0
        self._written = trio.Event()

    def put(self, position: Position) -> None:
        """Set the position of a file."""
        self._registry.put(position)
        self._note()

    def forget(self, key: FileKey) -> None:
        """Remove the position of a file."""
        self._registry.forget(key)
        self._note()

    async def written(self) -> None:
        """Wait until all changes until now are on the disk. `run` writes them.

        Checkpoint: always.
        If cancelled: they are written later.
        """
        changes = self._changes
        await trio.lowlevel.checkpoint()
        while self._stored < changes:
            await self._written.wait()

    async def check(self) -> None:
        """Write the registry as it is, before `run` begins.

        Raises:
            OSError: It cannot be written.

        Checkpoint: always.
        If cancelled: it may have been written.
        """
        await self._store()

    def _note(self) -> None:
        self._changes += 1
        self._changed.set()

    async def run(self) -> None:
        """Write until it is cancelled. A failure is logged, and tried again.

        Checkpoint: always.
        If cancelled: a write that runs is completed.
        """
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            began = trio.current_time()
            try:
                await self._store()
            except OSError as error:
                logger.warning("the registry cannot be written: %s; it is tried again", error)
                self._changed.set()
                await trio.sleep(_RETRY)
            else:
                took = trio.current_time() - began
                await trio.sleep(min(_SHARE * took, _LONGEST_PAUSE))

    async def finish(self) -> None:
        """Write the last changes. `run` must have ended.

        Raises:
            OSError: They cannot be written.

        Checkpoint: always.
        If cancelled: they are written nevertheless.
        """
        with trio.CancelScope(deadline=inf, shield=True):
            if self._stored == self._changes:
                await trio.lowlevel.checkpoint()
            else:
                await self._store()

    async def _store(self) -> None:
        changes = self._changes
        write = partial(self._registry.store, self._registry.positions())
        await trio.to_thread.run_sync(write)
        self._stored = changes
        self._written.set()
        self._written = trio.Event()
