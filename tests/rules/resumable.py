"""A resumable server, and scripted clients of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import trio

from rsocket_trio import ServerResume, serve_transport
from rsocket_trio.connection.session_store import session_of
from rsocket_trio.frames import (
    PayloadFrame,
    RequestResponseFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

TOKEN = b"a token, 16 long"

OTHER = b"a token, of other"

REQUEST = RequestResponseFrame(1, data=b"ping")  # 10 bytes

ANSWER = PayloadFrame(1, next=True, complete=True, data=b"ping")  # 10 bytes


def setup(token: bytes = TOKEN, max_lifetime: float = 90.0) -> SetupFrame:
    return SetupFrame(1, 0, 20_000, round(max_lifetime * 1000), resume_token=token)


def resume(received: int, available: int, token: bytes = TOKEN) -> ResumeFrame:
    return ResumeFrame(1, 0, token, received, available)


class Server:
    """A resumable server, and scripted clients of it."""

    def __init__(self, nursery, responder, options, lease):
        self.nursery = nursery
        self.options = options
        self.serve = partial(serve_transport, responder, resume=options, lease=lease)

    def dial(self) -> FramePeer:
        client, server = memory_transport_pair()
        self.nursery.start_soon(self.serve, server)
        return FramePeer(client)

    def log(self):
        """The retained frames of the session of `TOKEN`."""
        return session_of(self.options.store._sessions[TOKEN]).link.log

    @asynccontextmanager
    async def session(self, **fields):
        """A client that is set up; its connection is lost at the end of the block."""
        async with self.dial() as peer:
            await peer.send(setup(**fields))
            await peer.expect_alive()
            yield peer

    @asynccontextmanager
    async def resumed(self, received: int, available: int, position: int):
        """A client that comes back; ``position`` is what the server must have received."""
        async with self.dial() as peer:
            await peer.send(resume(received, available))
            assert await peer.receive() == ResumeOkFrame(position)
            yield peer


@asynccontextmanager
async def resumable(responder=None, options=None, lease=None):
    failure = None
    async with trio.open_nursery() as nursery:
        try:
            yield Server(
                nursery,
                KnownAnswers() if responder is None else responder,
                ServerResume() if options is None else options,
                lease,
            )
        except Exception as error:  # kept out of the nursery, which would group it
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
