"""The receiver and the shipper that `test_kill` kills: ``python -m tests.lumberjack.victims``.

One process that has imported everything forks a child for each start, as starting takes long. It
reads lines: ``receive DIRECTORY PORT`` and ``ship DIRECTORY PORT`` start a child, whose number it
prints, and ``kill NUMBER`` kills one.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import attrs
import trio

from rsocket_trio.lumberjack import ShipperConfig, connect, serve, ship_from, to_store
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import Batch, open_spool

LARGEST = 50
"""Events of the largest batch in the spool of the shipper."""
IN_FLIGHT = 6
CONFIG = ShipperConfig(
    max_window=20, pipelining=3, retry=Retry(initial_delay=0.005, max_delay=0.02)
)


async def receive(directory, port):
    """Store what comes, with a name for its connection.

    A peer's address is no name: when a victim is gone, the next connection may get its port.
    """
    began, connections = time.monotonic_ns(), {}
    async with open_spool(directory) as spool:

        async def store(batch):
            info, number = connections.setdefault(
                id(batch.transport), (batch.transport, len(connections))
            )
            assert info is batch.transport  # It is kept, so its id is not used again.
            facts = {"connection": f"{began} {number}"}
            await spool.append(attrs.evolve(to_store(batch), facts=facts))

        await serve(store, f"lumberjack://127.0.0.1:{port}")


async def append(spool, done):
    """Events with their own offset as number."""
    while not done():
        first = spool.head
        numbers = range(first, first + first * 7 % LARGEST + 1)
        lines = b"".join(b'{"n":%d}\n' % n for n in numbers)
        await spool.append(Batch(len(numbers), lines, encoding="json-lines"))


async def ship(directory, port):
    """Append and ship, until there is a file ``stop``.

    Then append until there are as many events as the file says, as kills may have left time for
    few; ship the rest, write the count into ``head``, and end.
    """
    stop = Path(directory).with_name("stop")
    async with (
        open_spool(directory, max_size=10**6) as spool,
        connect(f"lumberjack://127.0.0.1:{port}", config=CONFIG) as shipper,
        trio.open_nursery() as nursery,
    ):
        finish = stop.exists()
        if finish:
            least = int(stop.read_text())
            await append(spool, lambda: spool.head >= least)
        else:
            nursery.start_soon(append, spool, stop.exists)
        await ship_from(spool, shipper, max_in_flight=IN_FLIGHT, follow=not finish)
        written = stop.with_name("written")
        written.write_text(str(spool.head))
        written.rename(stop.with_name("head"))


def start(what, directory, port):
    child = os.fork()
    if child:
        return child
    try:
        trio.run({"receive": receive, "ship": ship}[what], directory, int(port))
        os._exit(0)
    except BaseException:  # the test sees it on stderr
        traceback.print_exc()
        os._exit(1)


def kill(child):
    os.kill(int(child), signal.SIGKILL)
    os.waitpid(int(child), 0)  # Then its locks are free.


def main():
    logging.disable()
    for line in sys.stdin:
        what, *args = line.split()
        print(kill(*args) if what == "kill" else start(what, *args), flush=True)


if __name__ == "__main__":
    main()
