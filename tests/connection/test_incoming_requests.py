"""Requests of the peer on their way to a handler: fragments, limits and early ends.

Modules of rsocket_trio.connection: fragmented_request.
"""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio

from rsocket_trio import ConnectionConfig, ErrorCode, Limits, Responder
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import frame_peer_client

LIMITS = ConnectionConfig(limits=Limits(max_payload_size=100, max_active_requests=2))


class Handlers(Responder):
    """Notes its requests; those with the data ``wait`` do not end."""

    def __init__(self):
        self.seen = []

    async def request_response(self, payload):
        self.seen.append(payload)
        if payload.data == b"wait":
            await trio.sleep_forever()
        return payload

    async def fire_and_forget(self, payload):
        self.seen.append(payload)

    async def request_stream(self, payload):
        while True:
            yield payload

    async def request_channel(self, payload, payloads):
        self.seen.append(payload)
        async for item in payloads:
            yield item


def rest(stream_id, data=b"rest", **flags):
    return PayloadFrame(stream_id, next=True, data=data, **flags)


async def test_credit_before_the_request_is_whole():
    """REQUEST_N between the fragments of a request counts for its stream only."""
    async with frame_peer_client(Handlers()) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"a", follows=True), RequestNFrame(1, 2))
        await peer.send(rest(1, b"b"))
        for _ in range(3):
            assert (await peer.receive(PayloadFrame)).data == b"ab"
        await peer.expect_nothing()
        await peer.send(RequestResponseFrame(3, data=b"c", follows=True), RequestNFrame(3, 2))
        await peer.send(rest(3, b"d"))
        assert (await peer.receive(PayloadFrame)).data == b"cd"


@pytest.mark.parametrize("end", [CancelFrame(1), ErrorFrame(1, 0x201)], ids=["cancel", "error"])
@pytest.mark.parametrize(
    "request_", [RequestResponseFrame, RequestFnfFrame], ids=["response", "fnf"]
)
async def test_a_request_cancelled_between_fragments(end, request_):
    """It is forgotten: its later fragments are ignored, and its place is free."""
    handlers = Handlers()
    async with frame_peer_client(handlers, config=LIMITS) as peer:
        for _ in range(5):
            await peer.send(request_(1, data=b"a" * 60, follows=True), end, rest(1))
            await peer.expect_nothing()
        assert handlers.seen == []
        await peer.send(RequestResponseFrame(1, data=b"x"))
        assert (await peer.receive(PayloadFrame)).data == b"x"


async def test_the_connection_ends_between_fragments():
    """An unfinished request leaves no trace."""
    handlers = Handlers()
    async with frame_peer_client(handlers) as peer:
        await peer.send(RequestResponseFrame(1, data=b"a", follows=True))
        await peer.expect_nothing()
    assert handlers.seen == []


async def test_too_many_unfinished_requests():
    """Requests in fragments count against max_active_requests before they are complete."""
    async with frame_peer_client(Handlers(), config=LIMITS) as peer:
        for stream_id in (1, 3):
            await peer.send(RequestResponseFrame(stream_id, data=b"a", follows=True))
        await peer.send(RequestResponseFrame(5, data=b"a", follows=True))
        error = await peer.receive(ErrorFrame)
        assert (error.stream_id, error.code) == (5, 0x202)
        await peer.send(RequestFnfFrame(7, data=b"a", follows=True))
        await peer.expect_nothing()
        await peer.send(rest(1))
        assert (await peer.receive(PayloadFrame)).data == b"arest"


async def test_a_complete_request_is_refused_where_there_is_no_place():
    """If other requests took the places meanwhile, the complete request is rejected."""
    async with frame_peer_client(Handlers(), config=LIMITS) as peer:
        await peer.send(RequestResponseFrame(1, data=b"a", follows=True))
        await peer.send(*(RequestResponseFrame(n, data=b"wait") for n in (3, 5)))
        await peer.send(rest(1))
        assert (await peer.receive(ErrorFrame)).stream_id == 1


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("80000001 1000"),  # the reserved bit of the stream id
        bytes.fromhex("00000001 1800 80000001"),  # the reserved bit of the initial n
        bytes.fromhex("00000001 1800 0000"),  # too short for its initial n
        bytes.fromhex("80000001 2820"),  # PAYLOAD, the reserved bit
        bytes.fromhex("00000001"),  # no header
    ],
)
async def test_malformed_frames_end_the_connection(frame):
    """They end it with CONNECTION_ERROR."""
    async with frame_peer_client(Handlers()) as peer:
        await peer.send(frame)
        await peer.expect_closed(0x101)


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("80000001 1200"),  # the reserved bit of the stream id
        bytes.fromhex("00000001 1a00 80000001"),  # the reserved bit of the initial n
        bytes.fromhex("00000001 1a00 0000"),  # too short for its initial n
        bytes.fromhex("00000001 1300 0000"),  # its metadata length is cut off
        bytes.fromhex("80000001 2a20"),  # PAYLOAD, the reserved bit
    ],
)
async def test_malformed_frames_with_ignore_are_skipped(frame):
    """With the I flag they are skipped, of any type."""
    async with frame_peer_client(Handlers()) as peer:
        await peer.send(frame)
        await peer.expect_alive()


