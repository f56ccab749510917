"""The rules of the draft on channels, with raw frames."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Canceled,
    Payload,
    Responder,
)
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    RequestChannelFrame,
    RequestNFrame,
    RequestResponseFrame,
    ResponseFrame,
)


@pytest.mark.parametrize("n", [None, 0])
async def test_a_channel(draft_client, n):
    """V0-CHAN-01 to 04: later items are REQUEST_CHANNEL, with N clear or an n of 0."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"))
        granted = await peer.receive(RequestNFrame)
        assert granted.stream_id == 2
        assert await peer.receive() == ResponseFrame(2, data=b"a")
        await peer.send(RequestChannelFrame(2, n, data=b"b"))
        await peer.send(RequestChannelFrame(2, n, data=b"", metadata=b"m"))
        await peer.send(
            RequestChannelFrame(2, n, complete=True, data=b"c"),
            RequestChannelFrame(2, n, data=b"after its end"),
        )
        assert await peer.drain() == [
            ResponseFrame(2, data=b"b"),
            ResponseFrame(2, metadata=b"m"),
            ResponseFrame(2, data=b"c"),
            ResponseFrame(2, complete=True),
        ]
        await peer.expect_alive()


@pytest.mark.parametrize(
    "end",
    [
        RequestChannelFrame(2, None, complete=True),
        RequestChannelFrame(2, 0, complete=True),
        RequestChannelFrame(2, None, complete=True, data=bytes(4)),
    ],
    ids=repr,
)
async def test_completion_without_an_item(draft_client, end):
    """D.3 no. 7 and 8: C alone is no item, nor are four stray zeros without N."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"), end)
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [
            ResponseFrame(2, data=b"a"),
            ResponseFrame(2, complete=True),
        ]


async def test_a_channel_of_one_item(draft_client):
    """V0-CHAN-03: C on the initial frame: the item counts, and is the last one."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, complete=True, data=b"a"))
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [
            ResponseFrame(2, data=b"a"),
            ResponseFrame(2, complete=True),
        ]


