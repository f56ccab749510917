"""REQUEST_CHANNEL, checked from the wire in both roles."""

from __future__ import annotations

import itertools

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectionClosed, ErrorCode, StreamError
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestNFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers


class Watched(Responder):
    """Counts without end, listens in a task of its own, and notes how both of them end."""

    def __init__(self, nursery):
        self.nursery = nursery
        self.log = []

    def request_channel(self, payload, payloads):
        self.nursery.start_soon(self.listen, payloads)
        return self.count()

    async def listen(self, payloads):
        try:
            async for payload in payloads:
                self.log.append(payload.data)
            self.log.append("heard all")
        except (StreamError, ConnectionClosed, trio.ClosedResourceError) as error:
            self.log.append(type(error).__name__)

    async def count(self):
        try:
            for number in itertools.count():
                yield Payload(b"%d" % number)
        finally:
            self.log.append("stopped")


class Listening(Responder):
    """Answers with the number of payloads it received, once its requester is done."""

    def __init__(self):
        self.log = []

    async def request_channel(self, payload, payloads):
        try:
            async for item in payloads:
                self.log.append(item.data)
        except StreamError as error:
            self.log.append(error.message)
            raise
        except trio.Cancelled:
            self.log.append("cancelled")
            raise
        self.log.append("complete")
        yield Payload(b"%d" % len(self.log))


def item(data, stream_id=1, **flags):
    return PayloadFrame(stream_id, next=True, data=data, **flags)


END = PayloadFrame(1, complete=True)


def payloads(frames):
    return [frame for frame in frames if isinstance(frame, PayloadFrame)]


async def test_the_responder_grants_credit_and_answers():
    """R-CHAN-04, R-CHAN-05: REQUEST_N comes back, and the first item needs no credit."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestChannelFrame(1, 10, data=b"first"))
        frames = await peer.drain()
        grants = [frame for frame in frames if isinstance(frame, RequestNFrame)]
        assert grants
        assert all(frame.n > 0 for frame in grants)
        assert [frame.data for frame in payloads(frames)] == [b"first"]


async def test_credit_of_zero_is_refused():
    """R-CHAN-02: an initial credit of 0 is INVALID, and the connection lives."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestChannelFrame(1, 0, data=b"first"))
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.INVALID
        await peer.expect_alive()


async def test_one_request_channel_per_stream():
    """R-CHAN-01: a second one on a running stream is ignored."""
    responder = Listening()
    async with frame_peer_client(responder) as peer:
        await peer.send(
            RequestChannelFrame(1, 10, data=b"a"), RequestChannelFrame(1, 10, data=b"again")
        )
        await peer.send(item(b"b"), END)
        await peer.drain()
        assert responder.log == [b"a", b"b", "complete"]


async def test_complete_ends_the_requesters_half():
    """R-CHAN-06: C on the request, on the last item, or alone completes the requester's half."""
    for frames, heard in (
        ([RequestChannelFrame(1, 10, data=b"a", complete=True)], [b"a"]),
        ([RequestChannelFrame(1, 10, data=b"a"), item(b"b", complete=True)], [b"a", b"b"]),
        ([RequestChannelFrame(1, 10, data=b"a"), item(b"b"), END], [b"a", b"b"]),
    ):
        responder = Listening()
        async with frame_peer_client(responder) as peer:
            await peer.send(*frames)
            answers = payloads(await peer.drain())
            assert responder.log == [*heard, "complete"]
            assert answers[-1].complete
            assert answers[0].data == b"%d" % len(responder.log)


async def test_no_item_is_delivered_after_complete(nursery):
    """R-CHAN-07: items after the requester's C are not delivered."""
    responder = Watched(nursery)
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestChannelFrame(1, 1, data=b"a", complete=True), item(b"late"))
        await peer.drain()
        assert responder.log == [b"a", "heard all"]
        await peer.expect_alive()


