"""The rules of the draft on requests, streams and fragments, with raw frames."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    Payload,
    Responder,
)
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
)


async def test_a_response_without_complete_ends_the_request(draft_server):
    """V0-RR-01, V0-RR-04: the request is answered, and its stream is over."""

    async def use(requester):
        assert await requester.request_response(Payload(b"x", b"m")) == Payload(b"pong")
        assert requester.statistics().open_streams == 0

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestResponseFrame(2, b"m", b"x")
        await peer.send(ResponseFrame(2, data=b"pong"), ResponseFrame(2, data=b"again"))


async def test_an_empty_response_is_an_empty_item(draft_server):
    """D.3 no. 7: C without data answers a REQUEST_RESPONSE with an empty payload."""

    async def use(requester):
        assert await requester.request_response() == Payload()

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ResponseFrame(2, complete=True))


async def test_no_response_after_cancel(draft_client):
    """V0-RR-02: a cancelled request is not answered."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(2, data=b"never"))
        await trio.testing.wait_all_tasks_blocked()
        await peer.send(CancelFrame(2, b"why"))
        await peer.expect_alive()


async def test_cancelling_our_request(draft_server):
    """V0-RR-01: a caller that gives up sends CANCEL; a late answer is ignored."""

    async def use(requester):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(requester.request_response, Payload(b"x"))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert (await requester.request_response(Payload(b"y"))).data == b"z"

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestResponseFrame(2, data=b"x")
        assert await peer.receive() == CancelFrame(2)
        await peer.send(ResponseFrame(2, complete=True, data=b"late"))
        assert await peer.receive() == RequestResponseFrame(4, data=b"y")
        await peer.send(ResponseFrame(4, complete=True, data=b"z"))


async def test_fire_and_forget(draft_client):
    """V0-FNF-01: one frame, no answer, and its id is free at once."""
    async with draft_client() as peer:
        await peer.send(RequestFnfFrame(2, data=b"a"), RequestFnfFrame(2, b"m", b"b"))
        await peer.send(RequestResponseFrame(2, data=b"last-fnf"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"b")


async def test_a_stream(draft_client):
    """V0-STREAM-01, V0-FLOW-01: items within the credit, then RESPONSE with C."""
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 1, data=b"3"))
        assert await peer.drain() == [ResponseFrame(2, data=b"0")]
        await peer.send(RequestNFrame(2, 2**32 - 1))
        assert await peer.drain() == [
            ResponseFrame(2, data=b"1"),
            ResponseFrame(2, data=b"2"),
            ResponseFrame(2, complete=True),
        ]


@pytest.mark.parametrize("items", [0, 1, 3])
async def test_a_stream_without_initial_credit(draft_client, items):
    """An initial n of 0 is legal: the first item waits for REQUEST_N, but the end does not."""
    data = [ResponseFrame(2, data=b"%d" % n) for n in range(items)]
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 0, data=b"%d" % items))
        done = [ResponseFrame(2, complete=True)]
        assert await peer.drain() == ([] if items else done)
        await peer.send(RequestNFrame(2, 0))
        await peer.expect_alive()
        await peer.send(RequestNFrame(2, 1))
        assert await peer.drain() == data[:1] + (done if items == 1 else [])
        await peer.send(RequestNFrame(2, 9))
        assert await peer.drain() == (data[1:] + done if items > 1 else [])
        await peer.expect_alive()


async def test_the_credit_of_our_stream(draft_server):
    """V0-STREAM-01, D.3 no. 6: N and the field are set; REQUEST_N follows consumption."""

    async def use(requester):
        async with requester.request_stream(Payload(b"x"), prefetch=4) as stream:
            assert [item.data async for item in stream] == [b"0", b"1", b"2", b"3"]

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestStreamFrame(2, 4, data=b"x", n_flag=True)
        for n in range(3):
            await peer.send(ResponseFrame(2, data=b"%d" % n))
            assert await peer.receive() == RequestNFrame(2, 1)
        await peer.send(ResponseFrame(2, complete=True, data=b"3"))


async def test_errors_of_a_stream(draft_client):
    """V0-ERR-01: ERROR ends the stream, with code and text."""
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 1, data=b"x"))
        frame = await peer.receive(ErrorFrame)
        assert (frame.stream_id, frame.code, frame.metadata) == (2, 0x204, None)


class Ticks(Responder):
    """Two items, and the end."""

    async def request_stream(self, payload):
        yield Payload(b"a")
        yield Payload(b"b")


async def test_a_subscription_never_completes(draft_client):
    """V0-SUB-01: RESPONSEs have no C; if the handler ends, an ERROR follows."""
    async with draft_client(Ticks()) as peer:
        await peer.send(RequestSubFrame(2, 9, data=b"x"))
        assert await peer.drain() == [
            ResponseFrame(2, data=b"a"),
            ResponseFrame(2, data=b"b"),
            ErrorFrame(2, 0x203, None, b"the subscription is over"),
        ]


async def test_a_completed_subscription(draft_server):
    """V0-SUB-01: a C, although against the rules, ends it."""

    async def use(requester):
        async with request_subscription(requester, Payload(b"x"), prefetch=8) as stream:
            assert [item.data async for item in stream] == [b"a"]
        async with request_subscription(requester, Payload(b"y"), prefetch=8) as stream:
            assert (await stream.receive()).data == b"b"

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestSubFrame(2, 8, data=b"x", n_flag=True)
        await peer.send(ResponseFrame(2, data=b"a"), ResponseFrame(2, complete=True))
        assert await peer.receive() == RequestSubFrame(4, 8, data=b"y", n_flag=True)
        await peer.send(ResponseFrame(4, data=b"b"))
        assert await peer.receive() == CancelFrame(4)


async def test_fragments_of_a_response(draft_server, vectors):
    """V0-FRAG-01: metadata and data are joined, in any mix."""
    sequence = vectors["v0_fragmented_response"]

    async def use(requester):
        reply = await requester.request_response()
        expected = sequence["fields"]["reassembled"]
        assert reply.metadata == bytes.fromhex(expected["metadata_hex"])
        assert reply.data == bytes.fromhex(expected["data_hex"])

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(*map(bytes.fromhex, sequence["frames"]))


async def test_follows_is_ignored_beside_complete(draft_server, draft_client):
    """V0-FRAG-01: F and C together mark the last fragment, in a response and in a channel."""

    async def use(requester):
        async with requester.request_stream() as stream:
            assert [item.data async for item in stream] == [b"ab"]

    async with draft_server(use) as peer:
        await peer.receive(RequestStreamFrame)
        await peer.send(ResponseFrame(2, follows=True, data=b"a"))
        await peer.send(ResponseFrame(2, follows=True, complete=True, data=b"b"))
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, follows=True, data=b"a"))
        await peer.send(RequestChannelFrame(2, follows=True, data=b"b"))
        await peer.send(RequestChannelFrame(2, follows=True, complete=True, data=b"c"))
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [
            ResponseFrame(2, data=b"abc"),
            ResponseFrame(2, complete=True),
        ]
