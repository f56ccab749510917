"""``python server.py [FRAGMENT_SIZE [LEASE]]``: rsocket-py as the server, over TCP.

Says where it listens, and serves until it is killed or its stdin ends. Replies are fragmented where
a size above 0 is given. LEASE, ``N/SECONDS``, is what it grants, once, to clients that ask; without
it they are refused.
"""

from __future__ import annotations

import asyncio
import os
import sys

from known_answers import KnownAnswers, lease_publisher
from rsocket.rsocket_server import RSocketServer
from rsocket.transports.tcp import TransportTCP

READ_SIZE = 64 * 2**10


async def main(fragment_size: str = "0", lease: str | None = None) -> None:
    sessions = []

    def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transport = TransportTCP(reader, writer, read_buffer_size=READ_SIZE)
        sessions.append(
            RSocketServer(
                transport,
                handler_factory=KnownAnswers,
                fragment_size_bytes=int(fragment_size) or None,
                lease_publisher=None if lease is None else lease_publisher(lease),
            )
        )

    server = await asyncio.start_server(session, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"listening on tcp://127.0.0.1:{port}", flush=True)
    commander = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commander), sys.stdin)
    await commander.read()
    # Tasks of rsocket-py outlive its sessions: leave without waiting for them.
    os._exit(0)


asyncio.run(main(*sys.argv[1:]))