async def test_a_responder_may_go_on_long_after_the_requesters_complete(nursery):
    """R-CHAN-08: after the requester's C the responder goes on, with the credit it gets."""
    async with frame_peer_client(Watched(nursery)) as peer:
        await peer.send(RequestChannelFrame(1, 2, complete=True))
        assert len(payloads(await peer.drain())) == 2
        await peer.send(RequestNFrame(1, 3))
        assert len(payloads(await peer.drain())) == 3
        await peer.send(CancelFrame(1))
        await peer.expect_nothing()


async def test_a_responder_that_has_finished_cancels_the_requesters_half():
    """R-CHAN-08, R-CHAN-11: a handler that ends sends C, and CANCEL for the other half."""

    class Brief(Responder):
        async def request_channel(self, payload, payloads):
            assert await payloads.receive() == Payload(b"a")
            yield Payload(b"enough")

    async with frame_peer_client(Brief()) as peer:
        for _ in range(2):  # and then the id is free
            await peer.send(RequestChannelFrame(1, 1, data=b"a"))
            frames = await peer.drain()
            assert payloads(frames)[0].data == b"enough"
            assert payloads(frames)[-1].complete
            assert frames[-1] == CancelFrame(1)
            await peer.send(item(b"late"), END)
            await peer.expect_nothing()


@pytest.mark.parametrize("completed", [False, True], ids=["open", "requester complete"])
async def test_a_requesters_error_ends_both_halves(completed, nursery):
    """R-CHAN-09: ERROR from the requester stops the responder, which sends nothing more."""
    responder = Watched(nursery)
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestChannelFrame(1, 2, data=b"a", complete=completed))
        await peer.drain()
        await peer.send(ErrorFrame(1, ErrorCode.APPLICATION_ERROR, b"gone wrong"))
        await peer.send(RequestNFrame(1, 10))
        await peer.expect_nothing()
        assert responder.log[0] == b"a"
        assert "stopped" in responder.log
        assert ("heard all" in responder.log) is completed
        assert len(responder.log) == 3  # the listener has ended too, with an error or without one.
        await peer.send(RequestChannelFrame(1, 1, data=b"anew"))
        assert payloads(await peer.drain())


@pytest.mark.parametrize("completed", [False, True], ids=["open", "requester complete"])
async def test_a_requesters_cancel_ends_both_halves(completed, nursery):
    """R-CHAN-10: CANCEL from the requester stops the responder, also after its own C."""
    responder = Watched(nursery)
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestChannelFrame(1, 2, data=b"a", complete=completed))
        await peer.drain()
        await peer.send(CancelFrame(1), RequestNFrame(1, 10), item(b"late"))
        await peer.expect_nothing()
        assert b"late" not in responder.log
        assert "stopped" in responder.log
        assert len(responder.log) == 3  # the listener has ended too
        await peer.send(RequestChannelFrame(1, 1, data=b"anew"))
        assert payloads(await peer.drain())


class Source:
    """An endless source that notes how many items were asked of it."""

    def __init__(self):
        self.given = 0
        self.closed = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.given += 1
        await trio.lowlevel.checkpoint()
        return Payload(b"%d" % (self.given - 1))


async def test_a_requester_waits_for_credit():
    """R-CHAN-03, R-CHAN-05, R-CHAN-12: one item in the request, then as many items as granted."""
    async with frame_peer_server() as (peer, requester):
        async with requester.request_channel(Source(), prefetch=7):
            request = await peer.receive(RequestChannelFrame)
            assert (request.data, request.initial_request_n) == (b"0", 7)
            await peer.expect_nothing()
            await peer.send(RequestNFrame(1, 2))
            assert [frame.data for frame in await peer.drain()] == [b"1", b"2"]
            await peer.send(RequestNFrame(1, 1), RequestNFrame(1, 1))
            assert [frame.data for frame in await peer.drain()] == [b"3", b"4"]
        assert await peer.receive() == CancelFrame(1)


