"""PAYLOAD, REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM and their credit, from the wire."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ApplicationError, ErrorCode, LocalProtocolError, RemoteProtocolError
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.streamed import StreamedPayload
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers


class Watched(KnownAnswers):
    """Notes how its handlers end."""

    def __init__(self):
        super().__init__()
        self.log = []

    async def request_response(self, payload):
        try:
            return await super().request_response(payload)
        except trio.Cancelled:
            self.log.append("cancelled")
            raise

    async def fire_and_forget(self, payload):
        raise ApplicationError("it is only logged")

    async def request_stream(self, payload):
        try:
            for number in range(int(payload.data)):
                yield Payload(b"%d" % number)
            self.log.append("completed")
        finally:
            self.log.append("closed")


async def answers_to(requester, frames, peer):
    """Return the outcome of a request_response that is answered with these frames."""
    outcome = []

    async def ask():
        try:
            outcome.append(await requester.request_response(Payload(b"?")))
        except ApplicationError as error:
            outcome.append(error.message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        request = await peer.receive(RequestResponseFrame)
        await peer.send(*(frame(request.stream_id) for frame in frames))
    return outcome[0]


async def items_of(requester, frames, peer, prefetch=8):
    """Return the items of a request_stream that is answered with these frames."""
    items = []

    async def ask():
        try:
            async with requester.request_stream(Payload(), prefetch=prefetch) as stream:
                async for payload in stream:
                    items.append(payload.data)
            items.append("complete")
        except ApplicationError as error:
            items.append(error.message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        request = await peer.receive(RequestStreamFrame)
        await peer.send(*(frame(request.stream_id) for frame in frames))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return items


def item(data, **flags):
    return lambda stream_id: PayloadFrame(stream_id, next=True, data=data, **flags)


def complete(data=b""):
    return lambda stream_id: PayloadFrame(stream_id, complete=True, data=data)


def failure(text):
    return lambda stream_id: ErrorFrame(stream_id, ErrorCode.APPLICATION_ERROR, text)


async def test_a_request_is_answered_once():
    """R-RR-01, R-PAY-01: the answer is one PAYLOAD with N and C, or one ERROR."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestResponseFrame(1, data=b"hello"))
        assert await peer.receive() == PayloadFrame(1, next=True, complete=True, data=b"hello")
        await peer.send(RequestResponseFrame(3, data=b"error:why"))
        assert await peer.receive() == ErrorFrame(3, ErrorCode.APPLICATION_ERROR, b"why")
        await peer.send(RequestResponseFrame(5, data=b"empty"))
        assert await peer.receive() == PayloadFrame(5, complete=True)
        await peer.expect_nothing()


async def test_an_answered_stream_is_over():
    """R-RR-02: CANCEL, REQUEST_N and ERROR after the answer are ignored."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestResponseFrame(1, data=b"hello"))
        await peer.receive(PayloadFrame)
        await peer.send(CancelFrame(1), RequestNFrame(1, 5), failure(b"late")(1), complete()(1))
        await peer.expect_alive()


async def test_no_answer_is_sent_after_cancel():
    """R-RR-03: CANCEL cancels the handler, and nothing is sent any more."""
    responder = Watched()
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestResponseFrame(1, data=b"never"))
        await peer.expect_nothing()
        await peer.send(CancelFrame(1))
        await peer.expect_nothing()
        assert responder.log == ["cancelled"]


async def test_a_payload_without_complete_is_the_answer():
    """R-RR-04, R-UNX-05: a PAYLOAD that lacks C ends the request all the same."""
    async with frame_peer_server() as (peer, requester):
        assert await answers_to(requester, [item(b"one")], peer) == Payload(b"one")
        await peer.expect_nothing()


async def test_a_requesters_stream_ends_with_the_answer():
    """R-RR-05: later frames on that stream are ignored, and do not end the next request."""
    async with frame_peer_server() as (peer, requester):
        late = [item(b"yes", complete=True), item(b"no"), failure(b"no"), complete()]
        assert await answers_to(requester, late, peer) == Payload(b"yes")
        assert await answers_to(requester, [failure(b"why"), item(b"no")], peer) == "why"
        assert await answers_to(requester, [item(b"next", complete=True)], peer) == Payload(b"next")
        await peer.expect_alive()


async def test_completion_without_a_payload():
    """R-RR-06, R-PAY-01: C alone is no payload; data beside it is dropped."""
    async with frame_peer_server() as (peer, requester):
        assert await answers_to(requester, [complete()], peer) is None
        assert await answers_to(requester, [complete(b"junk")], peer) is None


async def test_an_empty_answer_is_a_value():
    """R-PAY-03: N with no data is a payload of zero bytes, not an absent payload."""
    async with frame_peer_server() as (peer, requester):
        reply = await answers_to(requester, [item(b"", complete=True)], peer)
        assert reply == Payload(b"")


async def test_fire_and_forget_is_never_answered():
    """R-FNF-01, R-FNF-02: no frame comes back, also when the handler fails."""
    async with frame_peer_client(Watched()) as peer:
        await peer.send(RequestFnfFrame(1, data=b"x"))
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 1), CancelFrame(1))
        await peer.expect_alive()

    async with frame_peer_server() as (peer, requester):
        await requester.fire_and_forget(Payload(b"x"))
        await peer.receive(RequestFnfFrame)
        await peer.send(item(b"surprise", complete=True)(1), failure(b"surprise")(1))
        await peer.expect_alive()


async def test_a_stream_is_items_and_an_end():
    """R-STREAM-01, R-STREAM-06: items, then C or ERROR; later frames are ignored."""
    async with frame_peer_server() as (peer, requester):
        two = [item(b"a"), item(b"b")]
        assert await items_of(requester, [*two, complete()], peer) == [b"a", b"b", "complete"]
        assert await items_of(requester, [item(b"a", complete=True)], peer) == [b"a", "complete"]
        assert await items_of(requester, [*two, failure(b"why")], peer) == [b"a", b"b", "why"]
        late = [complete(), item(b"no"), failure(b"no")]
        assert await items_of(requester, late, peer) == ["complete"]
        await peer.expect_alive()


async def test_empty_items_and_data_beside_completion():
    """R-PAY-01, -02, -03: empty items count; data of C alone and a bare PAYLOAD are ignored."""
    async with frame_peer_server() as (peer, requester):
        assert await items_of(requester, [item(b""), complete(b"j")], peer) == [b"", "complete"]
        neither = PayloadFrame
        items = await items_of(requester, [neither, item(b"a", complete=True)], peer)
        assert items[-2:] == [b"a", "complete"]
        await peer.expect_alive()


async def test_no_payload_without_next_or_complete_is_sent():
    """R-PAY-02, R-STREAM-04: each PAYLOAD sent has N or C; the end comes without credit."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 3, data=b"3"))
        frames = [frame for frame in await peer.drain() if isinstance(frame, PayloadFrame)]
        assert [frame.data for frame in frames if frame.next] == [b"0", b"1", b"2"]
        assert frames[-1].complete
        assert all(frame.next or frame.complete for frame in frames)


