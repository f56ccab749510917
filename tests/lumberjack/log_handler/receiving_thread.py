"""A Lumberjack server in a thread, for programs that do not run trio."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

import trio

from rsocket_trio.lumberjack import serve
from tests.lumberjack.receiving import port_of


class ReceivingThread:
    """Keeps the events that it acknowledges. While it is stalled, it acknowledges none."""

    def __init__(self, uri="lumberjack://127.0.0.1:0"):
        self.raw = []
        self.batches = 0
        self.go_on = None
        self.uri = uri
        self._stalled = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), daemon=True)

    async def _main(self):
        self._token = trio.lowlevel.current_trio_token()
        self.go_on = trio.Event()
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, self._store, self.uri)
            self.port = port_of(server)
            self.uri = f"lumberjack://127.0.0.1:{self.port}"
            self._scope = nursery.cancel_scope
            self._ready.set()

    async def _store(self, batch):
        while self._stalled:
            await self.go_on.wait()
        self.batches += 1
        self.raw += batch.raw

    def stall(self):
        self._stalled = True

    def proceed(self):
        def proceed():
            self._stalled = False
            self.go_on.set()

        self._token.run_sync_soon(proceed)

    @property
    def events(self):
        return [json.loads(raw) for raw in self.raw]

    @property
    def messages(self):
        return [event["message"] for event in self.events]

    def start(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def stop(self):
        self._token.run_sync_soon(lambda: self._scope.cancel())
        self._thread.join(10)
        assert not self._thread.is_alive()


@contextmanager
def receiving(uri="lumberjack://127.0.0.1:0"):
    receiver = ReceivingThread(uri).start()
    try:
        yield receiver
    finally:
        receiver.stop()
