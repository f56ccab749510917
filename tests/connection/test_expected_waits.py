"""Handlers behind one that waited: they are expected to wait too, and may do anything else."""

from __future__ import annotations

import contextvars

import pytest
import trio

from rsocket_trio import ApplicationError, Payload, Responder
from rsocket_trio.connection import crew
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client

STAINED = contextvars.ContextVar("stained", default="clean")

MANY = 4 * crew._EXPECTED


class Acts(Responder):
    """Does what the request says."""

    def __init__(self):
        self.kept = []
        self.begun = []
        self.requester = None

    async def accept(self, setup, requester):
        self.requester = requester
        return self

    async def request_response(self, payload):
        self.begun.append(payload.data)
        match payload.data:
            case b"wait":
                await trio.lowlevel.checkpoint()
            case b"sleep":
                await trio.sleep_forever()
            case b"nothing":
                return None
            case b"large":
                return Payload(b"x" * 100_000)
            case b"text":
                return "text"
            case b"fail":
                raise ValueError("inner text")
            case b"refuse":
                raise ApplicationError("no")
            case b"scope":
                scope = trio.CancelScope()
                scope.__enter__()
                self.kept.append(scope)
            case b"nursery":
                manager = trio.open_nursery()
                await manager.__aenter__()
                self.kept.append(manager)
            case b"cancelled":
                with trio.CancelScope() as scope:
                    scope.cancel()
                    try:
                        await trio.sleep(0)
                    except trio.Cancelled as error:
                        kept = error
                raise kept
            case b"stain":
                STAINED.set("stained")
            case b"look":
                return Payload(STAINED.get().encode())
        return payload

    def request_stream(self, payload):
        if payload.data == b"raise":
            raise StopIteration
        return self.items(payload)

    async def items(self, payload):
        for _ in range(3):
            if payload.data == b"wait":
                await trio.lowlevel.checkpoint()
            yield payload


def behind_waits(*data):
    """Requests that wait, and behind them in the same read requests with ``data``."""
    return [
        RequestResponseFrame(2 * n + 1, data=each) for n, each in enumerate([b"wait"] * 3 + [*data])
    ]


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"echo", b"echo"),
        (b"wait", b"wait"),
        (b"nothing", b""),
        (b"large", b"x" * 100_000),
        (b"text", None),
        (b"fail", None),
        (b"refuse", None),
        (b"scope", b"scope"),
        (b"nursery", b"nursery"),
        (b"cancelled", None),
        (b"stain", b"stain"),
    ],
)
async def test_each_kind_of_handler_behind_those_that_wait(data, answer, autojump_clock):
    """Each of them is answered, and so is the request behind it."""
    async with frame_peer_client(Acts()) as peer:
        requests = behind_waits(*[data, b"look"] * MANY)
        await peer.send(*requests)
        answers, errors, complete = {}, set(), set()
        while len(complete) + len(errors) < len(requests):
            frame = await peer.receive()
            if isinstance(frame, ErrorFrame):
                errors.add(frame.stream_id)
            else:
                assert isinstance(frame, PayloadFrame)
                answers[frame.stream_id] = answers.get(frame.stream_id, b"") + frame.data
                if frame.complete:
                    complete.add(frame.stream_id)
        for request in requests:
            expected = {data: answer, b"look": b"clean", b"wait": b"wait"}[request.data]
            if expected is None:
                assert request.stream_id in errors
            else:
                assert answers[request.stream_id] == expected


async def test_handlers_that_wait_and_others_begin_in_the_order_of_their_arrival():
    """A handler begins when those before it have begun, whether they wait or not."""
    responder = Acts()
    data = [b"wait" if n % 3 else b"%d" % n for n in range(100)]
    async with frame_peer_client(responder) as peer:
        await peer.send(*behind_waits(*data))
        for _ in range(103):
            await peer.receive(PayloadFrame)
    assert [each for each in responder.begun if each != b"wait"] == data[::3]


async def test_a_request_that_is_cancelled_in_the_queue_never_runs():
    """The request may be expected to wait, or not."""
    responder = Acts()
    async with frame_peer_client(responder) as peer:
        requests = behind_waits(*[b"sleep"] * MANY)
        await peer.send(
            *requests, *(CancelFrame(each.stream_id) for each in requests if each.data == b"sleep")
        )
        frames = await peer.drain()
    assert [each.data for each in frames if isinstance(each, PayloadFrame)] == [b"wait"] * 3
    # The whole read is dispatched before the queue is run.
    assert responder.begun.count(b"sleep") == 0
    assert responder.requester.statistics().active_requests == 0


async def test_cancel_reaches_each_handler_that_waits():
    """Also one that was expected to wait, so that its first step was not run by hand."""
    responder = Acts()
    async with frame_peer_client(responder) as peer:
        requests = behind_waits(*[b"sleep"] * MANY)
        await peer.send(*requests)
        await peer.drain()
        assert responder.begun.count(b"sleep") == MANY
        await peer.send(*(CancelFrame(each.stream_id) for each in requests))
        await peer.send(RequestResponseFrame(1001, data=b"echo"))
        assert (await peer.receive(PayloadFrame)).data == b"echo"
        assert responder.requester.statistics().active_requests == 0


@pytest.mark.parametrize("data", [b"wait", b"echo"])
async def test_streams_behind_those_that_wait(data):
    """A stream has all its items, whether its handler waits or not."""
    async with frame_peer_client(Acts()) as peer:
        ids = range(1, 2 * MANY, 2)
        await peer.send(*(RequestStreamFrame(each, data=data, initial_request_n=9) for each in ids))
        items = {each: [] for each in ids}
        complete = set()
        while len(complete) < len(ids):
            frame = await peer.receive(PayloadFrame)
            if frame.next:
                items[frame.stream_id].append(frame.data)
            if frame.complete:
                complete.add(frame.stream_id)
        assert all(each == [data] * 3 for each in items.values())


async def test_a_handler_that_raises_when_it_is_called():
    """It fails its own stream; it has not even returned a coroutine."""
    async with frame_peer_client(Acts()) as peer:
        ids = [*range(7, 7 + 2 * MANY, 2)]
        await peer.send(
            *behind_waits(),
            *(RequestStreamFrame(each, data=b"raise", initial_request_n=1) for each in ids),
        )
        frames = await peer.drain()
    assert sorted(each.stream_id for each in frames if isinstance(each, ErrorFrame)) == ids


async def test_a_client_that_leaves_while_its_requests_are_expected_to_wait():
    """The server goes on, and no request is left."""
    responder = Acts()
    async with connected_pair(responder) as client:
        with trio.move_on_after(0.05):
            async with trio.open_nursery() as nursery:
                for _ in range(MANY):
                    nursery.start_soon(client.request_response, Payload(b"sleep"))
        assert (await client.request_response(Payload(b"echo"))).data == b"echo"
