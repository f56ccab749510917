"""The server under attack, in a process to itself: its memory can then be told from the test's.

    python target.py LIMITS        LIMITS is a JSON object of fields of rsocket_trio.config.Limits

Prints its addresses as a JSON list, and stops when its standard input ends.
"""

from __future__ import annotations

import json
import sys
from functools import partial

import trio

from rsocket_trio import Metadata, Rejected, Router, StreamedPayload, serve
from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.lease import Lease
from rsocket_trio.metadata import MIME, CompositeMetadata
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder, Setup
from rsocket_trio.server import Server
from rsocket_trio.testing.peer import KnownAnswers


async def authenticate(auth, facts):
    """Accept every client, and each request without credentials."""
    if auth is not None and not isinstance(facts, Setup):
        raise Rejected("unknown client")
    return "client"


router = Router(authenticate=authenticate)


@router.request_response("metadata")
async def with_metadata(metadata: Metadata, entries: CompositeMetadata) -> int:
    return len(metadata.extra) + len(entries)


@router.metadata_push()
async def pushed(entries: CompositeMetadata) -> None: ...


class Target(KnownAnswers):
    """The known answers, the number of connections, and handlers that never end.

    Clients whose data are JSON are served by a router.
    """

    server: Server

    async def accept(self, setup, requester) -> Responder:
        if setup.data_mime_type == MIME.JSON:
            return await router.accept(setup, requester)
        return await super().accept(setup, requester)

    async def request_response(self, payload):
        if payload.data == b"connections":
            return Payload(b"%d" % self.server.statistics().connections)
        return await super().request_response(payload)

    async def fire_and_forget(self, payload):
        if payload.data.startswith(b"stuck"):
            await trio.sleep_forever()
        await super().fire_and_forget(payload)

    async def metadata_push(self, metadata):
        if metadata.startswith(b"stuck"):
            await trio.sleep_forever()
        await super().metadata_push(metadata)

    def request_stream(self, payload):
        if payload.data == b"large":
            return self.large_items()
        return super().request_stream(payload)

    async def large_items(self):
        while True:
            yield StreamedPayload(self.chunks())

    async def chunks(self):
        """Sixteen mebibytes, which are never in memory as a whole."""
        for _ in range(256):
            yield bytes(65536)

    async def request_channel(self, payload, payloads):
        if payload.data == b"stuck":
            await trio.sleep_forever()
        async for item in payloads:
            yield item


async def main() -> None:
    limits = Limits(**json.loads(sys.argv[1]))
    config = ConnectionConfig(limits=limits, setup_timeout=2, close_timeout=1)
    uris = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/rsocket"]
    async with trio.open_nursery() as nursery:
        target = Target()
        lease = Lease(10, 3600.0)  # for the clients that ask for leases
        start = partial(serve, target, *uris, config=config, lease=lease)
        target.server = await nursery.start(start)
        print(json.dumps(target.server.uris), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
