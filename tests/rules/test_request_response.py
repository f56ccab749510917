"""REQUEST_RESPONSE and REQUEST_FNF, and the PAYLOAD that answers, checked from the wire."""

from __future__ import annotations

import trio
import trio.testing

from rsocket_trio.errors import ApplicationError, ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.interaction_scripts import Watched, complete, failure, item


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
