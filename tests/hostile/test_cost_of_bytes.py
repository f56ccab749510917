"""What a byte of a peer costs: the table of the limits page, measured by hostile clients.

Each row of the table "What a byte on the wire can cost" has a test that names it with the marker
``limits_row``, here or among the tests of its wire. The tests of this file read the factor of their
row from the page, and compare it with what the server allocates. The server counts its own
allocations (tracemalloc), so the figures depend on no allocator and no load.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from wsproto.events import BytesMessage, Ping

from rsocket_trio import connect
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.metadata import MIME, Metadata, MetadataEntry
from rsocket_trio.payload import Payload
from rsocket_trio.testing.memory import peak_memory
from tests.programs import environment

from .conftest import RawClient
from .test_websocket_attacks import RawWebSocket

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "limits.md"
TITLE = "## What a byte on the wire can cost"
KIB = 2**10
MIB = 2**20
READ = 64 * KIB
LIMITS = {
    "max_frame_size": 2 * MIB,
    "max_payload_size": 2 * MIB,
    "max_reassembly_size": 2 * MIB,
    "max_requests_size": 2 * MIB,
    "max_active_requests": 1000,
    "max_unread_size": 2 * MIB,
    "max_answers_size": 2 * MIB,
}
SLACK = 300 * KIB
"""For what does not grow with the bytes: the connections, one read, the outbox."""


def table() -> dict[str, str]:
    """Return the rows of the page: what is sent, and what it costs."""
    text = PAGE.read_text(encoding="utf-8").partition(TITLE)[2].partition("\n##")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {f"{wire}: {what}": cost for wire, what, cost, *_ in rows[2:]}


def marked() -> set[str]:
    """Return the rows that tests name."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "node_modules" not in path.parts:
            text = path.read_text(encoding="utf-8")
            found |= set(re.findall(r"\.limits_row\(\s*\"([^\"]+)\"", text))
            if path == Path(__file__):
                found |= set(ATTACKS)
    return found


def cost_of(row: str) -> float:
    """Return the bytes of memory for each unit of a row, from the page."""
    number, unit = re.match(r"([\d.]+) (bytes|KiB)\b", table()[row]).groups()
    return float(number) * (KIB if unit == "KiB" else 1)


@attrs.define
class Target:
    """The server under attack, and an honest connection that asks it for its memory."""

    pid: int
    uris: list[str]
    requester: object
    highest: int = 0

    async def memory(self) -> int:
        """Return the memory of the server; the highest since the last call counts, too."""
        with trio.fail_after(30):
            answer = await self.requester.request_response(Payload(b"peak"))
        now, peak = map(int, answer.data.split())
        self.highest = max(self.highest, peak)
        return now

    async def stream(self, number: int) -> trio.SocketStream:
        host, port = self.uris[number].split("://")[1].split("/")[0].split(":")
        return await trio.open_tcp_stream(host, int(port))

    @asynccontextmanager
    async def raw(self, setup: bytes | None = b""):
        async with await self.stream(0) as stream:
            raw = RawClient(stream)
            if setup is not None:
                await raw.send(
                    SetupFrame(
                        1,
                        0,
                        20_000,
                        90_000,
                        data=setup,
                        metadata_mime_type=MIME.COMPOSITE_METADATA,
                        data_mime_type=MIME.CBOR,
                    )
                )
            yield raw

    @asynccontextmanager
    async def websocket(self):
        async with await self.stream(1) as stream:
            raw = RawWebSocket(stream, 90.0)
            await raw.handshake("127.0.0.1", "/rsocket")
            yield raw


