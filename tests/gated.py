"""A responder whose answers wait for the test, and floods of requests that meet a stop."""

from __future__ import annotations

import trio

from rsocket_trio import Responder

LOCAL = "tcp://127.0.0.1:0"


async def flooded(server, turns, ask):
    """Ten tasks ask, while the server begins to stop after some turns of the loop."""
    async with trio.open_nursery() as asking:
        for _ in range(10):
            asking.start_soon(ask)
        for _ in range(3 * turns):
            await trio.lowlevel.checkpoint()
        server.stop(grace=60)


class Gated(Responder):
    """Answers at once, or (data ``wait``) when its gate is opened."""

    def __init__(self):
        self.gate = trio.Event()
        self.log = []

    async def request_response(self, payload):
        if payload.data == b"wait":
            try:
                await self.gate.wait()
            except trio.Cancelled:
                self.log.append("cancelled")
                raise
        return payload
