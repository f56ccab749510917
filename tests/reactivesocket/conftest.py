"""Golden vectors of the ReactiveSocket draft, and strategies for its frames."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio import connect, serve_transport
from rsocket_trio.reactivesocket.frames import ErrorFrame, KeepaliveFrame, SetupFrame, decode
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair

ALL = json.loads((Path(__file__).parent.parent / "vectors" / "reactivesocket.json").read_text())


def of_kind(*kinds):
    return [vector for vector in ALL if vector["kind"] in kinds]


def pytest_generate_tests(metafunc):
    frames = of_kind("v0-frame", "v0-frame-lenient")
    cases = {
        "vector": frames,
        "malformed_vector": of_kind("v0-malformed"),
        "sequence": of_kind("v0-sequence"),
    }
    for argument, vectors in cases.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, vectors, ids=[v["name"] for v in vectors])


@pytest.fixture(scope="session")
def vectors():
    """All vectors by name."""
    return {vector["name"]: vector for vector in ALL}


SETUP = SetupFrame(0, 20_000, 90_000)


class DraftPeer:
    """A script of raw frames of the draft, on its end of a memory transport."""

    def __init__(self, transport):
        self.transport = transport
        self.waiting = []
        self.ended = False

    async def send(self, *frames):
        encoded = [frame if isinstance(frame, bytes) else frame.encode() for frame in frames]
        await self.transport.send_frames(encoded)

    async def _fill(self):
        frames = await self.transport.receive_frames()
        self.waiting += frames
        self.ended = not frames

    async def receive(self, kind=None):
        with trio.fail_after(30):
            while not self.waiting:
                assert not self.ended, f"expected {kind}, but the connection ended"
                await self._fill()
        frame = decode(self.waiting.pop(0))
        assert kind is None or isinstance(frame, kind), frame
        return frame

    async def drain(self):
        """Return all frames that come until every task waits."""
        while True:
            before = len(self.waiting)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._fill)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            if len(self.waiting) == before:
                frames = [decode(frame) for frame in self.waiting]
                self.waiting.clear()
                return frames

    async def expect_alive(self):
        """Check that a KEEPALIVE is answered, and that no other frame comes."""
        await self.send(KeepaliveFrame(True, b"probe"))
        assert await self.receive() == KeepaliveFrame(False, b"probe")

    async def expect_closed(self, code):
        """Check that ERROR with that code comes on stream 0, then the end."""
        frame = await self.receive(ErrorFrame)
        assert (frame.stream_id, frame.code) == (0, code)
        with trio.fail_after(30):
            while not self.ended:
                await self._fill()
        assert not self.waiting
        return frame


@asynccontextmanager
async def start_client(responder=None, setup=SETUP, **options):
    """A scripted client of our server, accepted with this SETUP, or without one for ``None``."""
    ours, theirs = memory_transport_pair()
    serving = partial(serve_transport, **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serving, KnownAnswers() if responder is None else responder, theirs)
        peer = DraftPeer(ours)
        if setup is not None:
            await peer.send(setup)
            await peer.expect_alive()
        yield peer
        await ours.aclose()


@asynccontextmanager
async def start_server(use, **options):
    """A scripted server that has accepted our client, on which ``use(requester)`` runs."""
    ours, theirs = memory_transport_pair()
    peer = DraftPeer(ours)

    async def client():
        async with connect(theirs, protocol="reactivesocket", **options) as requester:
            await use(requester)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        peer.setup = await peer.receive(SetupFrame)
        assert await peer.receive() == KeepaliveFrame(True)
        await peer.send(KeepaliveFrame(False))
        await trio.testing.wait_all_tasks_blocked()
        yield peer
        ours.close()


@pytest.fixture
def draft_client():
    return start_client


@pytest.fixture
def draft_server():
    return start_server


@pytest.fixture(params=["rsocket", "reactivesocket"])
def protocol(request):
    return request.param
