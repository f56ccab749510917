"""What the source of a channel raises while it is stopped: nothing of it is lost."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionLost, Payload, Responder
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_server


class Brief(Responder):
    """Takes one item, and answers with as many as there are items, unless told to end."""

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield item
            if payload.data == b"end":
                return


async def failing(first):
    """Ends badly, whatever it is ended by."""
    try:
        while True:
            yield Payload(first)
            await trio.sleep(1)
    finally:
        raise KeyError("cleaning up")


@pytest.mark.parametrize("end", ["the block is left", "the responder"])
async def test_an_error_of_a_source_that_is_stopped(end, autojump_clock):
    """It comes out of the block, as itself."""
    first = b"end" if end == "the responder" else b"x"
    async with connected_pair(Brief()) as requester:
        with pytest.raises(KeyError, match="cleaning up"):
            async with requester.request_channel(failing(first)) as replies:
                await replies.receive()
                if end == "the responder":
                    with pytest.raises(trio.EndOfChannel):
                        await replies.receive()
        assert requester.statistics().open_streams == 0


async def test_beside_an_error_of_the_block(autojump_clock, caplog):
    """That of the block comes out; this one is logged."""
    async with connected_pair(Brief()) as requester:
        with pytest.raises(ValueError, match="of the block"):
            async with requester.request_channel(failing(b"x")) as replies:
                await replies.receive()
                raise ValueError("of the block")
    assert "cleaning up" in caplog.text


async def test_beside_a_cancellation(autojump_clock, caplog):
    """Likewise: the cancellation is not to be held up."""
    async with connected_pair(Brief()) as requester:
        with trio.move_on_after(1) as scope:
            async with requester.request_channel(failing(b"x")):
                await trio.sleep_forever()
    assert scope.cancelled_caught
    assert "cleaning up" in caplog.text


async def test_beside_the_end_of_the_connection(autojump_clock, caplog):
    """Likewise: who reads the replies has learned of that already."""
    async with frame_peer_server() as (peer, requester):
        with pytest.raises(ConnectionLost):
            async with requester.request_channel(failing(b"x")) as replies:
                await trio.testing.wait_all_tasks_blocked()
                await peer.aclose()
                await replies.receive()
    assert "cleaning up" in caplog.text


async def test_an_error_that_ends_the_channel_is_not_logged(autojump_clock, caplog):
    """It comes out of the block, whoever has seen it before."""

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
