"""The responder that offers nothing, and what an acceptor may be."""

from __future__ import annotations

import pytest
import trio.testing

from rsocket_trio import Invalid, Payload, Responder, Setup, TransportInfo
from rsocket_trio.responder import accept_with
from rsocket_trio.testing.in_memory import connected_pair

SETUP = Setup(
    data_mime_type="a/b",
    metadata_mime_type="c/d",
    keepalive_interval=1.0,
    max_lifetime=2.0,
    transport=TransportInfo(scheme="memory"),
)


async def test_what_is_not_offered_is_invalid():
    """Each interaction that is not overridden answers INVALID; the two silent ones nothing."""
    async with connected_pair(Responder()) as requester:
        with pytest.raises(Invalid, match="does not answer request_response"):
            await requester.request_response()
        async with requester.request_stream() as items:
            with pytest.raises(Invalid, match="does not answer request_stream"):
                await items.receive()
        async with requester.request_channel([Payload()]) as replies:
            with pytest.raises(Invalid, match="does not answer request_channel"):
                await replies.receive()
        await requester.fire_and_forget()
        await requester.metadata_push(b"x")
        await trio.testing.wait_all_tasks_blocked()
        assert not requester.closed


async def test_accepting():
    """A responder accepts itself; a function decides; anything else is a TypeError."""
    responder = Responder()
    assert await accept_with(responder, SETUP, None) is responder

    async def function(setup, requester):
        assert setup is SETUP
        return responder

    assert await accept_with(function, SETUP, None) is responder

    async def wrong(setup, requester):
        return "responder"

    with pytest.raises(TypeError, match="must return a Responder, not str"):
        await accept_with(wrong, SETUP, None)