async def test_a_requester_completes_once():
    """R-CHAN-06, R-CHAN-07: C comes with or after the last item, and nothing after it."""
    for source in ([Payload(b"a")], [Payload(b"a"), Payload(b"b")]):
        async with frame_peer_server() as (peer, requester):
            async with requester.request_channel(source) as replies:
                await peer.receive(RequestChannelFrame)
                await peer.send(RequestNFrame(1, 10))
                frames = [frame for frame in peer.received if frame.stream_id == 1]
                frames += payloads(await peer.drain())
                assert [frame.complete for frame in frames].count(True) == 1
                assert frames[-1].complete
                sent = [f.data for f in frames if isinstance(f, RequestChannelFrame) or f.next]
                assert sent == [payload.data for payload in source]
                await peer.send(item(b"reply", complete=True))
                assert [payload.data async for payload in replies] == [b"reply"]
            await peer.expect_nothing()


async def test_a_responders_complete_leaves_the_requesters_half_open():
    """R-CHAN-08: after the responder's C the requester still sends, within its credit."""
    async with frame_peer_server() as (peer, requester):
        async with requester.request_channel(Source()) as replies:
            await peer.receive(RequestChannelFrame)
            await peer.send(END, RequestNFrame(1, 2))
            assert [payload async for payload in replies] == []
            assert [frame.data for frame in await peer.drain()] == [b"1", b"2"]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.APPLICATION_ERROR, ErrorCode.REJECTED, ErrorCode.CANCELED, ErrorCode.INVALID, 0x301],
)
async def test_a_responders_error_ends_both_halves(code):
    """R-CHAN-09: ERROR of any code stops the source, is raised, and nothing more is sent."""
    source = Source()
    raised = []

    async def ask(requester):
        try:
            async with requester.request_channel(source) as replies:
                async for _ in replies:
                    pass
        except StreamError as error:
            raised.append((error.code, error.message))

    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, requester)
            await peer.receive(RequestChannelFrame)
            await peer.send(ErrorFrame(1, code, b"why"))
        assert raised == [(code, "why")]
        await peer.send(RequestNFrame(1, 5))
        await peer.expect_nothing()


async def test_a_responders_cancel_stops_the_requesters_half_only():
    """R-CHAN-11: the requester sends no more, and still receives."""
    async with frame_peer_server() as (peer, requester):
        async with requester.request_channel(Source()) as replies:
            await peer.receive(RequestChannelFrame)
            await peer.send(RequestNFrame(1, 1))
            await peer.receive(PayloadFrame)
            await peer.send(CancelFrame(1), RequestNFrame(1, 5))
            await peer.expect_nothing()
            await peer.send(item(b"still", complete=True))
            assert [payload.data async for payload in replies] == [b"still"]
        await peer.expect_nothing()


async def test_a_failing_source_is_an_error_at_both_ends():
    """R-CHAN-09: the responder gets APPLICATION_ERROR, the caller the source's own exception."""

    async def source():
        yield Payload(b"a")
        raise ZeroDivisionError("not for the wire")

    async def ask(requester):
        try:
            async with requester.request_channel(source()) as replies:
                async for _ in replies:
                    pass
        except ZeroDivisionError:
            raised.append("as itself")

    raised = []
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, requester)
            await peer.receive(RequestChannelFrame)
            await peer.send(RequestNFrame(1, 5))
            error = await peer.receive(ErrorFrame)
            assert error.code == ErrorCode.APPLICATION_ERROR
            assert b"not for the wire" not in error.data
        assert raised == ["as itself"]


async def test_items_beyond_the_credit_end_their_stream():
    """R-CHAN-03: items beyond the responder's REQUEST_N end that stream, not the connection."""

    class Deaf(Responder):
        async def request_channel(self, payload, payloads):
            await trio.sleep_forever()
            yield payload

    async with frame_peer_client(Deaf()) as peer:
        await peer.send(RequestChannelFrame(1, 1, data=b"a"))
        (grant,) = [frame for frame in await peer.drain() if isinstance(frame, RequestNFrame)]
        await peer.send(*(item(b"x") for _ in range(grant.n + 10)))
        frames = await peer.drain()
        assert any(isinstance(frame, ErrorFrame | CancelFrame) for frame in frames)
        await peer.expect_alive()
