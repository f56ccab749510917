"""The requester: routes, statistics, and facts."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionStatistics, MetadataError, Payload, Responder
from rsocket_trio.account import ITEM_COST
from rsocket_trio.metadata.routing import route_metadata
from rsocket_trio.testing.in_memory import connected_pair

COMPOSITE = "message/x.rsocket.composite-metadata.v0"


def numbers(open_streams: int, active_requests: int, unread_size: int) -> ConnectionStatistics:
    return ConnectionStatistics(
        open_streams=open_streams,
        active_requests=active_requests,
        queued_size=0,
        unread_size=unread_size,
    )


class Mirror(Responder):
    """Answers with the metadata of the request."""

    def __init__(self):
        self.got = []

    async def request_response(self, payload):
        if payload.data == b"wait":
            await trio.sleep_forever()
        return Payload(payload.metadata or b"")

    async def fire_and_forget(self, payload):
        self.got.append(payload.metadata)

    async def request_stream(self, payload):
        yield Payload(payload.metadata)

    async def request_channel(self, _payload, payloads):
        async for payload in payloads:
            yield Payload(payload.metadata or b"none")


async def test_a_route_is_added_to_each_request():
    """A route goes in front of the metadata of every request; in a channel, of the first item."""
    mirror = Mirror()
    expected = route_metadata("there", COMPOSITE, more=b"")
    payload = Payload(b"x", b"")
    async with connected_pair(mirror) as requester:
        assert (await requester.request_response(payload, route="there")).data == expected
        await requester.fire_and_forget(payload, route="there")
        async with requester.request_stream(payload, route="there") as items:
            assert (await items.receive()).data == expected
        async with requester.request_channel([Payload()] * 2, payload=payload, route="there") as rs:
            assert [reply.data async for reply in rs] == [expected, b"none", b"none"]
        async with requester.request_channel([Payload()] * 2, route="there") as replies:
            first = await replies.receive()
            assert first.data == route_metadata("there", COMPOSITE, more=None)
            assert (await replies.receive()).data == b"none"
    assert mirror.got == [expected]


async def test_a_route_that_cannot_be_encoded():
    """It is a MetadataError of the call; no frame is sent."""
    async with connected_pair(Mirror()) as requester:
        with pytest.raises(MetadataError):
            await requester.request_response(route="x" * 256)
        with pytest.raises(MetadataError):
            requester.request_stream(route="x" * 256)
        assert requester.statistics() == numbers(0, 0, 0)


async def test_statistics_count_streams_requests_and_bytes():
    """Open streams, running requests, and unread bytes are counted on each side."""
    sides = []

    async def accept(_setup, requester):
        sides.append(requester)
        return Mirror()

    async with connected_pair(accept) as requester, trio.open_nursery() as nursery:
        nursery.start_soon(requester.request_response, Payload(b"wait"))
        async with requester.request_stream(Payload(b"x", b"12345")) as items:
            await trio.testing.wait_all_tasks_blocked()
            assert requester.statistics() == numbers(1, 0, 5 + ITEM_COST)
            assert sides[0].statistics() == numbers(1, 1, 0)
            assert items.statistics().received == 1
        assert requester.statistics().unread_size == 0
        nursery.cancel_scope.cancel()


async def test_the_facts_of_a_connection():
    """The requester names its transport, and waits for the end of the connection."""
    async with trio.open_nursery() as nursery:
        async with connected_pair(Mirror()) as requester:
            assert requester.transport.scheme == "memory"
            nursery.start_soon(requester.wait_closed)
            await trio.testing.wait_all_tasks_blocked()
            assert nursery.child_tasks
