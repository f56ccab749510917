"""A request whose caller is already cancelled is not sent."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rsocket_trio import (
    Caller,
    ConnectionConfig,
    Lease,
    LeaseOptions,
    Payload,
    StreamedPayload,
    connect,
    serve_transport,
)
from rsocket_trio.frames import CancelFrame, FrameType, KeepaliveFrame, SetupFrame, decode
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import TransportWrapper, memory_transport_pair

SMALL = Payload(b"x", b"m")
LARGE = Payload(b"x" * 1000, b"m" * 100)


async def chunks():
    for _ in range(20):
        yield b"x" * 40


async def items():
    while True:
        yield LARGE


async def response(requester, payload):
    await requester.request_response(payload)


async def streamed_response(requester, payload):
    async with requester.request_response_streamed(payload) as body:
        async for _ in body:
            pass


async def fire(requester, payload):
    await requester.fire_and_forget(payload)


async def push(requester, payload):
    await requester.metadata_push(b"m")


async def stream(requester, payload):
    async with requester.request_stream(payload) as stream:
        async for _ in stream:
            pass


async def subscription(requester, payload):
    async with request_subscription(requester, payload) as stream:
        await stream.receive()


async def stream_that_is_not_read(requester, payload):
    async with requester.request_stream(payload):
        pass


async def channel(requester, payload):
    async with requester.request_channel([payload]) as replies:
        await replies.receive()


async def channel_opened_by_a_payload(requester, payload):
    async with requester.request_channel(items(), payload=payload) as replies:
        await replies.receive()


async def channel_with_an_empty_block(requester, payload):
    async with requester.request_channel(items(), payload=payload):
        pass


async def typed(requester, payload):
    await Caller(requester).request_response("r", payload.data)


OPERATIONS = [
    response,
    streamed_response,
    fire,
    push,
    stream,
    subscription,
    stream_that_is_not_read,
    channel,
    channel_opened_by_a_payload,
    channel_with_an_empty_block,
    typed,
]
WAITING = [each for each in OPERATIONS if each not in {push, channel_with_an_empty_block}]
"""Requests that wait for room when there is none; metadata_push has no stream to cancel."""


class Tap(TransportWrapper):
    """Notes the frames that leave, except those of stream 0."""

    def __init__(self, inner):
        super().__init__(inner)
        self.sent = []
        self.gate = None  # if it is set, frames wait for it

    async def send_frames(self, frames):
        self.sent += map(decode, frames)
        if self.gate is not None:
            await self.gate.wait()
        await super().send_frames(frames)

    @property
    def of_streams(self):
        return [f for f in self.sent if not isinstance(f, SetupFrame | KeepaliveFrame)]


@asynccontextmanager
async def tapped(nursery, **options):
    ours, theirs = memory_transport_pair()
    tap = Tap(ours)
    lease = LeaseOptions(Lease(100, 100)) if options else None

    async def serve():
        await serve_transport(KnownAnswers(), theirs, lease=lease)

    nursery.start_soon(serve)
    config = ConnectionConfig(fragment_size=64)
    async with connect(tap, config=config, **options) as requester:
        await trio.testing.wait_all_tasks_blocked()
        if options:
            tap.sent.clear()  # our LEASE
        yield tap, requester


@pytest.mark.parametrize("leased", [{}, {"lease": LeaseOptions()}], ids=["open", "leased"])
@pytest.mark.parametrize("streamed", [False, True], ids=["bytes", "chunks"])
@pytest.mark.parametrize("payload", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_no_frame_leaves_from_a_cancelled_scope(
    nursery, operation, payload, streamed, leased
):
    """The scope is cancelled before the call; the next request has the next id."""
    whole = payload
    async with tapped(nursery, **leased) as (tap, requester):
        for _ in range(3):
            if streamed:
                # A new one each time: it is closed with its request, and cannot be sent again.
                payload = StreamedPayload(chunks(), whole.metadata)
                if operation is typed:
                    payload = SMALL
            with trio.CancelScope() as scope:
                scope.cancel()
                await operation(requester, payload)
            await trio.testing.wait_all_tasks_blocked()
            assert tap.of_streams == []
        numbers = requester.statistics()
        assert (numbers.open_streams, numbers.queued_size, numbers.unread_size) == (0, 0, 0)
        assert await requester.request_response(SMALL) == SMALL
        (request,) = tap.of_streams
        assert (request.frame_type, request.stream_id) == (FrameType.REQUEST_RESPONSE, 1)


@pytest.mark.parametrize("leased", [{}, {"lease": LeaseOptions()}], ids=["open", "leased"])
@pytest.mark.parametrize("payload", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("operation", WAITING)
async def test_cancelled_in_the_turn_in_which_room_comes(nursery, operation, payload, leased):
    """A task that is cancelled between getting room and running returns the room."""
    async with tapped(nursery, **leased) as (tap, requester):
        outbox = requester._connection.outbox
        room = outbox.room
        limit = room.limit
        for _ in range(3):
            room.set_limit(0)
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as callers:
                    callers.start_soon(operation, requester, payload)
                    await trio.testing.wait_all_tasks_blocked()
                    room.set_limit(limit)
                    assert room.used
                    scope.cancel()
                    outbox.put_urgent(KeepaliveFrame(False).encode())  # The writer has work too.
            await trio.testing.wait_all_tasks_blocked()
            assert tap.of_streams == []
            assert room.used == 0
        assert await requester.request_response(SMALL) == SMALL
        assert [frame.stream_id for frame in tap.of_streams] == [1]


async def test_a_request_that_has_left_is_cancelled(nursery):
    """Both REQUEST and CANCEL are sent."""
    async with tapped(nursery) as (tap, requester):
        async with trio.open_nursery() as callers:
            for _ in range(3):
                callers.start_soon(requester.request_response, Payload(b"never"))
            await trio.testing.wait_all_tasks_blocked()
            callers.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        cancelled = [frame.stream_id for frame in tap.sent if isinstance(frame, CancelFrame)]
        assert [frame.stream_id for frame in tap.of_streams[:3]] == [1, 3, 5]
        assert sorted(cancelled) == [1, 3, 5]
        assert requester.statistics().open_streams == 0


async def test_a_request_that_waits_to_leave(nursery):
    """The last queued request is retracted, with its id; one with others behind it is cancelled."""
    async with tapped(nursery) as (tap, requester):
        tap.gate = trio.Event()
        await requester.metadata_push(b"keeps the writer busy")
        await trio.testing.wait_all_tasks_blocked()
        scopes = []

        async def ask(data):
            with trio.CancelScope() as scope:
                scopes.append(scope)
                await requester.request_response(Payload(data))

        async with trio.open_nursery() as callers:
            for number in range(3):
                callers.start_soon(ask, b"%d" % number)
                await trio.testing.wait_all_tasks_blocked()
            for scope in reversed(scopes[1:]):
                scope.cancel()
                await trio.testing.wait_all_tasks_blocked()
            callers.start_soon(ask, b"again")
            await trio.testing.wait_all_tasks_blocked()
            scopes[0].cancel()
            await trio.testing.wait_all_tasks_blocked()
            tap.gate.set()
        left = [(frame.frame_type, frame.stream_id) for frame in tap.of_streams[1:]]
        request = FrameType.REQUEST_RESPONSE
        assert left == [(request, 1), (request, 3), (FrameType.CANCEL, 1)]
        assert requester.statistics().open_streams == 0
