"""Calls in the usual form are run in a shorter way; nobody can see which way it was."""

from __future__ import annotations

import pytest

from rsocket_trio.ttrpc import Method, Service, StatusCode, TtrpcConfig, TtrpcLimits
from rsocket_trio.ttrpc.codec import BYTES, MessageCodec
from rsocket_trio.ttrpc.methods import MethodKind
from rsocket_trio.ttrpc.wire.frames import MessageType, encode_frame
from rsocket_trio.ttrpc.wire.protobuf import field, varint
from tests.ttrpc.scenes import ECHO, SERVICE, end, request, stranger_to, things

SIZES = [0, 1, 126, 127, 128, 129, 16_383, 16_384]


def framed(stream_id: int, body: bytes) -> bytes:
    return encode_frame(stream_id, MessageType.REQUEST, 0, body)


def forms(payload: bytes) -> list[bytes]:
    """Bodies of the same call."""
    sent = field(3, payload) if payload else b""
    names = field(1, SERVICE.encode()), field(2, b"Echo")
    padded = varint(len(payload) | 1 << 42)[:-1]  # seven bytes, more than are necessary
    return [
        ECHO.head + sent,
        ECHO.head + field(3, payload),
        ECHO.head + b"\x1a" + padded[:6] + b"\x00" + payload,
        ECHO.head + sent + field(9, b"unknown"),
        ECHO.head + field(3, b"not the last one") + field(3, payload),
        ECHO.head + sent + b"\x20" + varint(10**9),
        ECHO.head + sent + field(5, field(1, b"key") + field(2, b"value")),
        names[1] + names[0] + sent,
        sent + names[0] + names[1],
        field(1, b"another") + ECHO.head + sent,
    ]


@pytest.mark.parametrize("size", SIZES)
async def test_each_form_of_a_call_is_answered(size):
    payload = b"x" * size
    bodies = forms(payload)
    async with stranger_to(things()) as stranger:
        await stranger.send(*(framed(2 * i + 1, body) for i, body in enumerate(bodies)))
        frames = await stranger.drain()
    got = sorted((frame.stream_id, frame.payload) for frame in frames)
    assert got == [(2 * i + 1, payload) for i in range(len(bodies))]


@pytest.mark.parametrize("cut", range(1, len(ECHO.head) + 4))
async def test_a_body_that_is_cut_off_is_refused(cut):
    """Wherever it is cut: as malformed, or because a name is missing."""
    body = (ECHO.head + field(3, b"hello"))[:cut]
    async with stranger_to(things()) as stranger:
        await stranger.send(framed(1, body), request(3))
        codes = {frame.stream_id: frame.code for frame in await stranger.drain()}
    wrong = {StatusCode.INVALID_ARGUMENT, StatusCode.UNIMPLEMENTED}
    whole = cut == len(ECHO.head)  # a call without a payload
    assert codes[3] == 0
    assert (codes[1] == 0) if whole else (codes[1] in wrong)


async def test_the_id_of_such_a_call_is_used():
    async with stranger_to(things()) as stranger:
        assert await stranger.ask(3) == b"alive?"
        await stranger.send(request(3), request(1), request(4), request(5))
        frames = await stranger.drain()
    wrong = StatusCode.INVALID_ARGUMENT
    assert sorted((frame.stream_id, frame.code) for frame in frames) == [
        (1, wrong),
        (3, wrong),
        (4, wrong),
        (5, 0),
    ]


async def test_a_request_that_is_too_long_is_refused():
    limits = TtrpcLimits(max_message_size=len(ECHO.head) + 5)
    async with stranger_to(things(), config=TtrpcConfig(limits=limits)) as stranger:
        await stranger.send(request(1, payload=b"abc"), request(3, payload=b"abcd"))
        codes = {frame.stream_id: frame.code for frame in await stranger.drain()}
    assert codes == {1: 0, 3: StatusCode.RESOURCE_EXHAUSTED}


@pytest.mark.parametrize("limit", [129, 130, 131, 132])
async def test_an_answer_that_is_too_long_is_not_sent(limit):
    """The whole body counts, with the tag and the length of the payload."""
    service = Service(SERVICE)

    async def answer(size: bytes) -> bytes:
        return b"x" * int(size)

    service.add(ECHO, answer)
    config = TtrpcConfig(limits=TtrpcLimits(max_message_size=limit))
    async with stranger_to(service, config=config) as stranger:
        await stranger.send(request(1, payload=b"127"), request(3, payload=b"128"))
        codes = {frame.stream_id: frame.code for frame in await stranger.drain()}
    too_long = StatusCode.RESOURCE_EXHAUSTED
    assert codes == {1: 0, 3: 0 if limit >= 131 else too_long}


async def test_a_message_that_cannot_be_read_is_answered_once():
    asked = []

    def read(data: bytes) -> bytes:
        asked.append(data)
        raise ValueError("secret")

    picky = Method(SERVICE, "Echo", MethodKind.UNARY, MessageCodec(bytes, read, "thing"), BYTES)
    service = Service(SERVICE)
    service.add(picky, lambda request: pytest.fail("it was run"))
    async with stranger_to(service) as stranger:
        await stranger.send(request(1, payload=b"abc"), end(1))
        frames = await stranger.drain()
    assert [(frame.stream_id, frame.code) for frame in frames] == [(1, StatusCode.INTERNAL)]
    assert asked
    assert "secret" not in frames[0].status.message
