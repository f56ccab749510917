"""Fragmented requests at a guard: refused with the first fragment, limited behind it."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from rsocket_trio import (
    BearerAuthentication,
    ConnectionConfig,
    Limits,
    Metadata,
    Payload,
    PayloadBody,
    Rejected,
    RequestFacts,
    Router,
)
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import frame_peer_client

KEY = BearerAuthentication("key")
FIRST = [
    lambda **fields: RequestResponseFrame(follows=True, **fields),
    lambda **fields: RequestStreamFrame(follows=True, initial_request_n=9, **fields),
]


class House:
    """A guarded router whose handlers wait for an event."""

    def __init__(self, *, open_door=True):
        self.go = trio.Event()
        self.door = trio.Event()
        if open_door:
            self.door.set()
        self.got: list[bytes] = []
        self.router = router = Router(authenticate=self.authenticate)

        @router.request_response("plain")
        async def plain(payload: Payload) -> Payload:
            self.got.append(payload.data)
            await self.go.wait()
            return Payload(b"%d" % len(payload.data))

        @router.fire_and_forget("plain")
        async def note(data: bytes) -> None:
            self.got.append(data)

        @router.request_stream("plain")
        async def stream(data: bytes) -> AsyncIterator[bytes]:
            self.got.append(data)
            await self.go.wait()
            yield b"%d" % len(data)

        @router.request_response("body")
        async def body(body: PayloadBody) -> bytes:
            return b"%d" % sum([len(chunk) async for chunk in body])

    async def authenticate(self, auth, facts):
        if isinstance(facts, RequestFacts):
            await self.door.wait()
            if auth is None:
                raise Rejected("who are you?")


def entries(route, auth=KEY):
    return Metadata(route=route, auth=auth).encode()


def part(stream_id, data=b"x" * 100, *, last=False):
    return PayloadFrame(stream_id, next=True, follows=not last, complete=last, data=data)


@pytest.mark.parametrize("first", FIRST)
async def test_strangers_are_refused_at_once(first):
    """The first fragment is refused, in the same way for known and unknown routes."""
    house = House()
    async with frame_peer_client(house.router) as peer:
        routes = ("plain", "body", "nothing", None)
        for stream_id, route in zip(range(1, 9, 2), routes, strict=True):
            metadata = entries(route, None)
            await peer.send(first(stream_id=stream_id, metadata=metadata, data=b"x" * 100))
            wanted = ErrorFrame(stream_id, ErrorCode.REJECTED, b"who are you?")
            assert await peer.receive() == wanted
            # Fragments that are on the way are ignored.
            await peer.send(part(stream_id), part(stream_id, last=True))
        await peer.expect_alive()
    assert house.got == []


async def test_an_admitted_client_learns_of_an_unknown_route_at_once():
    """It is told with the first fragment, and need not send the rest."""
    async with frame_peer_client(House().router) as peer:
        await peer.send(FIRST[0](stream_id=1, metadata=entries("nothing"), data=b"x"))
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.INVALID


@pytest.mark.parametrize("slow", [False, True])
async def test_fragments_are_joined_behind_the_guard(slow):
    """Handlers without a body get the whole payload, with the fragments that the guard delayed."""
    house = House(open_door=not slow)
    house.go.set()
    async with frame_peer_client(house.router) as peer:
        for stream_id, first in ((1, FIRST[0]), (3, FIRST[1])):
            head, tail = entries("plain")[:9], entries("plain")[9:]
            await peer.send(
                first(stream_id=stream_id, metadata=head),
                PayloadFrame(stream_id, next=True, follows=True, metadata=tail, data=b"x" * 50),
                part(stream_id),
            )
            await peer.expect_alive()
            await peer.send(part(stream_id), part(stream_id, b"", last=True))
            house.door.set()
            assert (await peer.receive(PayloadFrame)).data == b"250"
            if first is FIRST[1]:
                assert (await peer.receive(PayloadFrame)).complete
        await peer.send(
            RequestFnfFrame(5, follows=True, metadata=entries("plain"), data=b"x"),
            part(5, b"yz", last=True),
        )
        await peer.expect_alive()
        await trio.testing.wait_all_tasks_blocked()
    assert house.got == [b"x" * 250, b"x" * 250, b"xyz"]


async def test_the_limit_of_one_request():
    """It is `Limits.max_payload_size`, as for other payloads in fragments."""
    house = House()
    config = ConnectionConfig(limits=Limits(max_payload_size=300))
    async with frame_peer_client(house.router, config=config) as peer:
        metadata = entries("plain")
        await peer.send(FIRST[0](stream_id=1, metadata=metadata, data=b"x" * (300 - len(metadata))))
        await peer.expect_alive()
        await peer.send(part(1, b"x"))
        answer = await peer.receive(ErrorFrame)
        assert (answer.stream_id, answer.code) == (1, ErrorCode.INVALID)
        assert b"max_payload_size" in answer.data
    assert house.got == []


async def test_the_limit_of_all_requests():
    """Joined requests count against `Limits.max_reassembly_size` until answered."""
    house = House()
    config = ConnectionConfig(limits=Limits(max_reassembly_size=500))

    async def send(stream_id, *, last=True):
        await peer.send(FIRST[0](stream_id=stream_id, metadata=entries("plain"), data=b"x" * 300))
        await peer.send(part(stream_id, last=last))

    async with frame_peer_client(house.router, config=config) as peer:
        await send(1)
        await send(3)
        answer = await peer.receive(ErrorFrame)
        assert (answer.stream_id, answer.code) == (3, ErrorCode.CANCELED)
        house.go.set()
        assert (await peer.receive(PayloadFrame)).data == b"400"
        # Answers, errors and cancelled requests give all of it back.
        for stream_id in (5, 7, 9):
            await send(stream_id, last=False)
            await peer.expect_alive()
            await peer.send(CancelFrame(stream_id))
        await send(11)
        assert (await peer.receive(PayloadFrame)).data == b"400"


async def test_joined_fragments_do_not_count_as_unread():
    """Behind the guard a payload may be larger than the limit of unread bytes."""
    house = House()
    house.go.set()
    config = ConnectionConfig(limits=Limits(max_unread_body_size=1000))
    async with frame_peer_client(house.router, config=config) as peer:
        await peer.send(FIRST[0](stream_id=1, metadata=entries("plain"), data=b"x" * 100))
        for _ in range(20):
            await peer.expect_alive()
            await peer.send(part(1))
        await peer.send(part(1, b"", last=True))
        assert (await peer.receive(PayloadFrame)).data == b"2100"


async def test_fragments_behind_a_slow_guard_count_as_unread():
    """Fragments that come while the guard runs wait as unread, up to that limit."""
    house = House(open_door=False)
    config = ConnectionConfig(limits=Limits(max_unread_body_size=1000))
    async with frame_peer_client(house.router, config=config) as peer:
        await peer.send(FIRST[0](stream_id=1, metadata=entries("plain"), data=b"x" * 100))
        await peer.send(*[part(1)] * 10)
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.CANCELED  # at once
        house.door.set()
        await peer.expect_alive()
    assert house.got == []


async def test_thousands_of_fragments_let_other_tasks_run():
    """Tiny fragments that came meanwhile are not joined in one turn of the loop."""
    house = House(open_door=False)
    turns = []

    async def tick():
        while not house.got:
            turns.append(house.door.is_set())
            await trio.lowlevel.checkpoint()

    async with frame_peer_client(house.router) as peer, trio.open_nursery() as nursery:
        await peer.send(FIRST[0](stream_id=1, metadata=entries("plain"), data=b"x"))
        for _ in range(10):
            await peer.send(*[part(1, b"x")] * 1000)
        await peer.send(part(1, b"", last=True))
        await peer.expect_alive()
        nursery.start_soon(tick)
        house.door.set()
        await trio.testing.wait_all_tasks_blocked()
    assert house.got == [b"x" * 10_001]
    assert turns.count(True) > 10_000 / 256


async def test_a_connection_that_ends_within_a_request():
    """It leaves no handler behind."""
    house = House()
    async with frame_peer_client(house.router) as peer:
        await peer.send(FIRST[0](stream_id=1, metadata=entries("plain"), data=b"x"))
        await peer.expect_alive()
    await trio.testing.wait_all_tasks_blocked()
    assert house.got == []


async def test_bodies_are_read_in_chunks_behind_a_guard():
    """A handler with a body is called with its first fragment, behind the guard."""
    async with frame_peer_client(House().router) as peer:
        await peer.send(FIRST[0](stream_id=1, metadata=entries("body"), data=b"x" * 10))
        await peer.send(part(1), part(1, last=True))
        assert (await peer.receive(PayloadFrame)).data == b"210"
