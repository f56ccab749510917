"""Handlers that run where their request is read: what they may do, and how they end."""

from __future__ import annotations

import contextvars

import pytest
import trio

from rsocket_trio import ApplicationError, ConnectionConfig, ErrorCode, Limits, Payload, Responder
from rsocket_trio.connection import first_steps, queued_steps
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
)
from rsocket_trio.streamed import StreamedPayload
from rsocket_trio.testing.in_memory import frame_peer_client

STAINED = contextvars.ContextVar("stained", default="clean")


class Notes(Responder):
    """Does what the request says, and notes it."""

    def __init__(self):
        self.seen = []
        self.tasks = []

    async def fire_and_forget(self, payload):
        self.seen.append(payload.data)

    async def request_response(self, payload):
        self.seen.append(payload.data)
        self.tasks.append(trio.lowlevel.current_task())
        match payload.data:
            case b"wait":
                await trio.sleep_forever()
            case b"turn":
                await trio.lowlevel.checkpoint()
            case b"nothing":
                return None
            case b"large":
                return Payload(b"x" * 100_000)
            case b"metadata":
                return Payload(b"data", b"metadata")
            case b"chunks":
                return StreamedPayload(chunks())
            case b"text":
                return "text"
            case b"fail":
                raise ValueError("inner text")
            case b"stain":
                STAINED.set("stained")
            case b"look":
                return Payload(STAINED.get().encode())
        return payload


async def chunks():
    yield b"a"
    yield b"b"


def requests(*data):
    """One request for each, in one read."""
    return [RequestResponseFrame(2 * n + 1, data=each) for n, each in enumerate(data)]


async def test_answers_leave_in_order_and_in_one_task():
    """No handler waits, so no request is handed to a worker."""
    responder = Notes()
    async with frame_peer_client(responder) as peer:
        await peer.send(*requests(b"1", b"2", b"3"))
        answers = [await peer.receive(PayloadFrame) for _ in range(3)]
        assert [(each.stream_id, each.data) for each in answers] == [
            (1, b"1"),
            (3, b"2"),
            (5, b"3"),
        ]
        assert len(set(responder.tasks)) == 1


async def test_requests_begin_in_the_order_of_their_arrival():
    """A fire_and_forget goes through the queue; later requests do not overtake it."""
    responder = Notes()
    async with frame_peer_client(responder) as peer:
        await peer.send(
            RequestResponseFrame(1, data=b"1"),
            RequestFnfFrame(3, data=b"2"),
            RequestResponseFrame(5, data=b"3"),
            RequestFnfFrame(7, data=b"4"),
        )
        for _ in range(2):
            await peer.receive(PayloadFrame)
        await peer.expect_nothing()
        assert responder.seen == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"nothing", b""),
        (b"large", b"x" * 100_000),
        (b"metadata", b"data"),
        (b"chunks", b"ab"),
        (b"turn", b"turn"),
    ],
)
async def test_all_kinds_of_answers(data, answer):
    """An answer that is not a plain payload goes to a worker; the next request is not affected."""
    async with frame_peer_client(Notes()) as peer:
        await peer.send(*requests(data, b"next"))
        received = {1: b"", 3: b""}
        complete = set()
        while len(complete) < 2:
            frame = await peer.receive(PayloadFrame)
            received[frame.stream_id] += frame.data
            if frame.complete:
                complete.add(frame.stream_id)
        assert received == {1: answer, 3: b"next"}


@pytest.mark.parametrize("data", [b"text", b"fail"])
async def test_failures_end_their_own_request_only(data, caplog):
    """The peer learns that the request failed, but not why; the next one is answered."""
    async with frame_peer_client(Notes()) as peer:
        await peer.send(*requests(data, b"next"))
        error = await peer.receive(ErrorFrame)
        assert (error.stream_id, error.data) == (1, b"the handler failed")
        assert (await peer.receive(PayloadFrame)).stream_id == 3
    assert "a handler failed on stream 1" in caplog.text


