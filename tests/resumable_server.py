"""A resumable server in memory, for tests of admission to sessions."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

from rsocket_trio import (
    BearerAuthentication,
    Metadata,
    ServerResume,
    TransportInfo,
    serve_transport,
)
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.metadata import MIME
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports.memory import memory_transport_pair

TOKEN = b"sixteen bytes..."


KEY = BearerAuthentication("ada")


LOCAL = "tcp://127.0.0.1:0"


NO_SESSION = ErrorFrame(0, ErrorCode.REJECTED_RESUME, b"there is no such session")


def setup(token=TOKEN, auth=None):
    metadata = None if auth is None else Metadata(auth=auth).encode()
    return SetupFrame(
        1, 0, 20_000, 90_000, token,
        metadata_mime_type=MIME.COMPOSITE_METADATA, data_mime_type=MIME.TEXT, metadata=metadata,
    )  # fmt: skip


RESUME = ResumeFrame(1, 0, TOKEN, 0, 0)


class Server:
    """A resumable server in memory, whose connections have the facts that a test gives."""

    def __init__(self, nursery, responder, options=None, **settings):
        self.options = ServerResume() if options is None else options
        self._nursery = nursery
        self._serve = partial(serve_transport, responder, resume=self.options, **settings)

    @asynccontextmanager
    async def dial(self, **facts):
        client, server = memory_transport_pair()
        server.info = TransportInfo(scheme="memory", **facts)
        self._nursery.start_soon(self._serve, server)
        async with FramePeer(client) as peer:
            yield peer

    @asynccontextmanager
    async def session(self, auth=None, **facts):
        async with self.dial(**facts) as peer:
            await peer.send(setup(auth=auth))
            await peer.expect_alive()
            yield peer

    async def resume(self, **facts):
        """Return the first frame that answers a RESUME."""
        async with self.dial(**facts) as peer:
            await peer.send(RESUME)
            answer = await peer.receive()
            if isinstance(answer, ResumeOkFrame):
                await peer.expect_alive()
            return answer


OK = ResumeOkFrame(0)
