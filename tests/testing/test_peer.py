from __future__ import annotations

import pytest
import trio

from rsocket_trio.errors import ApplicationError, Invalid
from rsocket_trio.payload import Payload
from rsocket_trio.testing.peer import KnownAnswers, app


@pytest.fixture
def peer():
    return KnownAnswers()


async def items(stream):
    return [payload.data async for payload in stream]


@pytest.mark.parametrize("metadata", [None, b"", b"about"])
async def test_a_request_is_echoed_with_its_metadata(peer, metadata):
    """Absent, empty and non-empty metadata come back unchanged."""
    payload = Payload(b"hello", metadata)

    assert await peer.request_response(payload) == payload


async def test_errors_on_demand(peer):
    """The text after ``error:`` is the text of an APPLICATION_ERROR."""
    with pytest.raises(ApplicationError) as caught:
        await peer.request_response(Payload(b"error:no luck"))
    assert caught.value.data == b"no luck"


async def test_completion_without_a_payload_on_demand(peer):
    """``empty`` is answered without a payload, which is not an empty payload."""
    assert await peer.request_response(Payload(b"empty")) is None


async def test_a_request_without_an_answer(peer, autojump_clock):
    """``never`` is not answered."""
    with trio.move_on_after(10_000) as scope:
        await peer.request_response(Payload(b"never"))
    assert scope.cancelled_caught


async def test_the_last_message_is_remembered(peer):
    """The last message without an answer can be requested; before any it is empty."""
    assert await peer.request_response(Payload(b"last-fnf")) == Payload(b"")
    assert await peer.request_response(Payload(b"last-push")) == Payload(b"")

    await peer.fire_and_forget(Payload(b"one", b"ignored"))
    await peer.metadata_push(b"two")

    assert await peer.request_response(Payload(b"last-fnf")) == Payload(b"one")
    assert await peer.request_response(Payload(b"last-push")) == Payload(b"two")


async def test_a_stream_counts(peer):
    """N gives N items, and none for 0."""
    assert await items(peer.request_stream(Payload(b"3"))) == [b"0", b"1", b"2"]
    assert await items(peer.request_stream(Payload(b"0"))) == []


@pytest.mark.parametrize("data", [b"", b"-1", b"+1", b" 1", b"1_0", b"many", b"9" * 5000, b"\xb2"])
def test_a_stream_without_a_number_is_invalid(peer, data):
    """Only plain decimal digits are a number of items."""
    with pytest.raises(Invalid):
        peer.request_stream(Payload(data))


async def test_a_channel_echoes_until_the_requester_completes(peer):
    """Every payload comes back, and the answer ends with the request."""
    send, receive = trio.open_memory_channel[Payload](3)
    sent = [Payload(b"a"), Payload(b"b", b""), Payload(b"", b"m")]
    with send:
        for payload in sent:
            send.send_nowait(payload)
    with receive:
        answers = peer.request_channel(sent[0], receive)
        assert [payload async for payload in answers] == sent


def test_the_module_has_an_instance():
    """The command line serves an instance, not a class."""
    assert isinstance(app, KnownAnswers)