@pytest.fixture(scope="module")
def server():
    """One server for all rows: each is measured from the memory that it has then."""
    script = Path(__file__).parent / "cost_target.py"
    with subprocess.Popen(
        [sys.executable, "-X", "tracemalloc", str(script), json.dumps(LIMITS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    ) as process:
        try:
            yield process.pid, json.loads(process.stdout.readline())
            assert process.poll() is None, "the server has died"
        finally:
            process.stdin.close()
            process.wait(20)
    assert process.returncode == 0


@asynccontextmanager
async def attacked(server):
    pid, uris = server
    async with connect(uris[0]) as requester:
        yield Target(pid, uris, requester)


async def settle(target) -> int:
    """Wait until the server has read all that it will read; return its memory."""
    before = -1
    for _ in range(100):
        now = await target.memory()
        if abs(now - before) < 2 * KIB:
            return now
        before = now
        await trio.sleep(0.05)  # the kernel has bytes that the server has not read
    raise AssertionError("the memory of the server changes without end")


async def push(stream, data: bytes) -> None:
    """Send, until the server reads nothing for a while, or has closed."""
    with trio.move_on_after(1):
        try:
            await stream.send_all(data)
        except trio.BrokenResourceError:
            return


# -- the attacks: each keeps its connection open while the caller measures, and says how many units


@asynccontextmanager
async def connections(target):
    streams = [await target.stream(0) for _ in range(50)]
    yield 50
    for stream in streams:
        await stream.aclose()


@asynccontextmanager
async def heads(target):
    head = b"GET /rsocket HTTP/1.1\r\nHost: x\r\nX: "
    async with await target.stream(1) as stream:
        data = head + b"x" * (16 * KIB - len(head) - 1)
        await stream.send_all(data)
        yield len(data)


@asynccontextmanager
async def setups(target):
    size = 256 * KIB
    frame = SetupFrame(1, 0, 20_000, 90_000, data=bytes(size)).encode()
    whole = len(frame).to_bytes(3, "big") + frame
    async with target.raw(None) as first, target.raw(None) as second:
        await first.stream.send_all(whole[:-1])
        await second.stream.send_all(whole[:-1])
        await push(second.stream, whole[-1:])
        yield 2 * len(whole)


@asynccontextmanager
async def parts_of_a_setup(target):
    part = BytesMessage(data=bytes(32 * KIB), message_finished=False)
    async with target.websocket() as raw:
        for _ in range(7):
            await raw.stream.send_all(raw.ws.send(part))
        yield 7 * 32 * KIB


@asynccontextmanager
async def behind_a_setup(target):
    async with target.raw(b"never") as raw:
        await push(raw.stream, bytes(4 * MIB))
        yield READ


@asynccontextmanager
async def a_frame(target):
    size = LIMITS["max_frame_size"]
    async with target.raw() as raw:
        await raw.stream.send_all(size.to_bytes(3, "big") + bytes(size - 1))
        yield size


@asynccontextmanager
async def parts_of_a_message(target):
    part = BytesMessage(data=bytes(60_000), message_finished=False)
    async with target.websocket() as raw:
        await raw.setup()
        for _ in range(34):
            await raw.stream.send_all(raw.ws.send(part))
        yield 34 * 60_000


@asynccontextmanager
async def fragments(target):
    async with target.raw() as raw:
        for number in range(1, 81, 2):
            await raw.send(RequestResponseFrame(number, follows=True, data=bytes(50_000)))
            for _ in range(3):
                await raw.send(PayloadFrame(number, next=True, follows=True, data=bytes(50_000)))
        yield LIMITS["max_reassembly_size"]


@asynccontextmanager
async def requests(target):
    async with target.raw() as raw:
        for number in range(1, 201, 2):
            await raw.send(RequestResponseFrame(number, data=bytes(50_000)))
        yield LIMITS["max_requests_size"]


@asynccontextmanager
async def empty_requests(target):
    async with target.raw() as raw:
        for number in range(1, 4001, 2):  # channels with a part of an item: they cost most
            part = PayloadFrame(number, next=True, follows=True)
            await raw.send(RequestChannelFrame(number, 1), part)
        yield LIMITS["max_active_requests"]


@asynccontextmanager
async def pushes(target):
    async with target.raw() as raw:
        await raw.send(*(MetadataPushFrame(b"x") for _ in range(2000)))
        yield LIMITS["max_active_requests"]


@asynccontextmanager
async def items(target):
    async with target.raw() as raw:
        for number in range(1, 21, 2):
            await raw.send(RequestChannelFrame(number, 1))
            await raw.send(*[PayloadFrame(number, next=True, data=bytes(10_000))] * 100)
        yield LIMITS["max_unread_size"]


@asynccontextmanager
async def empty_items(target):
    count = LIMITS["max_unread_size"] // 64
    async with target.raw() as raw:
        for number in range(1, 401, 2):
            await raw.send(RequestChannelFrame(number, 1))
            await raw.send(*[PayloadFrame(number, next=True)] * 250)
        yield count


@asynccontextmanager
async def answers(target):
    async with target.raw() as raw:
        numbers = range(1, 121, 2)
        await raw.send(*(RequestResponseFrame(number, data=b"answer") for number in numbers))
        await raw.send(RequestResponseFrame(401, data=b"now"))
        yield LIMITS["max_answers_size"]


@asynccontextmanager
async def uncredited_items(target):
    async with target.raw() as raw:
        await raw.send(*(RequestStreamFrame(number, 1) for number in range(1, 401, 2)))
        yield LIMITS["max_answers_size"]


@asynccontextmanager
async def keepalives(target):
    async with target.raw() as raw:
        echo = raw.encode(*[KeepaliveFrame(respond=True, data=bytes(1000))] * 1000)
        for _ in range(8):
            await push(raw.stream, echo)
        yield 3 * 2**19


@asynccontextmanager
async def refusals(target):
    without_credit = [
        RequestStreamFrame(number, 1).encode()[:-4] + bytes(4) for number in range(1, 40_001, 2)
    ]
    async with target.raw() as raw:
        for _ in range(8):
            await push(raw.stream, raw.encode(*without_credit))
        yield 3 * 2**19


@asynccontextmanager
async def other_frames(target):
    kept = [CancelFrame(1), RequestNFrame(1, 5), LeaseFrame(1000, 5), PayloadFrame(7, next=True)]
    async with target.raw() as raw:
        await raw.send(*(kept * 5000))
        yield READ


@asynccontextmanager
async def pings(target):
    ping = Ping(payload=b"p" * 125)
    async with target.websocket() as raw:
        await raw.setup()
        await raw.stream.send_all(b"".join(raw.ws.send(ping) for _ in range(2000)))
        yield READ


async def read_by_a_codec(raw, route, data, count, mime_type=MIME.CBOR):
    metadata = Metadata(route=route, data_mime_type=mime_type, accept=[MIME.TEXT]).encode()
    await raw.send(RequestResponseFrame(1, metadata=metadata, data=data))
    answer = decode(await raw.frame())
    assert (type(answer), answer.data) == (PayloadFrame, b"%d" % count), answer


@asynccontextmanager
async def small_cbor(target):
    # An array of empty arrays, which become sets: the most that a byte can be.
    count = 64 * KIB - 5
    data = b"\x9a" + count.to_bytes(4, "big") + b"\x80" * count
    async with target.raw(b"router") as raw:
        await read_by_a_codec(raw, "sets", data, count)
        yield len(data)


@asynccontextmanager
async def large_cbor(target):
    count = 300_000  # simple values: the smallest items that are objects
    data = b"\x9a" + count.to_bytes(4, "big") + b"\xe0" * count
    async with target.raw(b"router") as raw:
        await read_by_a_codec(raw, "anything", data, count)
        yield len(data)


@asynccontextmanager
async def large_cbor_of_lists(target):
    count = 99_999  # and the array around them
    data = b"\x9a" + count.to_bytes(4, "big") + b"\x80" * count
    async with target.raw(b"router") as raw:
        await read_by_a_codec(raw, "sets", data, count)
        yield count


@asynccontextmanager
async def large_json(target):
    count = 100_000
    data = b"[" + b",".join([b"[]"] * count) + b"]"
    async with target.raw(b"router") as raw:
        await read_by_a_codec(raw, "sets", data, count, MIME.JSON)
        yield len(data)


COUNT = 64 * KIB
MAPS = {
    MIME.CBOR: b"\x9a" + COUNT.to_bytes(4, "big") + b"\xa0" * COUNT,
    MIME.JSON: b"[" + b",".join([b"{}"] * (COUNT // 3)) + b"]",
}
"""Data that would be many objects if they were read."""


@asynccontextmanager
async def unauthenticated_data(target):
    async with target.raw(b"guarded") as raw:
        for number, mime_type in zip(range(1, 41, 2), [*MAPS] * 10, strict=True):
            metadata = Metadata(route="values", data_mime_type=mime_type).encode()
            data = MAPS[mime_type]
            await raw.send(RequestResponseFrame(number, metadata=metadata, data=data))
            answer = decode(await raw.frame())
            assert type(answer) is ErrorFrame, answer
        yield 2 * COUNT


def full_metadata(size: int, head: bytes = b"") -> list[bytes]:
    """Return metadata of a size, each with as much of one thing as fits."""
    rest = size - len(head)
    entries = [
        MetadataEntry(0x50).encode() * (rest // 4),
        MetadataEntry(MIME.ACCEPT_MIME_TYPES, b"\xd0" * (rest - 9)).encode(),
        MetadataEntry(MIME.ROUTING, b"\1a" * ((rest - 9) // 2)).encode(),
        MetadataEntry(MIME.AUTHENTICATION, b"\x81" + b"x" * (rest - 9)).encode(),
    ]
    return [head + entry for entry in entries]


@asynccontextmanager
async def metadata(target, setup=b"router"):
    async with target.raw(setup) as raw:
        most = full_metadata(MIB, Metadata(route="metadata").encode())
        for number, each in zip(range(1, 9, 2), most, strict=True):
            await raw.send(RequestResponseFrame(number, metadata=each))
            await raw.frame()
            await settle(target)
        yield MIB


def unauthenticated_metadata(target):
    return metadata(target, b"guarded")


@asynccontextmanager
async def contents_of_a_setup(target):
    size = 255 * KIB
    contents = [(each, b"guarded") for each in full_metadata(size)]
    contents += [(None, data * (size // len(data))) for data in MAPS.values()]
    for given, data in contents:
        async with await target.stream(0) as stream:
            raw = RawClient(stream)
            types = {"data_mime_type": MIME.JSON, "metadata_mime_type": MIME.COMPOSITE_METADATA}
            await raw.send(SetupFrame(1, 0, 20_000, 90_000, metadata=given, data=data, **types))
            await raw.frames_before_probe()
            await settle(target)
    yield size


ATTACKS = {
    "RSocket, before SETUP: a connection without a byte": connections,
    "RSocket, before SETUP: the head of a WebSocket handshake": heads,
    "RSocket, before SETUP: SETUP or RESUME": setups,
    "RSocket, before SETUP: the same in parts of a WebSocket message": parts_of_a_setup,
    "RSocket, before SETUP: its metadata and data, of any format": contents_of_a_setup,
    "RSocket, before SETUP: what follows SETUP until the acceptor has decided": behind_a_setup,
    "RSocket: a frame that is not whole": a_frame,
    "RSocket: parts of a WebSocket message": parts_of_a_message,
    "RSocket: fragments": fragments,
    "RSocket: requests with data": requests,
    "RSocket: empty requests": empty_requests,
    "RSocket: METADATA_PUSH": pushes,
    "RSocket: items of a channel that are not read": items,
    "RSocket: empty items of a channel that are not read": empty_items,
    "RSocket: answers that the peer does not read": answers,
    "RSocket: items for which the peer grants no credit": uncredited_items,
    "RSocket: KEEPALIVE whose answers are not read": keepalives,
    "RSocket: refusals that are not read": refusals,
    "RSocket: CANCEL, REQUEST_N, LEASE, frames of unknown streams": other_frames,
    "RSocket: pings, empty parts of WebSocket": pings,
    "RSocket: CBOR of 64 KiB at most, for a handler": small_cbor,
    "RSocket: larger CBOR, for a handler": large_cbor,
    "RSocket: CBOR of many lists, for a handler": large_cbor_of_lists,
    "RSocket: JSON, for a handler": large_json,
    "RSocket: metadata, for a handler": metadata,
    "RSocket, before authentication: metadata": unauthenticated_metadata,
    "RSocket, before authentication: CBOR and JSON of a request": unauthenticated_data,
}


@pytest.mark.parametrize("row", ATTACKS)
async def test_the_cost_is_that_of_the_page(row, server):
    """A hostile client sends as much of one thing as it may, and more."""
    async with attacked(server) as target:
        await target.memory()
        base = await settle(target)
        target.highest = 0
        async with ATTACKS[row](target) as units:
            await settle(target)
        cost = target.highest - base
        allowed = cost_of(row) * units + SLACK
        print(f"{row}: {cost} for {units}: {cost / units:.2f}")
        assert cost <= allowed, f"{cost / units:.2f} bytes of memory for each of {units}"


@pytest.mark.limits_row("RSocket, before SETUP: a TLS handshake that does not end")
async def test_handshakes_of_tls_that_do_not_end(server):
    """The memory of OpenSSL is not Python's: it is seen in the size of the process only."""
    row = "RSocket, before SETUP: a TLS handshake that does not end"
    async with attacked(server) as target, AsyncExitStack() as stack:
        await settle(target)
        before = peak_memory(target.pid)
        for _ in range(100):
            stream = await stack.enter_async_context(await target.stream(2))
            await stream.send_all(b"\x16\x03\x01\x40\x00" + b"\x01\x00\x3f\xfc" + bytes(8000))
        await settle(target)
        assert peak_memory(target.pid) - before <= cost_of(row) * 100 + 8 * MIB


def test_each_row_of_the_page_has_a_test():
    """The table and the tests name the same rows."""
    assert set(table()) == marked()
