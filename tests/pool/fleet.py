"""Servers in virtual time that die, hang, refuse, slow down, drain and come back."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager, nullcontext
from functools import partial

import trio

from rsocket_trio import (
    ApplicationError,
    Canceled,
    ConnectFailed,
    ConnectionConfig,
    Payload,
    Reconnect,
    Rejected,
    Responder,
    Retry,
    connect_pool,
    serve_transport,
)
from rsocket_trio.transports import TransportWrapper, memory_transport_pair

CONFIG = ConnectionConfig(keepalive_interval=2, max_lifetime=6, setup_timeout=3)
RECONNECT = Reconnect(retry=Retry(initial_delay=0.1, max_delay=2, jitter=1), spread=0.5)


class Thawed(TransportWrapper):
    """The end of a server, which reads and writes nothing while the server is stopped."""

    def __init__(self, inner, server):
        super().__init__(inner)
        self._server = server

    async def receive_frames(self):
        frames = await self.inner.receive_frames()
        await self._server.thawed.wait()
        return frames

    async def send_frames(self, frames):
        await self._server.thawed.wait()
        await self.inner.send_frames(frames)


class Server(Responder):
    """One server.

    Attributes:
        behaviour: ``well``; or what it does at once: ``refuses`` (REJECTED), ``fails``
            (APPLICATION_ERROR), ``cancels`` (CANCELED).
        delay: Returns the seconds for each answer.
        places: It works at so many answers at a time.
        up: Whether it can be dialled.
        begun: How often it has begun each request.
    """

    def __init__(self, name, nursery, lease=None):
        self.name = name
        self.behaviour = "well"
        self.delay = lambda: 0.01
        self.places = nullcontext()
        self.up = True
        self.thawed = trio.Event()
        self.thawed.set()
        self.begun = Counter()
        self.dialled = 0
        self.open = 0
        self.pushed = []
        self.refusal = None
        self.lease = lease
        self._nursery = nursery
        self._peers = set()
        self._scopes = set()

    def __repr__(self):
        return self.name

    @asynccontextmanager
    async def __call__(self):
        """Dial it."""
        self.dialled += 1
        await trio.sleep(0.001)
        if not self.up:
            raise ConnectFailed(f"{self.name} is down")
        ours, theirs = memory_transport_pair()
        self._nursery.start_soon(self._serve, Thawed(theirs, self))
        self.open += 1
        try:
            yield ours
        finally:
            self.open -= 1
            ours.close()

    async def _serve(self, transport):
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            await serve_transport(self, transport, config=CONFIG, lease=self.lease)
        self._scopes.discard(scope)

    def kill(self):
        """End the process."""
        self.up = False
        for scope in self._scopes:
            scope.cancel()
        self._peers.clear()
        self.thaw()

    def stop(self):
        """SIGSTOP."""
        if self.thawed.is_set():
            self.thawed = trio.Event()

    def thaw(self):
        """SIGCONT."""
        self.thawed.set()

    def drain(self, grace=5):
        """Stop gracefully."""
        self.up = False
        for peer in self._peers:
            peer.end("deploy", grace=grace)
        self._peers.clear()

    # -- the application --------------------------------------------------------------------

    async def accept(self, setup, requester):
        if self.refusal is not None:
            raise self.refusal
        self._peers.add(setup.peer)
        return self

    async def request_response(self, payload):
        self.begun[payload.data] += 1
        await self._work()
        return Payload(self.name.encode())

    async def request_stream(self, payload):
        self.begun[payload.data] += 1
        await self._work()
        for _ in range(int(payload.data)):
            yield Payload(self.name.encode())
            await trio.sleep(1)

    async def metadata_push(self, metadata):
        self.pushed.append(metadata)

    async def _work(self):
        if self.behaviour == "refuses":
            self.begun.clear()  # it has not processed it
            raise Rejected("busy")
        if self.behaviour == "cancels":
            raise Canceled("too late")
        if self.behaviour == "fails":
            raise ApplicationError("no database")
        async with self.places:
            await trio.sleep(self.delay())


@asynccontextmanager
async def fleet(count, **options):
    """So many servers."""
    async with trio.open_nursery() as nursery:
        yield [Server(f"s{number}", nursery, **options) for number in range(count)]
        nursery.cancel_scope.cancel()


pool_of = partial(connect_pool, config=CONFIG, reconnect=RECONNECT)


async def ask(pool, data=b"", **options):
    """Return the name of the server that answers."""
    answer = await pool.request_response(Payload(data), **options)
    return answer.data.decode()
