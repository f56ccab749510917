"""The credit of a stream: REQUEST_N and the initial credit, checked from the wire."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestNFrame,
    RequestStreamFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.interaction_scripts import item


async def test_credit_of_zero_is_neither_sent_nor_accepted():
    """R-STREAM-02, R-REQN-02: initial credit 0 is INVALID, later 0 is ignored; we send none."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 0, data=b"3"))
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.INVALID
        await peer.send(RequestStreamFrame(3, 1, data=b"3"))
        await peer.receive(PayloadFrame)
        await peer.send(RequestNFrame(3, 0))
        await peer.expect_nothing()
        await peer.send(RequestNFrame(3, 1))
        await peer.receive(PayloadFrame)

    async with frame_peer_server() as (peer, requester):
        with pytest.raises(LocalProtocolError):
            requester.request_stream(Payload(), prefetch=0, initial_request_n=0)
        async with requester.request_stream(Payload(), prefetch=0, initial_request_n=2) as stream:
            assert (await peer.receive(RequestStreamFrame)).initial_request_n == 2
            with pytest.raises(LocalProtocolError, match="at least 1"):
                stream.request_n(0)
            await peer.expect_nothing()
            stream.request_n(3)
            assert await peer.receive() == RequestNFrame(1, 3)


async def test_no_more_items_than_credit_are_sent():
    """R-STREAM-03, R-REQN-01: credits of 3 and 2 make 5 items, and no sixth."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 3, data=b"10"))
        assert [frame.data for frame in await peer.drain()] == [b"0", b"1", b"2"]
        await peer.send(RequestNFrame(1, 2))
        assert [frame.data for frame in await peer.drain()] == [b"3", b"4"]
        await peer.expect_alive()


async def test_credits_add_up_before_they_are_used():
    """R-REQN-01: credit that arrives in several frames at once is their sum."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(
            RequestStreamFrame(1, 1, data=b"10"), RequestNFrame(1, 2), RequestNFrame(1, 3)
        )
        assert len(await peer.drain()) == 6


async def test_the_largest_credit_does_not_overflow():
    """R-REQN-03: a credit of 2**31-1, granted three times, overflows nothing."""
    most = 2**31 - 1
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"5"))
        await peer.send(RequestNFrame(1, most), RequestNFrame(1, most), RequestNFrame(1, most))
        frames = await peer.drain()
        assert [frame.data for frame in frames if frame.next] == [b"0", b"1", b"2", b"3", b"4"]
        assert frames[-1].complete


async def test_a_stream_waits_for_missing_credit(autojump_clock):
    """R-REQN-04, R-UNX-03, R-UNX-04: a stream without credit waits for hours, and goes on."""

    class Patient(Responder):
        async def request_stream(self, payload):
            yield Payload(b"0")
            yield Payload(b"1")

    config = ConnectionConfig(limits=Limits(max_client_lifetime=24 * 3600))
    async with frame_peer_client(Patient(), setup=False, config=config) as peer:
        await peer.setup(keepalive_interval=3600, max_lifetime=24 * 3600)
        await peer.send(RequestStreamFrame(1, 1))
        await peer.receive(PayloadFrame)
        await trio.sleep(12 * 3600)
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 1))
        assert (await peer.receive(PayloadFrame)).data == b"1"


async def test_an_overrun_of_credit_ends_that_stream():
    """R-STREAM-03: a responder that sends more than it may is cancelled; the connection lives."""
    async with frame_peer_server() as (peer, requester):
        items = await items_of_overrun(peer, requester)
        assert items == "RemoteProtocolError"
        await peer.expect_alive()


async def items_of_overrun(peer, requester):
    async with requester.request_stream(Payload(), prefetch=2) as stream:
        request = await peer.receive(RequestStreamFrame)
        assert request.initial_request_n == 2
        await peer.send(*(item(b"%d" % number)(1) for number in range(10)))
        await peer.receive(CancelFrame)
        try:
            async for _ in stream:
                pass
        except RemoteProtocolError as error:
            return type(error).__name__
    return "no error"
