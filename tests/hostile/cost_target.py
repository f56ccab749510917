"""A server that measures itself, in a process of its own; its limits are those of the arguments.

    python -X tracemalloc cost_target.py LIMITS      LIMITS: a JSON object of fields of Limits

Prints its addresses as a JSON list, and stops when its standard input ends. A request_response
with the data "peak" is answered with the memory now and the peak since the last such request.
"""

from __future__ import annotations

import gc
import json
import ssl
import sys
import tracemalloc
from functools import partial
from typing import Any

import trio
import trustme

from rsocket_trio import (
    ConnectionConfig,
    Limits,
    Metadata,
    Payload,
    Rejected,
    Responder,
    Router,
    serve,
)
from rsocket_trio.responder import Setup


async def authenticate(given, facts):
    """Anybody may connect; requests need credentials."""
    if given is None and not isinstance(facts, Setup):
        raise Rejected("authentication is needed")
    return "somebody"


router = Router()
guarded = Router(authenticate=authenticate)


@router.request_response("values")
@guarded.request_response("values")
async def values(data: list[dict[str, int]]) -> int:
    return len(data)


@router.request_response("metadata")
@guarded.request_response("metadata")
async def metadata(given: Metadata) -> int:
    return len(given.accept)


@router.request_response("sets")
async def sets(data: list[set[int]]) -> int:
    return len(data)


@router.request_response("anything")
async def anything(data: Any) -> int:
    return len(data)


class CostTarget(Responder):
    """Handlers that keep what they get, and answer with much."""

    def __init__(self):
        self.now = trio.Event()

    async def accept(self, setup, requester):
        if setup.data == b"never":
            await trio.sleep_forever()
        if setup.data == b"router":
            return await router.accept(setup, requester)
        if setup.data == b"guarded":
            return await guarded.accept(setup, requester)
        return self

    async def request_response(self, payload):
        if payload.data == b"peak":
            gc.collect()
            now, peak = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            return Payload(b"%d %d" % (now, peak))
        if payload.data == b"answer":
            await self.now.wait()  # else no request would begin behind an answer that waits
            return Payload(bytes(60_000))
        if payload.data == b"now":
            self.now.set()
            return None
        return await trio.sleep_forever()

    async def request_stream(self, payload):
        yield Payload(b"first")
        yield Payload(bytes(60_000))

    async def request_channel(self, payload, payloads):
        await trio.sleep_forever()
        yield payload

    async def metadata_push(self, metadata):
        await trio.sleep_forever()


async def main() -> None:
    config = ConnectionConfig(limits=Limits(**json.loads(sys.argv[1])), setup_timeout=20)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    uris = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/rsocket", "tls://127.0.0.1:0"]
    async with trio.open_nursery() as nursery:
        start = partial(serve, CostTarget(), *uris, config=config, ssl_context=context)
        server = await nursery.start(start)
        print(json.dumps(server.uris), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