async def test_a_handler_that_waits_is_cancelled_by_cancel():
    """It became an operation with its first wait; other requests of the same read are answered."""
    responder = Notes()
    async with frame_peer_client(responder) as peer:
        await peer.send(*requests(b"1", b"wait", b"2"))
        answered = {(await peer.receive(PayloadFrame)).stream_id for _ in range(2)}
        assert answered == {1, 5}
        await peer.send(CancelFrame(3))
        await peer.send(RequestResponseFrame(3, data=b"again"))
        assert (await peer.receive(PayloadFrame)).data == b"again"


async def test_the_context_of_a_request_does_not_reach_the_next():
    """It reaches no request of the same read or of the next one."""
    async with frame_peer_client(Notes()) as peer:
        await peer.send(*requests(b"stain", b"look"))
        answers = [(await peer.receive(PayloadFrame)).data for _ in range(2)]
        assert answers == [b"stain", b"clean"]
        await peer.send(RequestResponseFrame(5, data=b"look"))
        assert (await peer.receive(PayloadFrame)).data == b"clean"


@pytest.mark.parametrize(("seconds", "most"), [(0.0, 512 + 64), (0.001, 2 * 8)])
async def test_a_burst_lets_others_run(seconds, most, monkeypatch):
    """A burst ends after a number of requests, or a time; the queue goes on in the next turn."""
    now = 0.0
    turn = 0
    ran = []

    class Computes(Responder):
        async def request_response(self, payload):
            nonlocal now
            now += seconds
            ran.append(turn)
            return payload

    async def count():
        nonlocal turn
        while True:
            turn += 1
            await trio.lowlevel.checkpoint()

    for module in (first_steps, queued_steps):
        monkeypatch.setattr(module, "perf_counter", lambda: now)
    async with frame_peer_client(Computes()) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await peer.send(*requests(*[b"x"] * 1500))
        for _ in range(1500):
            await peer.receive(PayloadFrame)
        nursery.cancel_scope.cancel()
    # Tasks run in any order within a turn, so two turns may look like one.
    assert max(map(ran.count, set(ran))) <= 2 * most + 16


async def test_a_handler_that_drains_its_connection_is_answered():
    """The connection counts the running request, so the end comes behind its answer."""

    async def accept(setup, requester):
        class Stops(Responder):
            async def request_response(self, payload):
                requester._connection.close_gracefully()
                return payload

        return Stops()

    async with frame_peer_client(accept) as peer:
        await peer.send(RequestResponseFrame(1, data=b"last"))
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.CONNECTION_CLOSE
        assert (await peer.receive(PayloadFrame)).data == b"last"


class Waits(Responder):
    """Waits in its first step for what frames bring, as the request says."""

    async def accept(self, setup, requester):
        self.requester = requester
        return self

    async def request_response(self, payload):
        match payload.data:
            case b"end":
                await self.requester.wait_closed()
            case b"ask":
                return await self.requester.request_response(Payload())
            case b"stream":
                async with self.requester.request_stream(Payload()) as items:
                    return await items.receive()
        return payload


ITEM = PayloadFrame(2, next=True, complete=True, data=b"item")


@pytest.mark.parametrize(
    ("what", "behind", "answer"),
    [
        (b"end", [b"junk"], None),
        (b"end", [ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"bye")], None),
        (b"ask", [ITEM], b"item"),
        (b"ask", [ITEM, CancelFrame(1)], None),
        (b"ask", [ErrorFrame(2, ErrorCode.REJECTED, b""), CancelFrame(1)], None),
        (b"ask", [ITEM, b"junk"], None),
        (b"stream", [ITEM], b"item"),
        (b"stream", [ITEM, CancelFrame(1)], None),
        (b"stream", [ITEM, b"junk"], None),
    ],
)
async def test_frames_behind_it_that_end_its_wait(what, behind, answer):
    """trio knows that the handler waits before the next frame of the same read wakes it."""
    responder = Waits()
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestResponseFrame(1, data=what), *behind)
        received = await peer.drain()
        answers = [each.data for each in received if each.stream_id == 1]
        assert answers == ([] if answer is None else [answer])
        statistics = responder.requester.statistics()
        assert (statistics.active_requests, statistics.open_streams) == (0, 0)


