"""A responder whose answers wait for the test."""

from __future__ import annotations

import trio

from rsocket_trio import Responder

LOCAL = "tcp://127.0.0.1:0"


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
