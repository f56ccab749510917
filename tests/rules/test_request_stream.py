"""REQUEST_STREAM and its items, checked from the wire."""

from __future__ import annotations

import trio
import trio.testing

from rsocket_trio.errors import ApplicationError, ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestNFrame,
    RequestStreamFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.streamed import StreamedPayload
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.interaction_scripts import Watched, complete, failure, item


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
