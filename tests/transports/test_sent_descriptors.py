"""A peer on a Unix socket that sends file descriptors with its bytes."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rsocket_trio import FrameTransport, Uri, serve
from rsocket_trio.frames import (
    LengthPrefixDecoder,
    PayloadFrame,
    RequestResponseFrame,
    SetupFrame,
    decode,
    encode_length,
)
from rsocket_trio.sockets import readiness
from rsocket_trio.testing.leaks import open_file_descriptors
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import accept_transports
from rsocket_trio.transports.dial import open_transport

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "SCM_RIGHTS") or not os.path.isdir("/proc/self/fd"),
    reason="this system cannot send descriptors, or does not list them",
)

REQUESTS = 200
SETUP = SetupFrame(major=1, minor=0, keepalive_interval_ms=60_000, max_lifetime_ms=60_000)
AT_ONCE = 3
"""Descriptors with each message."""


def prefixed(frame: bytes) -> bytes:
    return encode_length(frame) + frame


async def send_with(peer: trio.socket.SocketType, data: bytes, descriptors: list[int]) -> None:
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    sent = await peer.sendmsg([data], ancillary)
    while sent < len(data):
        sent += await peer.send(data[sent:])


def pipes() -> list[int]:
    """The descriptors of this process that are pipes, as those that are sent here."""
    return [fd for fd, target in open_file_descriptors().items() if target.startswith("pipe:")]


@pytest.fixture(params=["few", "many"])
def pipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A pipe, on a run that waits as trio does or with a shared epoll."""
    if request.param == "many":
        monkeypatch.setattr(readiness, "MANY", 1)
    ends = list(os.pipe())
    yield ends
    for end in ends:
        os.close(end)


async def test_frames_arrive_whole_and_descriptors_are_dropped(
    tmp_path: Path, pipe: list[int]
) -> None:
    """The kernel ends a read where descriptors were sent, here within each frame."""
    path = str(tmp_path / "socket")
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, KnownAnswers(), f"unix://{path}")
        with trio.socket.socket(socket.AF_UNIX) as peer:
            await peer.connect(path)
            await send_with(peer, prefixed(SETUP.encode()), [pipe[1]])
            received, decoder = [], LengthPrefixDecoder(2**20)
            before = pipes()
            for number in range(REQUESTS):
                data = b"%d " % number * 1000
                frame = prefixed(RequestResponseFrame(stream_id=1 + 2 * number, data=data).encode())
                for start in range(0, len(frame), 1500):
                    await send_with(peer, frame[start : start + 1500], [pipe[1]] * AT_ONCE)
                answer: list[bytes] = []
                while not answer:
                    answer = decoder.feed(await peer.recv(2**16))
                received += answer
            assert pipes() == before
            for number, answer in enumerate(received):
                payload = decode(answer)
                assert isinstance(payload, PayloadFrame)
                assert payload.data == b"%d " % number * 1000
            # The kernel has dropped them too: without them, nothing can write to the pipe.
            os.close(pipe.pop())
            os.set_blocking(pipe[0], False)
            assert os.read(pipe[0], 1) == b""
        await server.aclose(grace=1)


async def test_descriptors_that_are_not_read(tmp_path: Path, pipe: list[int]) -> None:
    """Closing a connection drops the descriptors that are still in the kernel."""
    path = str(tmp_path / "socket")
    accepted: list[FrameTransport] = []

    async def handle(transport: FrameTransport) -> None:
        accepted.append(transport)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await nursery.start(accept_transports, Uri(scheme="unix", path=path), handle)
        with trio.socket.socket(socket.AF_UNIX) as peer:
            await peer.connect(path)
            for _ in range(100):
                await send_with(peer, b"x", [pipe[1]] * AT_ONCE)
            while not accepted:
                await trio.sleep(0.001)
            await accepted[0].aclose()
            os.close(pipe.pop())
            os.set_blocking(pipe[0], False)
            assert os.read(pipe[0], 1) == b""
        nursery.cancel_scope.cancel()


async def test_a_server_that_sends_descriptors(tmp_path: Path, pipe: list[int]) -> None:
    """A client drops them as well."""
    path = str(tmp_path / "socket")
    with trio.socket.socket(socket.AF_UNIX) as listener:
        await listener.bind(path)
        listener.listen()
        async with open_transport(Uri(scheme="unix", path=path)) as client:
            server, _ = await listener.accept()
            with server:
                before = pipes()
                frame = prefixed(bytes(3000))

                async def send_in_pieces() -> None:
                    for start in range(0, len(frame), 7):
                        await send_with(server, frame[start : start + 7], [pipe[1]])

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send_in_pieces)
                    assert await client.receive_frames() == [bytes(3000)]
                assert pipes() == before