async def test_a_channel_without_initial_credit(draft_client):
    """N clear on the initial frame: no credit until REQUEST_N."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, data=b"a"), RequestChannelFrame(2, data=b"b"))
        assert [type(frame) for frame in await peer.drain()] == [RequestNFrame]
        await peer.send(RequestNFrame(2, 2))
        assert await peer.drain() == [ResponseFrame(2, data=b"a"), ResponseFrame(2, data=b"b")]


async def test_our_channel(draft_server):
    """V0-CHAN-01 to 04, D.3 no. 6 and 8: N and the field on every frame, 0 on later ones."""

    async def use(requester):
        source = [Payload(b"a"), Payload(b"b", b"m"), Payload(b"c")]
        async with requester.request_channel(source, prefetch=4) as stream:
            assert [item.data async for item in stream] == [b"x"]

    async with draft_server(use) as peer:
        assert await peer.receive() == RequestChannelFrame(2, 4, data=b"a")
        await peer.send(RequestNFrame(2, 1))
        assert await peer.drain() == [RequestChannelFrame(2, 0, metadata=b"m", data=b"b")]
        await peer.send(RequestNFrame(2, 5))
        assert await peer.drain() == [
            RequestChannelFrame(2, 0, data=b"c"),
            RequestChannelFrame(2, 0, complete=True),
        ]
        await peer.send(ResponseFrame(2, complete=True, data=b"x"))


async def test_the_responder_ends_both_halves(draft_server):
    """V0-CHAN-05: after its C no frame leaves, and the source is stopped."""
    stopped = []

    async def source():
        try:
            yield Payload(b"a")
            await trio.sleep_forever()
        finally:
            stopped.append(True)

    async def use(requester):
        async with requester.request_channel(source(), prefetch=4) as stream:
            assert [item async for item in stream] == []
            await trio.testing.wait_all_tasks_blocked()
            assert stopped
            assert requester.statistics().open_streams == 0

    async with draft_server(use) as peer:
        await peer.receive(RequestChannelFrame)
        await peer.send(RequestNFrame(2, 9), ResponseFrame(2, complete=True))
        assert await peer.drain() == []


class One(Responder):
    """Answers a channel with one item, and ends."""

    async def request_channel(self, payload, payloads):
        yield Payload(b"only")


@pytest.mark.parametrize("n", [None, 0])
async def test_late_items_of_a_channel(draft_client, n):
    """V0-CHAN-05: items that were on the way open no channel; a new request does."""
    async with draft_client(One()) as peer:
        for _ in range(2):
            await peer.send(RequestChannelFrame(2, 9, data=b"a"))
            await peer.receive(RequestNFrame)
            assert await peer.drain() == [
                ResponseFrame(2, data=b"only"),
                ResponseFrame(2, complete=True),
            ]
            await peer.send(RequestChannelFrame(2, n, data=b"late"))
            await peer.send(RequestChannelFrame(2, n, complete=True))
            await peer.expect_alive()


async def test_ids_of_channels_that_have_ended_are_forgotten(draft_client):
    """The memory for late items is bounded."""
    async with draft_client(One()) as peer:
        for stream_id in range(2, 2 + 2 * 1025, 2):
            await peer.send(RequestChannelFrame(stream_id, 9, data=b"a"))
            await peer.drain()
        await peer.send(RequestChannelFrame(4, None, data=b"late"))
        await peer.expect_alive()
        await peer.send(RequestChannelFrame(2, None, data=b"taken for a new one"))
        assert [type(frame) for frame in await peer.drain()] == [RequestNFrame]


class Deaf(Responder):
    """Reads no items, and sends some."""

    async def request_channel(self, payload, payloads):
        await payloads.aclose()
        yield Payload(b"a")
        yield Payload(b"b")


async def test_a_responder_that_stops_reading(draft_client):
    """V0-CHAN-06: it grants no credit; CANCEL would end both halves."""
    async with draft_client(Deaf()) as peer:
        await peer.send(RequestChannelFrame(2, 1, data=b"x"))
        await peer.receive(RequestNFrame)
        assert await peer.drain() == [ResponseFrame(2, data=b"a")]
        await peer.send(RequestChannelFrame(2, 0, data=b"ignored"), RequestNFrame(2, 9))
        assert await peer.drain() == [
            ResponseFrame(2, data=b"b"),
            ResponseFrame(2, complete=True),
        ]


async def test_a_cancelled_channel(draft_client):
    """V0-CHAN-06: the requester's CANCEL ends both halves."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"))
        assert len(await peer.drain()) == 2
        await peer.send(CancelFrame(2))
        await peer.send(RequestResponseFrame(2, data=b"x"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")


async def test_a_responder_that_cancels(draft_server):
    """V0-CHAN-06: CANCEL of the responder ends both halves; on other streams it is ignored."""

    async def use(requester):
        async with requester.request_channel(source_without_end(), prefetch=4) as stream:
            with pytest.raises(Canceled):
                await stream.receive()
        assert (await requester.request_response()).data == b"x"

    async def source_without_end():
        yield Payload(b"a")
        await trio.sleep_forever()

    async with draft_server(use) as peer:
        await peer.receive(RequestChannelFrame)
        await peer.send(CancelFrame(2))
        assert (await peer.receive(RequestResponseFrame)).stream_id == 4
        await peer.send(CancelFrame(4), RequestNFrame(4, 1), ResponseFrame(4, data=b"x"))


async def test_an_error_of_the_requester(draft_client):
    """An ERROR on a channel ends it from either side; on other requests it is ignored."""
    async with draft_client() as peer:
        await peer.send(RequestChannelFrame(2, 9, data=b"a"))
        assert len(await peer.drain()) == 2
        await peer.send(ErrorFrame(2, 0x201, data=b"sorry"))
        await peer.send(RequestResponseFrame(2, data=b"never"), ErrorFrame(2, 0x201))
        await peer.send(RequestResponseFrame(2, data=b"in use"))
        await peer.expect_alive()


async def test_a_source_that_fails(draft_server):
    """Our source's failure is an ERROR on the wire."""

    async def source():
        yield Payload(b"a")
        raise ApplicationError("sorry")

    async def use(requester):
        with pytest.raises(ApplicationError):
            async with requester.request_channel(source()) as stream:
                await stream.receive()

    async with draft_server(use) as peer:
        await peer.receive(RequestChannelFrame)
        await peer.send(RequestNFrame(2, 5))
        assert await peer.receive() == ErrorFrame(2, 0x201, data=b"sorry")
