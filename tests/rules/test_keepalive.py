"""KEEPALIVE, checked from the wire."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ConnectionLost, ErrorCode
from rsocket_trio.frames import KeepaliveFrame, PayloadFrame, RequestResponseFrame
from rsocket_trio.payload import Payload
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers

CONFIG = ConnectionConfig(keepalive_interval=10, max_lifetime=35)


async def answer_for(peer, seconds: float) -> list[KeepaliveFrame]:
    """Answer KEEPALIVEs for some time; return them."""
    seen = []
    peer.timeout = 1000
    with trio.move_on_after(seconds):
        while True:
            seen.append(await peer.answer_keepalive())
    return seen


async def test_a_client_sends_them_periodically(autojump_clock):
    """R-KEEP-01, R-KEEP-02, R-KEEP-07: on stream 0, with R, position 0, one per interval."""
    async with frame_peer_server(config=CONFIG) as (peer, _):
        seen = await answer_for(peer, 101)
    assert len(seen) == 10
    assert all(frame.respond and not frame.position and not frame.stream_id for frame in seen)


async def test_other_traffic_does_not_delay_them(autojump_clock):
    """R-KEEP-02: a client sends KEEPALIVEs also while requests are on the way."""
    async with frame_peer_server(config=CONFIG) as (peer, requester):

        async def chatter():
            while True:
                await requester.fire_and_forget(Payload(b"x"))
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(chatter)
            with trio.move_on_after(101):
                while True:
                    for frame in await peer.drain():
                        if isinstance(frame, KeepaliveFrame):
                            await peer.send(KeepaliveFrame(respond=False))
                    await trio.sleep(0.5)
            nursery.cancel_scope.cancel()
    beats = [frame for frame in peer.received if isinstance(frame, KeepaliveFrame)]
    assert len(beats) == 11  # This includes the KEEPALIVE behind SETUP.


async def test_a_client_answers_too():
    """R-KEEP-03, R-KEEP-04: a server may ask, and is answered with R clear."""
    async with frame_peer_server() as (peer, _):
        await peer.send(KeepaliveFrame(respond=True, data=b"there?"))
        answer = await peer.receive(KeepaliveFrame)
    assert answer == KeepaliveFrame(respond=False, position=0, data=b"there?")


@pytest.mark.parametrize("size", [0, 8, 2**24 - 1 - 14], ids=["empty", "short", "the most"])
async def test_answers_repeat_the_data(size):
    """R-KEEP-04, R-KEEP-05, R-KEEP-07: R clear, the same bytes, position zero."""
    data = b"k" * size
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(KeepaliveFrame(respond=True, position=99, data=data))
        answer = await peer.receive(KeepaliveFrame)
        assert answer == KeepaliveFrame(respond=False, position=0, data=data)


async def test_a_keepalive_without_respond_is_not_answered():
    """R-KEEP-08: a KEEPALIVE without R asks for no answer."""
    async with frame_peer_client(KnownAnswers()) as peer:
        seen = len(peer.received)
        await peer.send(KeepaliveFrame(respond=False, data=b"just saying"))
        await peer.expect_nothing()
        assert len(peer.received) == seen


async def test_on_another_stream_they_are_ignored():
    """R-KEEP-01: a KEEPALIVE off stream 0 has no effect."""
    async with frame_peer_client(KnownAnswers()) as peer:
        seen = len(peer.received)
        await peer.send(KeepaliveFrame(respond=True, stream_id=1))
        await peer.expect_nothing()
        assert len(peer.received) == seen
        await peer.expect_alive()


async def test_answers_keep_a_client_alive(autojump_clock):
    """R-KEEP-06: a client whose KEEPALIVEs are answered lives for many lifetimes."""
    async with frame_peer_server(config=CONFIG) as (peer, requester):
        await answer_for(peer, 400)
        await requester.fire_and_forget(Payload(b"still here"))


async def test_a_silent_server_is_lost_after_the_lifetime(autojump_clock):
    """R-KEEP-09, R-UNX-02: without any answer for the lifetime, requests end: connection lost."""
    async with frame_peer_server(config=CONFIG) as (_, requester):
        start = trio.current_time()
        with pytest.raises(ConnectionLost):
            await requester.request_response(Payload(b"anybody?"))
        assert 35 <= trio.current_time() - start <= 45


async def test_a_silent_client_is_lost_after_its_lifetime(autojump_clock):
    """R-KEEP-09: a server drops a client that kept silent for the lifetime it announced."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.setup(keepalive_interval=10, max_lifetime=35)
        await peer.expect_alive()
        start = trio.current_time()
        peer.timeout = 1000
        await peer.expect_closed()
        assert 35 <= trio.current_time() - start <= 60


LONGEST = (2**31 - 1) / 1000


@pytest.mark.parametrize(
    ("limits", "asked", "lives"),
    [
        (Limits(), LONGEST, 900),
        (Limits(), 600, 600),
        (Limits(max_client_lifetime=50), LONGEST, 50),
        (Limits(max_client_lifetime=50), 50.001, 50),
        (Limits(max_client_lifetime=50), 50, 50),
        (Limits(max_client_lifetime=LONGEST), 86_400, 86_400),
    ],
)
@pytest.mark.parametrize("interval", [10, LONGEST])
async def test_the_lifetime_of_a_client_is_limited_by_the_server(
    limits, asked, lives, interval, autojump_clock
):
    """R-KEEP-09: the server's limit holds where SETUP asks for a longer lifetime.

    The client is not refused: some clients say "no limit" with the largest number.
    """
    config = ConnectionConfig(limits=limits)
    async with frame_peer_client(KnownAnswers(), setup=False, config=config) as peer:
        await peer.setup(keepalive_interval=interval, max_lifetime=asked)
        await peer.expect_alive()
        start = trio.current_time()
        peer.timeout = 200_000
        error = await peer.expect_closed(ErrorCode.CONNECTION_ERROR)
        assert error.data.decode() == f"the peer was silent for {lives:g} s"
        assert lives <= trio.current_time() - start <= lives + 25


async def test_an_active_client_lives_longer_than_the_limit(autojump_clock):
    """R-KEEP-06: the limit is on silence, not on the life of the connection."""
    config = ConnectionConfig(limits=Limits(max_client_lifetime=50))
    async with frame_peer_client(KnownAnswers(), setup=False, config=config) as peer:
        await peer.setup(keepalive_interval=40, max_lifetime=LONGEST)
        for _ in range(20):
            await trio.sleep(40)
            await peer.expect_alive()


@pytest.mark.parametrize("asked", [40, LONGEST])
async def test_an_acceptor_learns_the_lifetime_that_holds(asked, autojump_clock):
    """R-SETUP-11: the acceptor sees the client's lifetime, within the limit of the server."""
    facts = []

    async def accept(setup, requester):
        facts.append((setup.keepalive_interval, setup.max_lifetime))
        return KnownAnswers()

    config = ConnectionConfig(limits=Limits(max_client_lifetime=50))
    async with frame_peer_client(accept, setup=False, config=config) as peer:
        await peer.setup(keepalive_interval=2000, max_lifetime=asked)
        await peer.expect_alive()
    assert facts == [(2000, min(asked, 50))]


async def test_any_frame_is_a_sign_of_life(autojump_clock):
    """A client that sends any frame is not silent, so it stays connected."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.setup(keepalive_interval=10, max_lifetime=35)
        for stream_id in range(1, 20, 2):
            await trio.sleep(30)
            await peer.send(RequestResponseFrame(stream_id, data=b"x"))
            await peer.receive(PayloadFrame)