async def test_thousands_of_frames_at_once_are_answered():
    """A batch larger than the reader takes in a row is answered whole."""
    async with frame_peer_client(Handlers()) as peer:
        await peer.send(*(RequestResponseFrame(n, data=b"x") for n in range(1, 6001, 2)))
        answered = {(await peer.receive(PayloadFrame)).stream_id for _ in range(3000)}
        assert answered == set(range(1, 6001, 2))


async def test_a_request_cancelled_in_the_same_read_does_not_run():
    """A request that waits behind another and its CANCEL come in one read: it never runs."""
    seen = []

    class Waits(Responder):
        async def request_response(self, payload):
            seen.append(payload.data)
            await trio.sleep_forever()

    async with frame_peer_client(Waits()) as peer:
        first, second = RequestResponseFrame(1, data=b"1"), RequestResponseFrame(3, data=b"2")
        await peer.send(first, second, CancelFrame(3))
        await peer.expect_nothing()
        assert seen == [b"1"]


async def test_a_request_is_answered_before_a_cancel_in_the_same_read():
    """A handler that does not wait has answered before the CANCEL of the same read is handled."""
    async with frame_peer_client(Handlers()) as peer:
        await peer.send(RequestResponseFrame(1, data=b"x"), CancelFrame(1))
        assert (await peer.receive(PayloadFrame)).stream_id == 1
        await peer.expect_nothing()


async def test_channels_cancelled_in_their_read_cost_no_room():
    """They cost none of max_unread_size."""
    config = ConnectionConfig(limits=Limits(max_unread_size=1000))
    async with frame_peer_client(Handlers(), config=config) as peer:
        for stream_id in range(1, 101, 2):
            await peer.send(
                RequestChannelFrame(stream_id, 1, data=b"x" * 100), CancelFrame(stream_id)
            )
            await peer.receive(RequestNFrame)
        await peer.send(RequestChannelFrame(201, 1, data=b"x" * 900, complete=True))
        await peer.receive(RequestNFrame)
        assert (await peer.receive(PayloadFrame)).data == b"x" * 900


async def test_bare_payloads_of_a_channel_are_ignored():
    """A PAYLOAD without N and C is ignored, and uses no credit."""
    async with frame_peer_client(Handlers()) as peer:
        await peer.send(RequestChannelFrame(1, 5, data=b"0"))
        await peer.receive(RequestNFrame)
        assert (await peer.receive(PayloadFrame)).data == b"0"
        await peer.send(PayloadFrame(1, data=b"nothing"))
        await peer.expect_nothing()
        await peer.send(rest(1, b"1"), PayloadFrame(1, complete=True))
        assert (await peer.receive(PayloadFrame)).data == b"1"
        assert (await peer.receive(PayloadFrame)).complete
        await peer.send(RequestNFrame(1, 1), rest(1, b"2"))  # too late
        await peer.expect_nothing()


async def test_no_request_begins_behind_the_end():
    """Requests behind a CONNECTION_ERROR in the same read reach no handler."""
    handlers = Handlers()
    async with frame_peer_client(handlers) as peer:
        await peer.send(
            ErrorFrame(0, 0x101),
            RequestResponseFrame(1, data=b"x"),
            RequestFnfFrame(3, data=b"x"),
            RequestFnfFrame(5, data=b"x", follows=True),
        )
        await peer.expect_closed()
    assert handlers.seen == []


async def test_messages_whose_turn_did_not_come_are_counted(caplog):
    """Those in front of the end of the connection, and those behind it; the sender is not told."""
    caplog.set_level(logging.DEBUG)
    handlers = Handlers()
    async with frame_peer_client(handlers) as peer:
        await peer.send(
            RequestFnfFrame(1, data=b"fnf"),
            RequestResponseFrame(3, data=b"x"),
            RequestFnfFrame(5, data=b"fnf"),
            ErrorFrame(0, 0x101),
            RequestFnfFrame(7, data=b"fnf"),
        )
        await peer.expect_closed()
    assert "2 fire_and_forget dropped" in caplog.text
    assert "number 3 of this connection" in caplog.text
    assert not any(each.data == b"fnf" for each in handlers.seen)


@pytest.mark.parametrize("limit", ["max_requests_size", "max_active_requests"])
@pytest.mark.parametrize(
    "request_",
    [
        RequestResponseFrame,
        partial(RequestStreamFrame, initial_request_n=1),
        partial(RequestChannelFrame, initial_request_n=1),
    ],
    ids=["response", "stream", "channel"],
)
async def test_requests_up_to_a_limit_are_accepted(limit, request_):
    """Together they may reach it, exactly; what is beyond is refused, however small."""
    limits = Limits(**{limit: {"max_requests_size": 12, "max_active_requests": 3}[limit]})
    async with frame_peer_client(Handlers(), config=ConnectionConfig(limits=limits)) as peer:
        await peer.send(
            *(RequestResponseFrame(number, data=b"wait") for number in (1, 3)),
            request_(5, data=b"wait"),
            request_(7, data=b"!"),
        )
        refusal = None
        while not isinstance(refusal, ErrorFrame):
            refusal = await peer.receive()
        assert (refusal.stream_id, refusal.code) == (7, ErrorCode.REJECTED)
