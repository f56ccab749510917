"""Stream ids at their end, metadata extensions, and what other stacks get wrong, from the wire."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import Metadata, Router
from rsocket_trio.connection import streams
from rsocket_trio.errors import ErrorCode, LocalProtocolError
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
from rsocket_trio.metadata import MIME, AcceptMimeTypes, CompositeMetadata
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.stream_ids import MAX_STREAM_ID, StreamIds
from rsocket_trio.responder import Responder
from rsocket_trio.streamed import StreamedPayload
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers

DAMAGED = [b"\xff", b"\xfe\0\0\xff1", b"\x7fx", b"\xfe\0\0\x02\x05e"]
"""No composite metadata: no length, content and a name cut off, and a tag within cut off."""


async def ask_all(requester) -> None:
    """Ask in every way; each is refused."""

    async def read(context):
        async with context as items:
            await items.receive()

    for ask, argument in [
        (requester.request_response, Payload()),
        (requester.fire_and_forget, Payload()),
        (read, requester.request_stream(Payload())),
        (read, requester.request_channel([Payload()])),
    ]:
        with trio.fail_after(5), pytest.raises(LocalProtocolError, match="new connection"):
            await ask(argument)


async def test_a_client_that_has_used_up_its_ids(monkeypatch):
    """R-SID-08, R-SID-12: after the last id nothing is sent, and what is open goes on."""
    monkeypatch.setattr(streams, "StreamIds", partial(StreamIds, start=MAX_STREAM_ID))
    async with frame_peer_server() as (peer, requester):
        async with requester.request_stream(Payload()) as items:
            assert (await peer.receive(RequestStreamFrame)).stream_id == MAX_STREAM_ID
            await ask_all(requester)
            await peer.expect_nothing()
            await peer.send(PayloadFrame(MAX_STREAM_ID, next=True, complete=True, data=b"item"))
            assert [item.data async for item in items] == [b"item"]
        await ask_all(requester)
        await peer.expect_alive()


async def test_a_server_that_has_used_up_its_ids(monkeypatch):
    """R-SID-08: the last id of a server is one less, and the client's requests go on."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return KnownAnswers()

    monkeypatch.setattr(streams, "StreamIds", partial(StreamIds, start=MAX_STREAM_ID - 1))
    async with frame_peer_client(acceptor) as peer:
        await requesters[0].fire_and_forget(Payload())
        assert (await peer.receive(RequestFnfFrame)).stream_id == MAX_STREAM_ID - 1
        await ask_all(requesters[0])
        await peer.expect_nothing()
        await peer.send(RequestResponseFrame(1, data=b"x"))
        assert (await peer.receive(PayloadFrame)).data == b"x"


@pytest.mark.parametrize("metadata", DAMAGED)
async def test_damaged_metadata_are_passed_on(metadata):
    """R-FRAME-11, R-COMP-06: who does not look into metadata serves the request."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestResponseFrame(1, metadata=metadata, data=b"x"))
        answer = await peer.receive(PayloadFrame)
        assert (answer.metadata, answer.data) == (metadata, b"x")


@pytest.mark.parametrize("metadata", DAMAGED)
async def test_damaged_metadata_are_an_error_of_their_request(metadata):
    """R-FRAME-11, R-COMP-06: a router answers INVALID, and the connection lives."""
    async with frame_peer_client(Router()) as peer:
        await peer.send(RequestResponseFrame(1, metadata=metadata))
        error = await peer.receive(ErrorFrame)
        assert (error.stream_id, error.code) == (1, ErrorCode.INVALID)
        await peer.expect_alive()


async def test_entries_in_the_order_of_their_writing():
    """R-COMP-01, -02, -03: only the frame that opens a channel has them, all, and in order."""
    entries = [("x/a", b"1"), ("x/b", b"2"), ("x/a", b"3")]
    async with frame_peer_server() as (peer, requester):
        async with requester.request_channel(
            [Payload(b"1"), Payload(b"2")], route="r", metadata=Metadata(extra=entries)
        ):
            request = await peer.receive(RequestChannelFrame)
            await peer.send(RequestNFrame(1, 5))
            item = await peer.receive(PayloadFrame)
    sent = [
        (entry.mime_type, entry.content) for entry in CompositeMetadata.decode(request.metadata)
    ]
    assert sent == [(MIME.ROUTING, b"\x01r"), *entries]
    assert item.metadata is None


async def test_unknown_entries_hide_nothing():
    """R-COMP-04: behind an unassigned id and a name nobody knows the route is found."""
    router = Router()

    @router.request_response("r")
    async def handler(data: bytes) -> bytes:
        return data

    unknown = b"\xd0\0\0\x01?" + b"\x02x/y\0\0\x01?"
    async with frame_peer_client(router) as peer:
        await peer.send(RequestResponseFrame(1, metadata=unknown + b"\xfe\0\0\x02\x01r", data=b"x"))
        assert (await peer.receive(PayloadFrame)).data == b"x"


async def test_accepted_types_of_a_responder():
    """R-MIME-03: a requester does nothing about them; what it sends next is as before."""
    wishes = AcceptMimeTypes([MIME.JSON]).encode()
    metadata = Metadata(extra=[(MIME.ACCEPT_MIME_TYPES, wishes)]).encode()
    answers = []
    async with frame_peer_server(Responder()) as (peer, requester):

        async def ask():
            answers.append(await requester.request_response(Payload(b"?"), route="r"))

        sent = []
        for stream_id in (1, 3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                sent.append(await peer.receive(RequestResponseFrame))
                await peer.send(
                    PayloadFrame(stream_id, next=True, complete=True, metadata=metadata)
                )
    assert answers == [Payload(b"", metadata)] * 2
    assert sent[0].metadata == sent[1].metadata


class Waiting(Responder):
    """Every handler waits; ``ended`` says which have been cancelled."""

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


async def test_handlers_that_wait_hold_up_nothing():
    """KEEPALIVE is answered, and CANCEL heard, behind a handler of each kind that waits."""
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
    """An item without anything in it, made in each way there is, between two others."""

    async def request_stream(self, payload):
        yield Payload(b"a")
        yield Payload()
        yield StreamedPayload(self._nothing())
        yield Payload(b"", b"")
        yield Payload(b"b")

    async def _nothing(self):
        for _ in range(2):
            yield b""


async def test_items_of_nothing_are_items():
    """R-PAY-01: each leaves as one PAYLOAD with N, and costs one credit."""
    async with frame_peer_client(Empties()) as peer:
        await peer.send(RequestStreamFrame(1, 4))
        expected = [(b"a", None), (b"", None), (b"", None), (b"", b"")]
        for data, metadata in expected:
            assert await peer.receive() == PayloadFrame(1, next=True, metadata=metadata, data=data)
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 1))
        assert await peer.receive() == PayloadFrame(1, next=True, data=b"b")
        assert await peer.receive() == PayloadFrame(1, complete=True)