@pytest.mark.parametrize("data", [b"stain", b"stain and wait"])
async def test_the_context_of_one_does_not_reach_what_is_dispatched_behind_it(data):
    """Whoever decides about a request in fragments is called in a context of its own."""
    seen = []

    class Looks(Responder):
        async def request_response(self, payload):
            STAINED.set("stained")
            if payload.data == b"stain and wait":
                await trio.sleep_forever()
            return payload

        def body_responder(self, interaction, metadata):
            seen.append(STAINED.get())

    async with frame_peer_client(Looks()) as peer:
        await peer.send(
            RequestResponseFrame(1, data=data), RequestFnfFrame(3, follows=True, data=b"part")
        )
        await peer.drain()
        assert seen == ["clean"]


async def test_a_stain_of_who_decides_about_a_body_does_not_reach_a_handler():
    seen = []

    class Looks(Responder):
        async def request_response(self, payload):
            seen.append(STAINED.get())
            return payload

        def body_responder(self, interaction, metadata):
            STAINED.set("stained")

    async with frame_peer_client(Looks()) as peer:
        await peer.send(
            RequestFnfFrame(1, follows=True, data=b"part"), RequestResponseFrame(3, data=b"x")
        )
        await peer.receive(PayloadFrame)
        assert seen == ["clean"]


@pytest.mark.parametrize("queued", [False, True])
async def test_a_coroutine_that_is_returned_twice(queued):
    """As of a handler that is cached: the second request fails, and does not disturb the first."""
    gate = trio.Event()

    async def answer():
        await gate.wait()
        return Payload(b"answer")

    cached = answer()

    class Cached(Responder):
        async def fire_and_forget(self, payload):
            """So that what comes behind it goes through the queue."""

        def request_response(self, payload):
            return cached

    async with frame_peer_client(Cached()) as peer:
        await peer.send(RequestResponseFrame(1))
        await peer.expect_nothing()
        await peer.send(*[RequestFnfFrame(3)] * queued, RequestResponseFrame(5))
        assert (await peer.receive(ErrorFrame)).stream_id == 5
        gate.set()
        assert (await peer.receive(PayloadFrame)).stream_id == 1


@pytest.mark.parametrize("how", ["at once", "queued", "wait"])
@pytest.mark.parametrize("answer", [bytearray(b"secret"), "secret", None])
async def test_the_log_does_not_show_an_answer_that_cannot_be_sent(how, answer, caplog):
    """The traceback says where it failed; the answer may be secret, or of megabytes."""

    class Wrong(Responder):
        async def fire_and_forget(self, payload):
            """So that what comes behind it goes through the queue."""

        async def request_response(self, payload):
            if how == "wait":
                await trio.lowlevel.checkpoint()
            return Payload(answer) if answer is not None else "secret"

    async with frame_peer_client(Wrong()) as peer:
        await peer.send(*[RequestFnfFrame(1)] * (how == "queued"), RequestResponseFrame(3))
        assert (await peer.receive(ErrorFrame)).data == b"the handler failed"
    assert "a handler failed on stream 3" in caplog.text
    assert "secret" not in caplog.text


class Watches(Responder):
    """Notes the bytes that wait to be sent when each of its handlers begins."""

    async def accept(self, setup, requester):
        self.requester = requester
        self.queued = []
        return self

    def note(self):
        self.queued.append(self.requester.statistics().queued_size)

    async def fire_and_forget(self, payload):
        self.note()

    async def request_response(self, payload):
        self.note()
        if payload.data == b"fail":
            raise ApplicationError("")
        return payload


@pytest.mark.parametrize("first", [[], [RequestFnfFrame(999)]])
@pytest.mark.parametrize(
    ("data", "limits"),
    [
        # Each answer is a frame of 10 bytes, each ERROR too.
        (b"four", Limits(max_outbox_size=20)),
        (b"fail", Limits(max_control_size=10)),
    ],
)
async def test_a_handler_begins_while_its_answer_has_room(first, data, limits):
    """Below the limit of payloads, and up to that of other frames; then it waits.

    The task that has waited for room begins one request, although the outbox may be full again.
    """
    responder = Watches()
    async with frame_peer_client(responder, config=ConnectionConfig(limits=limits)) as peer:
        await peer.send(*first, *requests(*[data] * 9))
        for _ in range(9):
            await peer.receive()
    del responder.queued[: len(first)]
    assert responder.queued[:4] == [0, 10, 0, 10]
    assert max(responder.queued) <= 20
