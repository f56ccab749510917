"""A server in its own process, honest clients and hostile ones.

The rules of these tests: an attack uses one connection while an honest connection is open, which is
served during and after. Every attack has a documented end. Its cost for the server, by the peak
memory of the server's process, is bounded by the limits of the server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from rsocket_trio import connect
from rsocket_trio.frames import KeepaliveFrame, SetupFrame
from rsocket_trio.payload import Payload
from rsocket_trio.testing.memory import peak_memory
from tests.programs import environment

LIMITS = {
    "max_frame_size": 2**20,
    "max_payload_size": 2**20,
    "max_reassembly_size": 4 * 2**20,
    "max_requests_size": 2**20,
    "max_active_requests": 1000,
    "max_unread_size": 4 * 2**20,
}
"""Small limits, so that a bound that is kept differs from one that is not."""

AFFORDABLE = 24 * 2**20
"""The bytes that an attack may cost the server under `LIMITS`, with the allocator's waste."""

STALLED = 0.5
"""Seconds without room to send after which the server has stopped reading."""


SHORT_LIFETIME = 1.5
"""Seconds without reading after which the server may treat a hostile client as dead."""


class RawClient:
    """A client of bytes: a TCP connection that keeps no rule by itself."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._received = b""

    @staticmethod
    def encode(*frames) -> bytes:
        """Return frames, or bytes in place of frames, as they are on TCP."""
        encoded = [frame if isinstance(frame, bytes) else frame.encode() for frame in frames]
        return b"".join(len(frame).to_bytes(3, "big") + frame for frame in encoded)

    async def send(self, *frames) -> None:
        await self.stream.send_all(self.encode(*frames))

    async def setup(self, lifetime: float = 90.0, *, lease: bool = False) -> None:
        milliseconds = round(lifetime * 1000)
        await self.send(
            SetupFrame(1, 0, keepalive_interval_ms=500, max_lifetime_ms=milliseconds, lease=lease)
        )

    async def flood(self, data: bytes, at_most: int) -> int:
        """Send ``data`` until the server stops reading or ends the connection; return the size."""
        sent = 0
        while sent < at_most:
            with trio.move_on_after(STALLED) as scope:
                try:
                    await self.stream.send_all(data)
                except trio.BrokenResourceError:
                    return sent
            if scope.cancelled_caught:
                return sent
            sent += len(data)
        return sent

    async def frame(self) -> bytes | None:
        """Return the next frame as bytes, ``None`` at the end of the connection."""
        with trio.fail_after(20):
            while True:
                data = self._received
                if len(data) >= 3 and len(data) >= (size := 3 + int.from_bytes(data[:3], "big")):
                    self._received = data[size:]
                    return data[3:size]
                try:
                    more = await self.stream.receive_some()
                except trio.BrokenResourceError:
                    return None
                if not more:
                    return None
                self._received += more

    async def frames(self) -> list[bytes]:
        """Return all frames up to the end of the connection."""
        frames = []
        while (frame := await self.frame()) is not None:
            frames.append(frame)
        return frames

    async def alive(self) -> bool:
        """Return whether a KEEPALIVE is answered, after any other frames."""
        return await self.frames_before_probe() is not None

    async def frames_before_probe(self) -> list[bytes] | None:
        """Return the frames before the answer to a KEEPALIVE; ``None`` if there is no answer."""
        probe = KeepaliveFrame(respond=True, data=b"alive?")
        answer = KeepaliveFrame(respond=False, data=b"alive?").encode()
        try:
            await self.send(probe)
        except trio.BrokenResourceError:
            return None
        frames = []
        while (frame := await self.frame()) != answer:
            if frame is None:
                return None
            frames.append(frame)
        return frames


async def wait_until_alone(requester) -> None:
    """Wait until the server has ended all connections but this one."""
    with trio.fail_after(15):
        while await requester.request_response(Payload(b"connections")) != Payload(b"1"):
            await trio.sleep(0.05)  # A pause, so that this is not a flood itself.


async def ask(requester) -> None:
    """Send an honest request, and check that its answer comes in time."""
    with trio.fail_after(10):
        assert await requester.request_response(Payload(b"honest")) == Payload(b"honest")


@attrs.frozen
class Target:
    """The server under attack."""

    pid: int
    tcp: str
    ws: str
    limits = LIMITS
    short_lifetime = SHORT_LIFETIME
    wait_until_alone = staticmethod(wait_until_alone)

    def peak(self) -> int:
        return peak_memory(self.pid)

    @asynccontextmanager
    async def raw(self):
        """Open a hostile client's connection; the test chooses the first frame."""
        host, port = self.tcp.removeprefix("tcp://").split(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            yield RawClient(stream)

    async def ask_anew(self) -> None:
        """Check that a new honest connection is served, on every address."""
        for uri in (self.tcp, self.ws):
            with trio.fail_after(10):
                async with connect(uri) as requester:
                    await ask(requester)

    @asynccontextmanager
    async def attacked(self, affordable=AFFORDABLE):
        """Check that an honest client is served during an attack, and that memory stays bounded."""
        await self.ask_anew()
        async with connect(self.tcp) as requester:
            await ask(requester)
            before = self.peak()
            yield requester
            await ask(requester)
            await wait_until_alone(requester)
        await self.ask_anew()
        cost = self.peak() - before
        if os.environ.get("SHOW_COST"):
            print(f"\ncost {cost / 2**20:.1f} MiB")
        assert cost < affordable, f"the attack cost {cost / 2**20:.1f} MiB"


@pytest.fixture
def target():
    script = Path(__file__).parent / "target.py"
    with subprocess.Popen(
        [sys.executable, str(script), json.dumps(LIMITS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
        env=environment(),
    ) as process:
        try:
            tcp, ws = json.loads(process.stdout.readline())
            yield Target(process.pid, tcp, ws)
            assert process.poll() is None, "the server has died"
        finally:
            process.stdin.close()
            process.wait(10)
    assert process.returncode == 0
