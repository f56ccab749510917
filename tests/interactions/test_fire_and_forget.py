"""fire_and_forget and metadata_push between two real ends, in both directions."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    ConnectionConfig,
    Limits,
    LocalProtocolError,
    Payload,
    Responder,
)
from rsocket_trio.frames import CancelFrame, RequestFnfFrame
from rsocket_trio.testing.in_memory import frame_peer_server


class Inbox(Responder):
    """Notes its messages."""

    def __init__(self, failure=None):
        self.payloads = []
        self.metadata = []
        self.failure = failure

    async def fire_and_forget(self, payload):
        self.payloads.append(payload)
        if self.failure is not None:
            raise self.failure

    async def metadata_push(self, metadata):
        self.metadata.append(metadata)
        if self.failure is not None:
            raise self.failure

    async def request_response(self, payload):
        return payload


async def deliver(here):
    """Wait until every message sent so far has been handled."""
    await here.requester.request_response()
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("config", [ConnectionConfig(), ConnectionConfig(fragment_size=64)])
@pytest.mark.parametrize(
    "payload", [Payload(), Payload(b"d", b""), Payload(b"d" * 300, b"m" * 300)]
)
async def test_messages_arrive(link, config, payload):
    """Data and metadata arrive as they were sent, whole and in fragments; no stream is left."""
    inbox = Inbox()
    async with link(inbox, config) as here:
        await here.requester.fire_and_forget(payload)
        await deliver(here)
        assert inbox.payloads == [payload]
        here.assert_idle()


async def test_many_messages_arrive_in_order(link):
    """Thousands of messages through a small outbox, each once, in order."""
    inbox = Inbox()
    async with link(inbox, ConnectionConfig(limits=Limits(max_outbox_size=100))) as here:
        for number in range(2000):
            await here.requester.fire_and_forget(Payload(b"%d" % number))
        await deliver(here)
        assert [int(payload.data) for payload in inbox.payloads] == list(range(2000))
        here.assert_idle()


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("secret"),
        ApplicationError("it is only logged"),
        ExceptionGroup("of a nursery", [ApplicationError("it is only logged")]),
    ],
)
async def test_a_failing_handler_is_logged_only(link, failure, caplog):
    """An error of a handler goes to the log, never to the peer, and the connection lives."""
    caplog.set_level(logging.INFO)
    async with link(Inbox(failure)) as here:
        await here.requester.fire_and_forget(Payload(b"x"))
        await here.requester.metadata_push(b"x")
        await deliver(here)
        here.assert_idle()
    expected = not isinstance(failure, ValueError)
    outcome = "refused" if expected else "failed"
    assert f"a fire_and_forget handler {outcome}" in caplog.text
    assert f"a metadata_push handler {outcome}" in caplog.text
    # An event that a peer can cause at will is not logged as a warning.
    assert expected is not any(record.levelno >= logging.WARNING for record in caplog.records)


@pytest.mark.parametrize("metadata", [b"", b"m", b"m" * 10000])
async def test_metadata_arrives(link, metadata):
    """metadata_push delivers its metadata, without a stream."""
    inbox = Inbox()
    async with link(inbox) as here:
        await here.requester.metadata_push(metadata)
        await deliver(here)
        assert inbox.metadata == [metadata]
        here.assert_idle()


async def test_metadata_too_large_for_a_frame(link):
    """metadata_push is never fragmented: metadata that does not fit is refused before sending."""
    inbox = Inbox()
    async with link(inbox, ConnectionConfig(limits=Limits(max_frame_size=100))) as here:
        await here.requester.metadata_push(b"m" * 94)
        with pytest.raises(LocalProtocolError, match="at most 94 bytes"):
            await here.requester.metadata_push(b"m" * 95)
        await deliver(here)
        assert [len(metadata) for metadata in inbox.metadata] == [94]


async def test_senders_let_other_tasks_run(link):
    """A loop of fire_and_forget cannot keep other tasks from running."""
    turns = []

    async def other():
        while True:
            turns.append(1)
            await trio.lowlevel.checkpoint()

    async with link(Inbox()) as here, trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(640):
            await here.requester.fire_and_forget(Payload(b"x"))
        assert len(turns) >= 9
        nursery.cancel_scope.cancel()


async def test_a_message_cancelled_between_two_fragments():
    """A message that has left in part is cancelled on the wire."""
    config = ConnectionConfig(fragment_size=64, limits=Limits(max_outbox_size=64))
    async with frame_peer_server(config=config) as (peer, requester):
        scope = trio.CancelScope()

        async def send():
            with scope:
                await requester.fire_and_forget(Payload(b"x" * 10**6))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            assert requester.statistics().open_streams == 1
            scope.cancel()
        assert requester.statistics().open_streams == 0
        assert (await peer.receive(RequestFnfFrame)).follows
        while not isinstance(frame := await peer.receive(), CancelFrame):
            assert frame.follows
        await peer.expect_nothing()


async def test_a_message_cancelled_before_its_first_frame(link):
    """A cancelled message is not sent."""
    inbox = Inbox()
    async with link(inbox) as here:
        with trio.CancelScope() as scope:
            scope.cancel()
            await here.requester.fire_and_forget(Payload(b"x"))
        with trio.CancelScope() as scope:
            scope.cancel()
            await here.requester.metadata_push(b"x")
        await deliver(here)
        assert (inbox.payloads, inbox.metadata) == ([], [])
        here.assert_idle()


async def test_messages_past_the_limits_are_dropped(link, caplog):
    """Messages beyond max_active_requests are dropped and logged: no sender waits for an answer."""
    started = []

    class Stuck(Inbox):
        async def fire_and_forget(self, payload):
            started.append(payload)
            await trio.sleep_forever()

        async def metadata_push(self, metadata):
            started.append(metadata)

    async with link(Stuck(), ConnectionConfig(limits=Limits(max_active_requests=2))) as here:
        for _ in range(3):
            await here.requester.fire_and_forget(Payload(b"x" * 3))
        await here.requester.metadata_push(b"m")
        await trio.testing.wait_all_tasks_blocked()
        assert len(started) == 2
        assert here.peer.statistics().active_requests == 2
    assert "fire_and_forget dropped" in caplog.text
    assert "metadata_push dropped" in caplog.text
