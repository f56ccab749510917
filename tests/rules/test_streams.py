"""Stream ids, and the ends of streams, checked from the wire.

Modules of rsocket_trio.connection: stream_table.
"""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.connection import stream_table
from rsocket_trio.errors import ConnectionClosed, ErrorCode, Rejected, StreamIdsExhausted
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
from rsocket_trio.protocol.stream_ids import StreamIds
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers

LAST_ID = 2**31 - 1


async def open_one_of_each(requester) -> None:
    """Send five requests: every interaction that has a stream, and one of them again."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(requester.request_response, Payload(b"1"))
        await trio.testing.wait_all_tasks_blocked()
        await requester.fire_and_forget(Payload(b"2"))
        async with requester.request_stream(Payload(b"3")):
            async with requester.request_channel([Payload(b"4")]):
                await requester.fire_and_forget(Payload(b"5"))
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


REQUESTS = (RequestResponseFrame, RequestFnfFrame, RequestStreamFrame, RequestChannelFrame)


async def test_the_ids_of_a_client_are_odd_and_rise():
    """R-SID-02, R-SID-03, R-SID-04, R-SID-06: 1, 3, 5, ..., fire_and_forget included."""
    async with frame_peer_server() as (peer, requester):
        await open_one_of_each(requester)
        sent = [frame for frame in await peer.drain() if isinstance(frame, REQUESTS)]
    assert [frame.stream_id for frame in sent] == [1, 3, 5, 7, 9]


async def test_the_ids_of_a_server_are_even_and_rise():
    """R-SID-02, R-SID-03, R-SID-05, R-SID-06: 2, 4, 6, ..."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return Responder()

    async with frame_peer_client(acceptor) as peer:
        await open_one_of_each(requesters[0])
        sent = [frame for frame in await peer.drain() if isinstance(frame, REQUESTS)]
    assert [frame.stream_id for frame in sent] == [2, 4, 6, 8, 10]


async def test_ids_of_finished_streams_are_not_taken_again():
    """R-SID-06: a stream that was answered leaves its id used up."""
    async with frame_peer_server() as (peer, requester):
        for expected in (1, 3, 5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(requester.request_response, Payload())
                assert (await peer.receive(RequestResponseFrame)).stream_id == expected
                await peer.send(PayloadFrame(expected, next=True, complete=True))


async def test_requests_on_stream_zero_are_ignored():
    """R-SID-01: stream 0 belongs to the connection, and no request is served on it."""
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestResponseFrame(0, data=b"x"), RequestFnfFrame(0, data=b"x"))
        await peer.send(RequestStreamFrame(0, 1, data=b"1"), RequestChannelFrame(0, 1))
        await peer.expect_alive()
    assert responder.last_fire_and_forget == b""


async def test_requests_with_the_wrong_parity_are_ignored():
    """R-SID-03: a client has no even ids and a server no odd ones."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestResponseFrame(2, data=b"x"))
        await peer.expect_alive()
    async with frame_peer_server(KnownAnswers()) as (peer, _):
        await peer.send(RequestResponseFrame(1, data=b"x"))
        await peer.expect_alive()


async def test_a_responder_serves_ids_that_were_used_before():
    """R-SID-07: ids begin again after the last one, so any finished id is served."""
    async with frame_peer_client(KnownAnswers()) as peer:
        for stream_id in (1, 5, LAST_ID, 1, 3, 5, LAST_ID):
            await peer.send(RequestResponseFrame(stream_id, data=b"again"))
            assert (await peer.receive(PayloadFrame)).stream_id == stream_id


async def test_a_rejected_id_is_not_tried_again():
    """R-SID-10: REJECTED is the caller's error, and the next request has the next id."""
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def ask():
                with pytest.raises(Rejected, match="in use"):
                    await requester.request_response(Payload())

            nursery.start_soon(ask)
            await peer.receive(RequestResponseFrame)
            await peer.send(ErrorFrame(1, ErrorCode.REJECTED, b"in use"))
        await requester.fire_and_forget(Payload())
        assert (await peer.receive(RequestFnfFrame)).stream_id == 3


