"""Responses that are read while they arrive."""

import pytest
import trio

from rsocket_trio import (
    ConnectionClosed,
    ConnectionConfig,
    Limits,
    Payload,
    PayloadBody,
    Rejected,
    RemoteProtocolError,
    Responder,
    StreamedPayload,
)
from rsocket_trio.frames import CancelFrame, ErrorFrame, PayloadFrame, RequestResponseFrame
from rsocket_trio.interactions.payload_body import BodyInbox
from rsocket_trio.protocol.memory import ConnectionMemory
from rsocket_trio.sealed import make
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_server

COST = 64


class Answer(Responder):
    """Answers request_response with one object."""

    def __init__(self, response):
        self.response = response

    async def request_response(self, payload):
        if isinstance(self.response, Exception):
            raise self.response
        return self.response


def fragment(data, **fields):
    return PayloadFrame(1, next=True, data=data, **({"follows": True} | fields))


def last(data=b"", **fields):
    return PayloadFrame(1, next=True, complete=True, data=data, **fields)


@pytest.mark.parametrize("size", [0, 10, 1000, 10_000])
@pytest.mark.parametrize("metadata", [None, b"", b"m" * 500])
async def test_the_chunks_make_the_data(size, metadata):
    """No chunk is empty, and the metadata are there from the start."""
    config = ConnectionConfig(fragment_size=256)
    response = Payload(bytes(range(256)) * 40, metadata)
    response = Payload(response.data[:size], metadata)
    async with connected_pair(Answer(response), config=config) as requester:
        async with requester.request_response_streamed(route="x") as body:
            assert body.metadata == metadata
            chunks = [chunk async for chunk in body]
            assert b"".join(chunks) == response.data
            assert all(chunks)
            with pytest.raises(trio.EndOfChannel):
                await body.receive()
        statistics = requester.statistics()
        assert (statistics.unread_size, statistics.open_streams) == (0, 0)


async def test_a_response_without_a_payload():
    """A request completed without a payload has None, not an empty payload."""
    async with connected_pair(Answer(None)) as requester:
        async with requester.request_response_streamed() as body:
            assert body is None
        statistics = requester.statistics()
        assert (statistics.unread_size, statistics.open_streams) == (0, 0)


async def test_an_error_instead_of_a_response():
    """It is raised on entering."""
    async with connected_pair(Answer(Rejected("no"))) as requester:
        with pytest.raises(Rejected, match="no"):
            async with requester.request_response_streamed():
                raise AssertionError("entered")


async def test_chunks_come_as_they_arrive():
    """The first chunk is there while others are still to come; an error comes behind them."""
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(PayloadFrame(1))  # This frame is ignored.
                await peer.send(fragment(b"", metadata=b"me"), fragment(b"a", metadata=b"ta"))

            nursery.start_soon(serve)
            async with requester.request_response_streamed() as body:
                assert body.metadata == b"meta"
                assert await body.receive() == b"a"
                await peer.send(fragment(b""), fragment(b"b"), ErrorFrame(1, 0x202, b"tired"))
                assert await body.receive() == b"b"
                with pytest.raises(Rejected, match="tired"):
                    await body.receive()


async def test_leaving_early_cancels_the_request():
    """CANCEL is sent, unread bytes are given back, and late fragments are ignored."""
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(fragment(b"a"), fragment(b"b"))

            nursery.start_soon(serve)
            async with requester.request_response_streamed() as body:
                assert await body.receive() == b"a"
            assert await peer.receive(CancelFrame) == CancelFrame(1)
            assert requester.statistics().unread_size == 0
            with pytest.raises(trio.ClosedResourceError):
                await body.receive()
            await peer.send(fragment(b"c"), last(b"d"))
            await peer.expect_alive()


async def test_cancelled_before_the_response_begins():
    """CANCEL is sent; the connection stays usable."""
    async with frame_peer_server() as (peer, requester):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def serve():
                    await peer.receive(RequestResponseFrame)
                    scope.cancel()

                nursery.start_soon(serve)
                async with requester.request_response_streamed():
                    raise AssertionError("entered")
        assert await peer.receive(CancelFrame) == CancelFrame(1)


async def test_a_response_past_the_unread_limit():
    """The stream ends with CANCEL; arrived chunks are delivered, then the error."""
    limits = Limits(max_unread_body_size=2 * (100 + COST))
    async with frame_peer_server(config=ConnectionConfig(limits=limits)) as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(*[fragment(b"x" * 100) for _ in range(3)])
                await peer.send(last(b"late"))

            nursery.start_soon(serve)
            async with requester.request_response_streamed() as body:
                assert await peer.receive(CancelFrame) == CancelFrame(1)
                assert [await body.receive() for _ in range(2)] == [b"x" * 100] * 2
                with pytest.raises(RemoteProtocolError, match="max_unread_body_size"):
                    await body.receive()
            assert requester.statistics().unread_size == 0


