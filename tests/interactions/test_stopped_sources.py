"""Errors that the source of a channel raises while it is stopped are not lost."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, ConnectionLost, Limits, Payload, Responder
from rsocket_trio.interactions.sending import throw_into
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_server


class Brief(Responder):
    """Takes one item, and answers with a number of items, unless told to end."""

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield item
            if payload.data == b"end":
                return


async def failing(first):
    """Fails when it is stopped, in any way."""
    try:
        while True:
            yield Payload(first)
            await trio.sleep(1)
    finally:
        raise KeyError("cleaning up")


@pytest.mark.parametrize("end", ["the block is left", "the responder"])
async def test_an_error_of_a_stopped_source(end, autojump_clock):
    """It comes out of the block unchanged."""
    first = b"end" if end == "the responder" else b"x"
    async with connected_pair(Brief()) as requester:
        with pytest.raises(KeyError, match="cleaning up"):
            async with requester.request_channel(failing(first)) as replies:
                await replies.receive()
                if end == "the responder":
                    with pytest.raises(trio.EndOfChannel):
                        await replies.receive()
        assert requester.statistics().open_streams == 0


async def test_a_stopped_source_and_a_failing_block(autojump_clock, caplog):
    """The block's error comes out; the source's is logged."""
    async with connected_pair(Brief()) as requester:
        with pytest.raises(ValueError, match="of the block"):
            async with requester.request_channel(failing(b"x")) as replies:
                await replies.receive()
                raise ValueError("of the block")
    assert "cleaning up" in caplog.text


async def test_a_stopped_source_and_a_cancellation(autojump_clock, caplog):
    """The source's error is logged: the cancellation must not be held up."""
    async with connected_pair(Brief()) as requester:
        with trio.move_on_after(1) as scope:
            async with requester.request_channel(failing(b"x")):
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert "cleaning up" in caplog.text


async def test_a_stopped_source_and_the_end_of_the_connection(autojump_clock, caplog):
    """The source's error is logged: the reader of the replies has got the end already."""
    async with frame_peer_server() as (peer, requester):
        with pytest.raises(ConnectionLost):
            async with requester.request_channel(failing(b"x")) as replies:
                await trio.testing.wait_all_tasks_blocked()
                await peer.aclose()
                await replies.receive()
    assert "cleaning up" in caplog.text


async def test_an_error_that_ends_the_channel_is_not_logged(autojump_clock, caplog):
    """It comes out of the block, also if another caller has seen it before."""

    async def source():
        yield Payload(b"x")
        raise KeyError("of the source")

    async with connected_pair(Brief()) as requester:
        with pytest.raises(KeyError, match="of the source"):
            async with requester.request_channel(source()) as replies:
                with trio.CancelScope(shield=True):
                    async for _ in replies:
                        pass
    assert "failed as well" not in caplog.text


async def test_a_channel_without_items_that_waits_for_room_is_cancelled():
    """Its source has ended, and raises nothing that is thrown into it: no loop tries for ever."""

    async def nothing():
        await trio.lowlevel.checkpoint()
        for item in ():
            yield item

    config = ConnectionConfig(limits=Limits(max_outbox_size=64))
    async with frame_peer_server(config=config) as (_, requester):

        async def fill():
            while True:
                await requester.fire_and_forget(Payload(bytes(100)))

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fill)
                await trio.testing.wait_all_tasks_blocked()  # the peer does not read
                async with requester.request_channel(nothing()):
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
                    await trio.sleep_forever()
        assert scope.cancelled_caught


async def test_an_error_for_a_generator_that_has_ended_is_raised():
    """Also if the application has closed it meanwhile."""

    async def items():
        yield 1

    ended = items()
    await anext(ended)
    await ended.aclose()
    with pytest.raises(ValueError, match="for it"):
        await throw_into(ended, ValueError("for it"))
