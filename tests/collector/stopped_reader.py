"""A reader that is stopped: ``python -m tests.collector.stopped_reader URI SPOOL HEAD COUNT``.

It asks for the whole spool sixteen times on each of COUNT connections. When some data have come it
stops its own process, so that its sockets stay open and nothing is read from them.
"""

from __future__ import annotations

import os
import signal
import sys

import attrs
import trio

from rsocket_trio import Payload, connect
from rsocket_trio.codecs import DEFAULT_CODECS
from rsocket_trio.collector import READ, ReadRequest
from rsocket_trio.collector.client import READER_CONFIG
from rsocket_trio.metadata import MIME

READS = 16
CONFIG = attrs.evolve(READER_CONFIG, max_lifetime=3600.0)


async def main(uri, spool_id, head, connections):
    wanted = ReadRequest(spool_id=spool_id, start=0, stop=head)
    request = Payload(DEFAULT_CODECS.encode(wanted, ReadRequest, MIME.CBOR))
    begun = 0

    async def read(requester):
        nonlocal begun
        async with requester.request_stream(request, route=READ, prefetch=64) as items:
            await items.receive()
            begun += 1
            await trio.sleep_forever()

    async def keep():
        async with connect(uri, config=CONFIG) as requester, trio.open_nursery() as streams:
            for _ in range(READS):
                streams.start_soon(read, requester)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(keep)
        while not begun:
            await trio.sleep(0.001)
        print("stopped", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