@pytest.mark.parametrize("tiny", [b"x", b""])
async def test_tiny_fragments_count(tiny):
    """Floods of one-byte fragments, of data or of metadata, are bounded too."""
    limits = Limits(max_unread_body_size=100 * COST)
    async with frame_peer_server(config=ConnectionConfig(limits=limits)) as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                metadata = None if tiny else b"m"
                await peer.send(*[fragment(tiny, metadata=metadata) for _ in range(100)])
                assert await peer.receive(CancelFrame) == CancelFrame(1)

            nursery.start_soon(serve)
            with pytest.raises(RemoteProtocolError, match="max_unread_body_size"):
                async with requester.request_response_streamed() as body:
                    await trio.testing.wait_all_tasks_blocked()
                    async for _ in body:
                        pass


async def test_the_limit_of_the_connection_holds_for_bodies():
    """All unread bodies of a connection count together."""
    limits = Limits(max_unread_size=100)
    async with frame_peer_server(config=ConnectionConfig(limits=limits)) as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(fragment(b"x" * 200))

            nursery.start_soon(serve)
            with pytest.raises(RemoteProtocolError):
                async with requester.request_response_streamed():
                    raise AssertionError("entered")
            assert requester.statistics().unread_size == 0


async def test_the_connection_ends_while_a_body_is_read():
    """A waiting reader gets the error; there is one reader at a time."""
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(fragment(b"a"))
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(trio.BusyResourceError):
                    await body.receive()
                await peer.send(ErrorFrame(0, 0x101, b"over"))

            nursery.start_soon(serve)
            async with requester.request_response_streamed() as body:
                await body.receive()
                with pytest.raises(ConnectionClosed):
                    await body.receive()


async def test_a_body_closed_by_hand():
    """aclose drops the unread chunks; leaving the block afterwards cancels the request."""
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(fragment(b"a"))

            nursery.start_soon(serve)
            async with requester.request_response_streamed() as body:
                await body.aclose()
                await peer.send(fragment(b"b"))
                await peer.expect_alive()
                assert requester.statistics().unread_size == 0
                with pytest.raises(trio.ClosedResourceError):
                    await body.receive()
            assert await peer.receive(CancelFrame) == CancelFrame(1)


async def test_a_cancelled_reader_loses_nothing():
    """Chunks that arrive afterwards can still be read."""
    async with frame_peer_server() as (peer, requester):
        async with trio.open_nursery() as nursery:

            async def serve():
                await peer.receive(RequestResponseFrame)
                await peer.send(fragment(b"a"))

            nursery.start_soon(serve)
            async with requester.request_response_streamed() as body:
                await body.receive()
                with trio.CancelScope() as scope:
                    nursery.start_soon(trio.testing.wait_all_tasks_blocked)
                    nursery.start_soon(_cancel_later, scope)
                    await body.receive()
                assert scope.cancelled_caught
                await peer.send(last(b"b"))
                assert [chunk async for chunk in body] == [b"b"]


async def _cancel_later(scope):
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


async def test_a_request_in_chunks_answered_in_chunks():
    """A request in chunks may be answered in chunks."""

    async def chunks():
        for _ in range(10):
            yield b"x" * 1000

    async with connected_pair(Answer(StreamedPayload(chunks(), b"m"))) as requester:
        request = StreamedPayload(chunks())
        async with requester.request_response_streamed(request) as body:
            assert body.metadata == b"m"
            assert b"".join([chunk async for chunk in body]) == b"x" * 10_000


async def test_large_metadata_are_joined_once(counted_bytes):
    """A new fragment of metadata does not copy those before it."""
    inbox = BodyInbox(ConnectionMemory(Limits(max_unread_size=10**9)))
    body = make(PayloadBody, inbox)
    for _ in range(1000):
        inbox.deliver(counted_bytes(b"m" * 100), b"")
    assert counted_bytes.copied == 0
    assert body.metadata == b"m" * 100_000
    inbox.deliver(counted_bytes(b"last"), b"data")
    inbox.deliver(counted_bytes(b"behind data they mean nothing"), b"data")
    assert body.metadata == b"m" * 100_000 + b"last"
    assert type(body.metadata) is bytes
    assert body.metadata is body.metadata
    assert counted_bytes.copied == 0


@pytest.mark.parametrize("fragments", [[], [b""], [b"a"], [b"", b""], [b"a", b"", b"bc"]])
async def test_metadata_can_be_read_while_they_arrive(fragments):
    inbox = BodyInbox(ConnectionMemory(Limits()))
    body = make(PayloadBody, inbox)
    seen = None
    for fragment in fragments:
        inbox.deliver(fragment, b"")
        seen = (seen or b"") + fragment
        assert body.metadata == seen
    inbox.end()
    assert body.metadata == seen
