"""A collector that kills itself: ``python -m tests.collector.victims DIRECTORY PORT WHEN``.

``WHEN`` is ``before`` or ``after``: the moment of the third transaction with events, before its
commit or after it, so between the sync and the acknowledgement; or ``never``.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

import trio

from rsocket_trio.collector import collect
from rsocket_trio.spool.writer import Writer

THE_LAST = 3
"""Transactions with events, of which the last one is not acknowledged."""


def prepare(when):
    apply = Writer.apply
    count = 0

    def suicidal(self, group):
        nonlocal count
        count += bool(group.rows)
        if count == THE_LAST and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        outcome = apply(self, group)
        if count == THE_LAST and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    Writer.apply = suicidal


async def main(directory, port, when):
    prepare(when)
    async with trio.open_nursery() as nursery:
        listen = [f"lumberjack://127.0.0.1:{port}", "tcp://127.0.0.1:0"]
        collector = await nursery.start(partial(collect, directory, *listen))
        print(collector.uris[1], flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