async def test_streams_fail_when_the_connection_is_lost():
    """R-SID-13: when the connection is lost, every stream of the requester ends with an error."""
    outcomes = []

    async def note(name, ask, *args):
        try:
            await ask(*args)
        except ConnectionClosed:
            outcomes.append(name)

    async def read(context):
        async with context as stream:
            await stream.receive()

    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(note, "response", requester.request_response, Payload())
            nursery.start_soon(note, "stream", read, requester.request_stream(Payload()))
            nursery.start_soon(note, "channel", read, requester.request_channel([Payload()]))
            await trio.testing.wait_all_tasks_blocked()
            await peer.aclose()
        with pytest.raises(ConnectionClosed):
            await requester.fire_and_forget(Payload())
    assert sorted(outcomes) == ["channel", "response", "stream"]


async def test_a_channel_ends_with_the_connection_before_it_is_opened():
    """The reader of the replies gets the loss even if the source has sent no item yet."""
    closed = []

    async def silent():
        try:
            await trio.sleep_forever()
        finally:
            closed.append(True)
        yield Payload()

    async with frame_peer_server() as (peer, requester):
        async with requester.request_channel(silent()) as replies:
            await trio.testing.wait_all_tasks_blocked()
            await peer.aclose()
            with pytest.raises(ConnectionClosed):
                await replies.receive()
        assert closed
        async with requester.request_channel(silent()) as replies:
            with pytest.raises(ConnectionClosed):
                await replies.receive()


async def test_handlers_are_cancelled_when_the_connection_is_lost():
    """R-SID-13: when the connection is lost, the handlers of its requests are cancelled."""
    cancelled = []

    class Waiting(Responder):
        async def request_response(self, payload):
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                cancelled.append(payload.data)
                raise

    async with frame_peer_client(Waiting()) as peer:
        await peer.send(RequestResponseFrame(1, data=b"a"), RequestResponseFrame(3, data=b"b"))
        await peer.expect_nothing()  # when all wait, both handlers have begun
    assert sorted(cancelled) == [b"a", b"b"]


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


async def test_cancel_ends_a_request_and_frees_its_id():
    """R-CANCEL-01, R-CANCEL-02, R-SID-07: a cancelled request frees its id at the responder."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestResponseFrame(1, data=b"never"))
        await peer.expect_alive()
        await peer.send(CancelFrame(1), RequestResponseFrame(1, data=b"again"))
        assert (await peer.receive(PayloadFrame)).data == b"again"


async def refused_in_every_way(requester) -> None:
    """Send a request of each kind; each is refused."""

    async def read(context):
        async with context as items:
            await items.receive()

    for ask, argument in [
        (requester.request_response, Payload()),
        (requester.fire_and_forget, Payload()),
        (read, requester.request_stream(Payload())),
        (read, requester.request_channel([Payload()])),
    ]:
        with trio.fail_after(30), pytest.raises(StreamIdsExhausted, match="new connection"):
            await ask(argument)
    with trio.CancelScope() as scope:
        scope.cancel(reason="a cancelled caller sees the cancellation instead")
        await requester.request_response(Payload())
    assert scope.cancelled_caught


async def test_a_client_that_has_used_up_its_ids_sends_no_request(monkeypatch):
    """R-SID-08, R-SID-12: after the last id no request leaves, and open streams go on."""
    monkeypatch.setattr(stream_table, "StreamIds", partial(StreamIds, start=LAST_ID))
    async with frame_peer_server() as (peer, requester):
        async with requester.request_stream(Payload()) as items:
            assert (await peer.receive(RequestStreamFrame)).stream_id == LAST_ID
            await refused_in_every_way(requester)
            await peer.expect_nothing()
            await peer.send(PayloadFrame(LAST_ID, next=True, complete=True, data=b"item"))
            assert [item.data async for item in items] == [b"item"]
        await refused_in_every_way(requester)
        await peer.expect_alive()


async def test_a_server_that_has_used_up_its_ids_sends_no_request(monkeypatch):
    """R-SID-08: the last id of a server is one less, and the client's requests go on."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return KnownAnswers()

    monkeypatch.setattr(stream_table, "StreamIds", partial(StreamIds, start=LAST_ID - 1))
    async with frame_peer_client(acceptor) as peer:
        await requesters[0].fire_and_forget(Payload())
        assert (await peer.receive(RequestFnfFrame)).stream_id == LAST_ID - 1
        await refused_in_every_way(requesters[0])
        await peer.expect_nothing()
        await peer.send(RequestResponseFrame(1, data=b"x"))
        assert (await peer.receive(PayloadFrame)).data == b"x"
