"""Bytes that the Go client was answered, sent to our client by a scripted server."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import ConnectionLost, RemoteProtocolError
from rsocket_trio.testing.ttrpc_peer import EchoPayload, Part, Sum
from rsocket_trio.ttrpc import CallError, Method, MethodKind, NotFound, ResourceExhausted, codec_for
from rsocket_trio.ttrpc.wire.frames import MAX_BODY
from tests.ttrpc.golden import CLIENT_SIDE
from tests.ttrpc.scenes import answer, client_of_stranger

SERVICE = "ttrpc.integration.streaming.Streaming"
ECHO = Method(SERVICE, "Echo", MethodKind.UNARY, codec_for(EchoPayload), codec_for(EchoPayload))
SUM = Method(SERVICE, "Sum", MethodKind.CLIENT_STREAM, codec_for(Part), codec_for(Sum))
DIVIDE = Method(SERVICE, "Divide", MethodKind.SERVER_STREAM, codec_for(Sum), codec_for(Part))


async def unary(client):
    return [await client.unary(ECHO, EchoPayload(1, "hi"))]


async def sum_stream(client):
    async with client.client_stream(SUM) as call:
        await call.send(Part(5))
        return [await call.reply()]


async def divide(client):
    received = []
    try:
        async with client.server_stream(DIVIDE, Sum(9, 3)) as parts:
            async for part in parts:
                received.append(part)
    except Exception as error:
        received.append(error)
    return received


CALLS = {"unary": unary, "sum": sum_stream, "div": divide}

EXPECTED = {
    "explicit empty status": [EchoPayload()],
    "error status": NotFound("nf"),
    "two responses": [EchoPayload(2)],
    "DATA on a unary call": RemoteProtocolError,
    "REQUEST type from server": RemoteProtocolError,
    "garbage response": RemoteProtocolError,
    "oversize response then nothing": ResourceExhausted,
    "FIN mid-call": ConnectionLost,
    "response with flags 0xff": [EchoPayload(2)],
    "status code 99": CallError("weird", code=99),
    "negative status code": CallError("", code=-1),
    "ok": [Sum(5)],
    "DATA,DATA,close": [Part(1), Part()],
    "DATA with close flag and data": [Part(1)],
    "Response OK with payload on server stream": [Part(7)],
    "DATA after close": [],
    # Go makes an empty message of it, although the flag says that there is none.
    "NO_DATA without close": [],
    "FIN mid-stream": [Part(1), ConnectionLost],
}


def matches(got: object, expected: object) -> bool:
    if isinstance(expected, type):
        return isinstance(got, expected)
    if isinstance(expected, CallError):
        assert isinstance(got, CallError)
        return (type(got), got.code, got.message) == (
            type(expected),
            expected.code,
            expected.message,
        )
    return got == expected


def test_every_vector_has_an_expectation():
    assert EXPECTED.keys() == {each["name"] for each in CLIENT_SIDE}


@pytest.mark.parametrize("over", ["memory", "socket"])
@pytest.mark.parametrize("vector", CLIENT_SIDE, ids=lambda each: each["name"])
async def test_a_client_is_answered(vector, over):
    """The call ends as expected; other calls of the connection are not harmed."""
    expected = EXPECTED[vector["name"]]
    outcome: list[object] = []

    async def call():
        try:
            outcome.extend(await CALLS[vector["call"]](client))
        except Exception as error:
            outcome.append(error)

    async with client_of_stranger(over=over) as (client, stranger), trio.open_nursery() as nursery:
        nursery.start_soon(call)
        assert (await stranger.frame()).stream_id == 1
        alive = True
        for entry in vector["server_hex"]:
            if entry == "<FIN>":
                alive = False
                await stranger.leave()
            elif "..." in entry:
                head = bytes.fromhex(entry.split("...")[0])
                await stranger.send(head + bytes(10 + MAX_BODY + 1 - len(head)))
            else:
                await stranger.send(bytes.fromhex(entry))
        await stranger.drain()
        wanted = expected if isinstance(expected, list) else [expected]
        assert len(outcome) == len(wanted)
        assert all(map(matches, outcome, wanted)), outcome
        if alive:
            nursery.start_soon(unary, client)
            assert (await stranger.frame()).stream_id == 3
            await stranger.send(answer(3, EchoPayload(2).SerializeToString()))
