"""Requests and errors of the draft that fill a frame, or would not fit one."""

from __future__ import annotations

from functools import partial

import pytest

from rsocket_trio import (
    ConnectionConfig,
    Limits,
    LocalProtocolError,
    Payload,
    Rejected,
    Responder,
    StreamedPayload,
    connect,
    serve,
)
from tests.reactivesocket.wires import WIRES, collect

LIMITED = ConnectionConfig(fragment_size=64, limits=Limits(max_frame_size=2000))
"""The frame size of both ends: a request that one end sends, the other accepts."""

ROOM = 1980


class Sizes(Responder):
    """Answers with the size of the payload, or with an error of the requested size."""

    async def request_response(self, payload):
        if payload.data.startswith(b"error:"):
            raise Rejected(b"\xff" * int(payload.data[6:]))
        return Payload(b"%d" % (len(payload.data) + len(payload.metadata or b"")))

    async def request_stream(self, payload):
        yield Payload(b"%d" % len(payload.data))

    async def request_channel(self, _payload, payloads):
        async for payload in payloads:
            yield Payload(b"%d" % len(payload.data))


@pytest.fixture(params=WIRES, ids=["tcp", "ws"])
async def limited(request, nursery):
    """A client of the draft whose frames, and its server's, hold at most two kilobytes."""
    server = await nursery.start(partial(serve, Sizes(), request.param, config=LIMITED))
    async with connect(server.uris[0], protocol="reactivesocket", config=LIMITED) as requester:
        yield requester
    await server.aclose(grace=0)


@pytest.mark.parametrize(
    ("size", "metadata"), [(ROOM, None), (0, b"m" * ROOM), (ROOM // 2, b"m" * (ROOM // 2))]
)
async def test_the_largest_request(limited, size, metadata):
    """The draft does not fragment requests, so a request may fill exactly one frame."""
    reply = await limited.request_response(Payload(b"d" * size, metadata))
    assert reply.data == b"%d" % ROOM
    assert await collect(limited.request_stream(Payload(b"d" * ROOM))) == [Payload(b"%d" % ROOM)]
    await limited.metadata_push(b"m" * (ROOM - 6))
    for payload in (Payload(b"d" * (ROOM + 1)), Payload(b"", b"m" * (ROOM + 1))):
        with pytest.raises(LocalProtocolError, match="no fragments of requests"):
            await limited.request_response(payload)
        with pytest.raises(LocalProtocolError, match="no fragments of requests"):
            await limited.fire_and_forget(payload)
        with pytest.raises(LocalProtocolError, match="no fragments of requests"):
            await collect(limited.request_stream(payload))
    with pytest.raises(LocalProtocolError):
        await limited.metadata_push(b"m" * (ROOM - 5))
    items = [Payload(b"d" * 5000)] * 2
    assert await collect(limited.request_channel(items)) == [Payload(b"5000")] * 2
    assert limited.statistics().open_streams == 0


async def test_a_request_that_becomes_too_large_while_it_is_made(limited):
    """It fails with the chunk that does not fit, and uses memory for a frame and that chunk."""
    made = []

    async def chunks():
        try:
            while True:
                made.append(100)
                yield bytearray(100)
        finally:
            made.append("closed")

    for ask in (limited.request_response, limited.fire_and_forget):
        with pytest.raises(LocalProtocolError, match="of 2000 bytes or more"):
            await ask(StreamedPayload(chunks()))
        assert made == [100] * 20 + ["closed"]
        made.clear()
    with pytest.raises(LocalProtocolError, match="no fragments of requests"):
        await limited.request_response(StreamedPayload(chunks(), b"m" * (ROOM + 1)))
    assert limited.statistics().open_streams == 0
    assert (await limited.request_response(Payload(b"x"))).data == b"1"


@pytest.mark.parametrize("size", [10, 256, 257, ROOM, 5000])
async def test_the_longest_error(limited, size):
    """The part of an error that fits a frame arrives, also where the draft makes it longer."""
    with pytest.raises(Rejected) as caught:
        await limited.request_response(Payload(b"error:%d" % size))
    assert caught.value.message.startswith("\N{REPLACEMENT CHARACTER}")
    assert (await limited.request_response(Payload(b"x"))).data == b"1"
