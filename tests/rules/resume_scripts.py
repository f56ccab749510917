"""A scripted server that loses its connections, and a resumable client of it."""

from __future__ import annotations

from contextlib import asynccontextmanager

import trio
import trio.testing

from rsocket_trio import ClientResume, connect
from rsocket_trio.config import ConnectionConfig
from rsocket_trio.errors import (
    ConnectFailed,
)
from rsocket_trio.frames import (
    PayloadFrame,
    RequestResponseFrame,
    ResumeFrame,
    ResumeOkFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports.memory import memory_transport_pair

CONFIG = ConnectionConfig(keepalive_interval=10, max_lifetime=35, setup_timeout=3)


REQUEST = RequestResponseFrame(1, data=b"ping")  # 10 bytes


ANSWER = PayloadFrame(1, next=True, complete=True, data=b"pong")  # 10 bytes


class Script:
    """A scripted server: a peer for each time the client dials, in order."""

    def __init__(self):
        self.down = False
        self.dialled = 0
        self._put, self._get = trio.open_memory_channel(100)

    @asynccontextmanager
    async def dial(self):
        self.dialled += 1
        if self.down:
            raise ConnectFailed("no server")
        client, server = memory_transport_pair()
        self._put.send_nowait(FramePeer(server))
        async with client:
            yield client

    async def accept(self) -> FramePeer:
        """The next connection, as it comes."""
        return await self._get.receive()

    async def accept_setup(self) -> FramePeer:
        peer = await self.accept()
        await peer.accept()
        return peer

    async def accept_resume(self, position: int) -> FramePeer:
        peer = await self.accept()
        await peer.receive(ResumeFrame)
        await peer.send(ResumeOkFrame(position))
        return peer


@asynccontextmanager
async def scripted(resume=None, responder=None, config=CONFIG, reconnect=None):
    """A client on a scripted server: (script, first peer, requester, nursery).

    With ``resume=False`` it cannot resume.
    """
    script = Script()
    peers = []
    failure = None

    async def first():
        peers.append(await script.accept_setup())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        try:
            async with connect(
                script.dial,
                responder=responder,
                config=config,
                resume=ClientResume() if resume is None else resume or None,
                reconnect=reconnect,
            ) as requester:
                try:
                    yield script, peers[0], requester, nursery
                finally:
                    script.down = True
        except Exception as error:  # kept out of the nursery, which would group it
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Asking:
    """A request in a task of its own, and its outcome."""

    def __init__(self, nursery, requester, data=b"ping"):
        self.outcome = None
        self.done = trio.Event()
        nursery.start_soon(self._ask, requester, data)

    async def _ask(self, requester, data):
        try:
            self.outcome = (await requester.request_response(Payload(data))).data
        except Exception as error:
            self.outcome = error
        self.done.set()
