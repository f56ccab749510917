"""The Lumberjack server of rsocket_trio. A handler decodes each batch.

With ``--raw`` it only counts the events. With ``--spool`` each batch is stored in a spool too, as
it came, and acknowledged when it is on the disk. isal is not used.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from benchmarks.lumberjack.accelerators import hide_unless_fast

hide_unless_fast()

from benchmarks.control import ready
from rsocket_trio.lumberjack import Batch, serve, to_store
from rsocket_trio.spool import Retention, Spool, open_spool

_KEPT: Final = Retention(max_size=256 * 2**20)


class Counter:
    """Handles batches.

    Args:
        spool: Where to store them, if at all.
        decode: Whether to decode them.
    """

    def __init__(self, spool: Spool | None, *, decode: bool) -> None:
        self.events = 0
        self._spool: Final = spool
        self._decode: Final = decode

    async def handle(self, batch: Batch) -> None:
        """Decode, store and count one batch, as the options say."""
        events = batch.events if self._decode else batch.raw
        if self._spool is not None:
            await self._spool.append(to_store(batch))
        self.events += len(events)


@asynccontextmanager
async def temporary_spool() -> AsyncIterator[Spool]:
    """Open a spool in a temporary directory; it keeps the newest batches."""
    with tempfile.TemporaryDirectory(prefix="lumberjack-") as directory:
        async with open_spool(directory, max_size=2**30, retention=_KEPT) as spool:
            yield spool


async def run(handler: Counter) -> None:
    """Serve until the standard input ends."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler.handle, "lumberjack://127.0.0.1:0")
        # As docs/performance.md advises: what is here to stay need not be searched for garbage.
        gc.collect()
        gc.freeze()
        ready(server.uris[0])
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scheme", choices=["tcp"])
    parser.add_argument("--raw", action="store_true", help="do not decode")
    parser.add_argument("--spool", action="store_true", help="store in a spool")
    options = parser.parse_args()
    if not options.spool:
        await run(Counter(None, decode=not options.raw))
        return
    async with temporary_spool() as spool:
        await run(Counter(spool, decode=not options.raw))


if __name__ == "__main__":
    trio.run(main)
