"""Bytes that the Go implementation was asked, sent to our server: `expected_ours` holds."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rsocket_trio.testing.ttrpc_peer import EchoPayload, app
from rsocket_trio.ttrpc import StatusCode, serve, serve_stream
from rsocket_trio.ttrpc.wire.frames import HEADER, MAX_BODY, MessageType
from tests.ttrpc.golden import EXCHANGES
from tests.ttrpc.scenes import Stranger, frame_of, pair

OK = 0
FIRST = EchoPayload(2, "hi")

EXPECTED = {
    "unary echo": "as Go",
    "stream id 0": [(0, StatusCode.INVALID_ARGUMENT)],
    "stream id reused while live": [(1, OK), (1, StatusCode.INVALID_ARGUMENT)],
    "data on live unary stream": [(1, StatusCode.INVALID_ARGUMENT)],
    "unknown message type 4": "as Go",
    "message type 0": "as Go",
    "request with invalid utf-8 service": [(1, StatusCode.INVALID_ARGUMENT)],
    "request length 0": "as Go",
    "unknown service": "as Go",
    "unknown method": "as Go",
    "payload not valid for method type": [(1, StatusCode.INTERNAL)],
    "oversize by one": "as Go",
    "exactly 4 MiB accepted": [(1, OK)],
    "request then FIN (half-close of the socket)": [(1, OK)],
    "client stream, rust request flags 0x06": "as Go",
    "data after client close": [(1, OK)],
    "server stream divide": "as Go",
    "server stream with flags 0": "as Go",
    "bidi echo with empty message": "as Go",
    "timeout 50 ms": [(1, StatusCode.DEADLINE_EXCEEDED)],
    "metadata echo": "as Go",
    "response would exceed 4 MiB": [(1, StatusCode.RESOURCE_EXHAUSTED)],
}
"""The frames that Go sent; or id and status code of each, where ours has to differ or may."""


def sent(entry: object) -> bytes:
    """The bytes of an entry; the file has long ones only in part."""
    if isinstance(entry, str):
        return bytes.fromhex(entry)
    head = bytes.fromhex(entry["prefix_hex"])
    length = HEADER.unpack_from(head)[0]
    if "msg of a" not in entry["then"]:
        return head[: HEADER.size] + bytes(length)
    name = b"ttrpc.integration.streaming.Streaming"
    start = b"\x0a%c%s\x12\x04Echo" % (len(name), name)
    assert start.startswith(head[HEADER.size :])
    size = MAX_BODY
    while len(body := start + _payload(size)) > MAX_BODY:
        size -= len(body) - MAX_BODY
    assert len(body) == MAX_BODY
    return head[: HEADER.size] + body


def _payload(size: int) -> bytes:
    message = EchoPayload(1, "a" * size).SerializeToString()
    low = len(message)
    length = bytearray()
    while low > 127:
        length.append(low & 127 | 128)
        low >>= 7
    return b"\x1a" + bytes([*length, low]) + message


def test_every_exchange_has_an_expectation():
    assert EXPECTED.keys() == {exchange["name"] for exchange in EXCHANGES}


@pytest.fixture(params=["memory", "socket", "unix"])
def opened(request, tmp_path):
    """Opens a stream to a server of the known answers."""

    async def open_stream(nursery):
        if request.param == "unix":
            uri = f"ttrpc+unix://{tmp_path}/s"
            await nursery.start(partial(serve, app, uri))
            return await trio.open_unix_socket(f"{tmp_path}/s")
        here, there = pair(request.param)
        nursery.start_soon(serve_stream, app, there)
        return here

    return open_stream


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each["name"])
async def test_an_exchange(exchange, opened, autojump_clock):
    """Each call gets the answer that is expected, one last frame, and the connection lives."""
    name = exchange["name"]
    expected = EXPECTED[name]
    async with trio.open_nursery() as nursery:
        stranger = Stranger(await opened(nursery))
        nursery.start_soon(stranger.read)
        for entry in exchange["client_hex"]:
            await stranger.send(sent(entry))
        if "FIN" in name:
            await stranger.end_sending()
            frames = await stranger.until_end()
        else:
            await trio.sleep(10)  # by a clock that jumps: the longest handler takes 3 seconds
            frames = await stranger.drain()
            assert not stranger.ended
            await stranger.send(request_echo(101))
            assert EchoPayload.FromString((await stranger.frame()).payload) == FIRST
        if expected == "as Go":
            go = [frame_of(bytes.fromhex(each)) for each in exchange["go_observed"]]
            assert sorted(frames, key=key) == sorted(go, key=key)
        else:
            assert [(each.stream_id, each.code) for each in frames] == expected
        last = [each.stream_id for each in frames if each.is_last]
        if name != "stream id reused while live":  # two requests, and so two answers
            assert len(set(last)) == len(last)
        await stranger.leave()
        nursery.cancel_scope.cancel()


def key(frame) -> int:
    """The order of the frames of one stream matters; that of streams does not."""
    return frame.stream_id


def request_echo(stream_id: int) -> bytes:
    first = bytes.fromhex(EXCHANGES[0]["client_hex"][0])
    length, _, kind, flags = HEADER.unpack_from(first)
    assert kind == MessageType.REQUEST
    return HEADER.pack(length, stream_id, kind, flags) + first[HEADER.size :]


async def test_the_longest_answer_is_as_go_sends_it():
    """The request of exactly 4 MiB: header and length are those that Go has sent."""
    exchange = next(each for each in EXCHANGES if each["name"] == "exactly 4 MiB accepted")
    here, there = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, app, there)
        stranger = Stranger(here)
        nursery.start_soon(stranger.read)
        await stranger.send(sent(exchange["client_hex"][0]))
        frame = await stranger.frame()
        observed = exchange["go_observed"][0]
        assert len(frame.body) == observed["length"]
        assert (
            observed["header_hex"]
            == HEADER.pack(len(frame.body), frame.stream_id, frame.kind, frame.flags).hex()
        )
        await stranger.leave()
        nursery.cancel_scope.cancel()