async def test_an_empty_stream_needs_no_credit_to_end():
    """R-STREAM-04: an empty source completes, and a failing one fails, on a credit of one."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"0"))
        assert await peer.receive() == PayloadFrame(1, complete=True)
        await peer.send(RequestStreamFrame(3, 1, data=b"none"))
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.INVALID


async def test_credit_of_zero_is_neither_sent_nor_accepted():
    """R-STREAM-02, R-REQN-02: initial credit 0 is INVALID, later 0 is ignored; we send none."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 0, data=b"3"))
        assert (await peer.receive(ErrorFrame)).code == ErrorCode.INVALID
        await peer.send(RequestStreamFrame(3, 1, data=b"3"))
        await peer.receive(PayloadFrame)
        await peer.send(RequestNFrame(3, 0))
        await peer.expect_nothing()
        await peer.send(RequestNFrame(3, 1))
        await peer.receive(PayloadFrame)

    async with frame_peer_server() as (peer, requester):
        with pytest.raises(LocalProtocolError):
            requester.request_stream(Payload(), prefetch=0, initial_request_n=0)
        async with requester.request_stream(Payload(), prefetch=0, initial_request_n=2) as stream:
            assert (await peer.receive(RequestStreamFrame)).initial_request_n == 2
            with pytest.raises(LocalProtocolError, match="at least 1"):
                stream.request_n(0)
            await peer.expect_nothing()
            stream.request_n(3)
            assert await peer.receive() == RequestNFrame(1, 3)


async def test_no_more_items_than_credit_are_sent():
    """R-STREAM-03, R-REQN-01: credits of 3 and 2 make 5 items, and no sixth."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 3, data=b"10"))
        assert [frame.data for frame in await peer.drain()] == [b"0", b"1", b"2"]
        await peer.send(RequestNFrame(1, 2))
        assert [frame.data for frame in await peer.drain()] == [b"3", b"4"]
        await peer.expect_alive()


async def test_credits_add_up_before_they_are_used():
    """R-REQN-01: credit that arrives in several frames at once is their sum."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(
            RequestStreamFrame(1, 1, data=b"10"), RequestNFrame(1, 2), RequestNFrame(1, 3)
        )
        assert len(await peer.drain()) == 6


async def test_the_largest_credit_does_not_overflow():
    """R-REQN-03: a credit of 2**31-1, granted three times, overflows nothing."""
    most = 2**31 - 1
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"5"))
        await peer.send(RequestNFrame(1, most), RequestNFrame(1, most), RequestNFrame(1, most))
        frames = await peer.drain()
        assert [frame.data for frame in frames if frame.next] == [b"0", b"1", b"2", b"3", b"4"]
        assert frames[-1].complete


