"""``spooling_receiver.py DIRECTORY URI``: a server of this package that stores events in a spool.

It is a process of its own, so that a test can kill it. It prints where it listens, and then, for
each batch that is on the disk, how many events the spool has.
"""

from __future__ import annotations

import sys

import trio

from rsocket_trio import lumberjack
from rsocket_trio.spool import Batch, open_spool


async def main(directory: str, uri: str) -> None:
    async with open_spool(directory) as spool, trio.open_nursery() as nursery:

        async def store(batch: lumberjack.Batch) -> None:
            await spool.append(Batch(len(batch), b"\n".join(batch.raw), encoding="json-lines"))
            print(f"stored {spool.head}", flush=True)

        server = await nursery.start(lumberjack.serve, store, uri)
        print(f"listening on {server.uris[0]}", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


trio.run(main, *sys.argv[1:])
