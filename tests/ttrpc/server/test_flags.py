"""The flags of a request, for methods that take a stream (`rsocket_trio.ttrpc.server.incoming`)."""

from __future__ import annotations

from tests.ttrpc.scenes import request, stranger_to, things


async def test_a_request_without_flags_is_the_only_message():
    """PROTOCOL.md, "Request": it is unary, so the handler must not wait for more."""
    async with stranger_to(things()) as stranger:
        await stranger.send(request(1, "Join", b"all"), request(3, "Join"))
        assert (await stranger.frame()).payload == b"all"
        assert (await stranger.frame()).payload == b""
