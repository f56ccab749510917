"""The rules of metadata extensions, checked from the wire."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import Metadata, Router
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestNFrame,
    RequestResponseFrame,
)
from rsocket_trio.metadata import MIME, AcceptMimeTypes, CompositeMetadata
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers

DAMAGED = [b"\xff", b"\xfe\0\0\xff1", b"\x7fx", b"\xfe\0\0\x02\x05e"]
"""Damaged composite metadata: cut before the length, in the content, in a name, in a tag."""


@pytest.mark.parametrize("metadata", DAMAGED)
async def test_damaged_metadata_are_passed_on(metadata):
    """R-FRAME-11, R-COMP-06: a responder that does not read metadata serves the request."""
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


async def test_composite_entries_keep_their_order():
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


async def test_unknown_entries_do_not_hide_the_route():
    """R-COMP-04: the route is found behind an unassigned id and an unknown name."""
    router = Router()

    @router.request_response("r")
    async def handler(data: bytes) -> bytes:
        return data

    unknown = b"\xd0\0\0\x01?" + b"\x02x/y\0\0\x01?"
    async with frame_peer_client(router) as peer:
        await peer.send(RequestResponseFrame(1, metadata=unknown + b"\xfe\0\0\x02\x01r", data=b"x"))
        assert (await peer.receive(PayloadFrame)).data == b"x"


async def test_accepted_types_of_a_responder_change_nothing():
    """R-MIME-03: a requester ignores them; its later frames are the same as before."""
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