async def test_nothing_is_sent_after_cancel():
    """R-STREAM-05, R-CANCEL-02: CANCEL closes the source, and no frame follows."""
    responder = Watched()
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestStreamFrame(1, 1, data=b"3"))
        await peer.receive(PayloadFrame)
        await peer.send(CancelFrame(1), RequestNFrame(1, 5))
        await peer.expect_nothing()
        assert responder.log == ["closed"]


async def test_leaving_a_stream_sends_cancel_once():
    """R-CANCEL-01, R-CANCEL-02: leaving early sends CANCEL; leaving at the end sends nothing."""
    async with frame_peer_server() as (peer, requester):
        async with requester.request_stream(Payload()):
            await peer.receive(RequestStreamFrame)
        assert await peer.receive() == CancelFrame(1)
        assert peer.received_bytes[-1] == bytes.fromhex("000000012400")
        await peer.send(item(b"late")(1), complete()(1))
        await peer.expect_nothing()

        assert await items_of(requester, [complete()], peer) == ["complete"]
        await peer.expect_nothing()


async def test_a_stream_waits_for_missing_credit(autojump_clock):
    """R-REQN-04, R-UNX-03, R-UNX-04: a stream without credit waits for hours, and goes on."""

    class Patient(Responder):
        async def request_stream(self, payload):
            yield Payload(b"0")
            yield Payload(b"1")

    config = ConnectionConfig(limits=Limits(max_client_lifetime=24 * 3600))
    async with frame_peer_client(Patient(), setup=False, config=config) as peer:
        await peer.setup(keepalive_interval=3600, max_lifetime=24 * 3600)
        await peer.send(RequestStreamFrame(1, 1))
        await peer.receive(PayloadFrame)
        await trio.sleep(12 * 3600)
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 1))
        assert (await peer.receive(PayloadFrame)).data == b"1"


async def test_an_overrun_of_credit_ends_that_stream():
    """R-STREAM-03: a responder that sends more than it may is cancelled; the connection lives."""
    async with frame_peer_server() as (peer, requester):
        items = await items_of_overrun(peer, requester)
        assert items == "RemoteProtocolError"
        await peer.expect_alive()


async def items_of_overrun(peer, requester):
    async with requester.request_stream(Payload(), prefetch=2) as stream:
        request = await peer.receive(RequestStreamFrame)
        assert request.initial_request_n == 2
        await peer.send(*(item(b"%d" % number)(1) for number in range(10)))
        await peer.receive(CancelFrame)
        try:
            async for _ in stream:
                pass
        except RemoteProtocolError as error:
            return type(error).__name__
    return "no error"


class Waiting(Responder):
    """Every handler waits; ``ended`` names those that were cancelled."""

    def __init__(self):
        self.ended = []

    async def _wait(self, name):
        try:
            await trio.sleep_forever()
        finally:
            self.ended.append(name)

    async def request_response(self, payload):
        await self._wait("response")

    async def request_stream(self, payload):
        await self._wait("stream")
        yield payload

    async def request_channel(self, payload, payloads):
        await self._wait("channel")
        yield payload

    async def fire_and_forget(self, payload):
        await self._wait("fnf")

    async def metadata_push(self, metadata):
        await self._wait("push")


async def test_handlers_that_wait_hold_up_no_frame():
    """KEEPALIVE is answered and CANCEL is obeyed while a handler of each kind waits."""
    waiting = Waiting()
    async with frame_peer_client(waiting) as peer:
        await peer.send(
            MetadataPushFrame(b"m"),
            RequestFnfFrame(1),
            RequestResponseFrame(3),
            RequestStreamFrame(5, 1),
            RequestChannelFrame(7, 1),
        )
        assert await peer.receive(RequestNFrame)
        await peer.expect_alive()
        await peer.send(CancelFrame(3), CancelFrame(5), CancelFrame(7))
        await peer.expect_alive()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(waiting.ended) == ["channel", "response", "stream"]
        await peer.expect_nothing()


class Empties(Responder):
    """Sends an empty item, made in each possible way, between two others."""

    async def request_stream(self, payload):
        yield Payload(b"a")
        yield Payload()
        yield StreamedPayload(self._nothing())
        yield Payload(b"", b"")
        yield Payload(b"b")

    async def _nothing(self):
        for _ in range(2):
            yield b""


async def test_empty_items_are_items():
    """R-PAY-01: each empty item leaves as one PAYLOAD with N, and costs one credit."""
    async with frame_peer_client(Empties()) as peer:
        await peer.send(RequestStreamFrame(1, 4))
        expected = [(b"a", None), (b"", None), (b"", None), (b"", b"")]
        for data, metadata in expected:
            assert await peer.receive() == PayloadFrame(1, next=True, metadata=metadata, data=data)
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 1))
        assert await peer.receive() == PayloadFrame(1, next=True, data=b"b")
        assert await peer.receive() == PayloadFrame(1, complete=True)
