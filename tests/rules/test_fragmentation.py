"""Fragmentation and reassembly, checked from the wire."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ErrorCode, Rejected
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers

SMALL = ConnectionConfig(fragment_size=64)
LARGE = Payload(bytes(range(256)), b"m" * 100)


def reassemble(frames) -> Payload:
    """Join fragments, and check that they keep to the rules for a sender."""
    assert [frame.follows for frame in frames] == [True] * (len(frames) - 1) + [False]
    assert all(isinstance(frame, PayloadFrame) for frame in frames[1:])
    assert len({frame.stream_id for frame in frames}) == 1
    data_begun = False
    for frame in frames:
        assert not (data_begun and frame.metadata is not None), "metadata after data"
        assert len(frame.encode()) <= SMALL.fragment_size
        data_begun = data_begun or bool(frame.data)
    metadata = [frame.metadata for frame in frames if frame.metadata is not None]
    return Payload(
        b"".join(frame.data for frame in frames), b"".join(metadata) if metadata else None
    )


async def receive_fragments(peer, kind):
    """The fragments of one item or request."""
    frames = [await peer.receive(kind)]
    while frames[-1].follows:
        frames.append(await peer.receive(PayloadFrame))
    return frames


async def ask_stream(requester):
    async with requester.request_stream(LARGE):
        await trio.sleep_forever()


async def ask_channel(requester):
    async with requester.request_channel([LARGE]):
        await trio.sleep_forever()


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        (RequestResponseFrame, lambda requester: requester.request_response(LARGE)),
        (RequestFnfFrame, lambda requester: requester.fire_and_forget(LARGE)),
        (RequestStreamFrame, ask_stream),
        (RequestChannelFrame, ask_channel),
    ],
)
async def test_large_requests_leave_in_fragments(kind, ask, nursery):
    """R-FRAG-01, -02, -03, -04, -05, -10: F on all but the last, PAYLOADs, metadata first."""
    async with frame_peer_server(config=SMALL) as (peer, requester):
        nursery.start_soon(ask, requester)
        frames = await receive_fragments(peer, kind)
        nursery.cancel_scope.cancel()
    assert reassemble(frames) == LARGE
    assert all(frame.next for frame in frames[1:])
    assert not any(frame.complete for frame in frames[1:-1])


@pytest.mark.parametrize("metadata", [None, b"", b"m" * 100])
async def test_large_answers_leave_in_fragments(metadata):
    """R-FRAG-02, -04, -05, -10, R-META-05: N on every fragment, C on the last only."""
    async with frame_peer_client(KnownAnswers(), config=SMALL) as peer:
        await peer.send(RequestResponseFrame(1, data=LARGE.data, metadata=metadata))
        frames = await receive_fragments(peer, PayloadFrame)
    assert reassemble(frames) == Payload(LARGE.data, metadata)
    assert all(frame.next for frame in frames)
    assert [frame.complete for frame in frames] == [False] * (len(frames) - 1) + [True]


@pytest.mark.parametrize("next_on_fragments", [True, False])
async def test_fragmented_requests_are_put_together(next_on_fragments):
    """R-FRAG-02, -03, -04, -05, -10: with or without N on the PAYLOADs that follow."""
    n = next_on_fragments
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(
            RequestResponseFrame(1, follows=True, metadata=b"me", data=b""),
            PayloadFrame(1, next=n, follows=True, metadata=b"ta", data=b"he"),
            PayloadFrame(1, next=n, follows=True, data=b"ll"),
            PayloadFrame(1, next=n, data=b"o"),
        )
        reply = await peer.receive(PayloadFrame)
        assert (reply.metadata, reply.data) == (b"meta", b"hello")


async def test_fragmented_answers_are_put_together(nursery):
    """R-FRAG-02, -05, -11: fragments of two answers may be mixed."""
    answers = {}

    async def ask(requester, key):
        answers[key] = await requester.request_response(Payload(key))

    async with frame_peer_server() as (peer, requester):
        nursery.start_soon(ask, requester, b"a")
        await peer.receive(RequestResponseFrame)
        nursery.start_soon(ask, requester, b"b")
        await peer.receive(RequestResponseFrame)
        await peer.send(
            PayloadFrame(1, next=True, follows=True, metadata=b"A"),
            PayloadFrame(3, next=True, follows=True, data=b"3"),
            PayloadFrame(1, next=True, follows=True, data=b"1"),
            PayloadFrame(3, next=True, complete=True, data=b"3"),
            PayloadFrame(1, next=True, complete=True, data=b"1"),
        )
        await trio.testing.wait_all_tasks_blocked()
    assert answers == {b"a": Payload(b"11", b"A"), b"b": Payload(b"33")}


async def test_other_frames_may_come_between_the_fragments_of_a_request():
    """R-FRAG-11: frames of other streams, REQUEST_N and CANCEL among them, may come between."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(
            RequestStreamFrame(1, 1, follows=True, data=b""),
            RequestResponseFrame(3, data=b"never"),
            RequestNFrame(1, 1),
            RequestResponseFrame(5, follows=True, data=b"fi"),
            CancelFrame(3),
            PayloadFrame(1, next=True, data=b"3"),
            PayloadFrame(5, next=True, data=b"ve"),
        )
        frames = await peer.drain()
    answers = {
        stream_id: [frame.data for frame in frames if frame.stream_id == stream_id]
        for stream_id in (1, 3, 5)
    }
    assert answers == {1: [b"0", b"1"], 3: [], 5: [b"five"]}


async def test_an_item_in_many_fragments_costs_one_credit():
    """R-FRAG-06: 100 KB under a credit of one arrive whole, and no second item."""

    class Large(Responder):
        async def request_stream(self, payload):
            for _ in range(3):
                yield Payload(bytes(100_000))

    async with frame_peer_client(Large(), config=SMALL) as peer:
        await peer.send(RequestStreamFrame(1, 1))
        assert reassemble(await receive_fragments(peer, PayloadFrame)) == Payload(bytes(100_000))
        await peer.expect_nothing()
        await peer.send(RequestNFrame(1, 1))
        await receive_fragments(peer, PayloadFrame)
        await peer.expect_nothing()


async def test_a_cancel_between_fragments():
    """R-FRAG-07: a request cancelled between its fragments never runs, and its id is free again."""
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(
            RequestFnfFrame(1, follows=True, data=b"one"),
            RequestResponseFrame(3, follows=True, data=b"three"),
            CancelFrame(1),
            CancelFrame(3),
            PayloadFrame(1, next=True, data=b" late"),
            PayloadFrame(3, next=True, data=b" late"),
        )
        await peer.expect_alive()
        assert responder.last_fire_and_forget == b""
        await peer.send(RequestResponseFrame(3, data=b"again"))
        assert (await peer.receive(PayloadFrame)).data == b"again"


async def answer(requester):
    return [await requester.request_response(Payload())]


async def answer_in_chunks(requester):
    async with requester.request_response_streamed() as body:
        if body is None:
            return [None]
        return [Payload(b"".join([chunk async for chunk in body]), body.metadata)]


async def items_of_a_stream(requester):
    async with requester.request_stream() as items:
        return [item async for item in items]


async def items_of_a_channel(requester):
    async with requester.request_channel([Payload()]) as items:
        return [item async for item in items]


ONE = [answer, answer_in_chunks]
MANY = [items_of_a_stream, items_of_a_channel]
NO_END = object()


async def outcome(read, frames):
    """Return the outcome of these answers, or `NO_END` while more has to come."""
    got = [NO_END]

    async def use():
        got[:] = await read(requester)

    async with frame_peer_server() as (peer, requester), trio.open_nursery() as nursery:
        nursery.start_soon(use)
        await peer.receive()
        await peer.send(*frames)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return got


def fragment(data, flags, metadata=None):
    return PayloadFrame(
        1,
        next="N" in flags,
        complete="C" in flags,
        follows="F" in flags,
        metadata=metadata,
        data=data,
    )


@pytest.mark.parametrize("read", [*ONE, *MANY])
async def test_follows_is_ignored_on_a_completion_without_item(read):
    """R-FRAG-08, R-UNX-06: F on a PAYLOAD that completes without an item is ignored."""
    got = await outcome(read, [fragment(b"", "FC")])
    assert got == ([None] if read in ONE else [])


@pytest.mark.parametrize("last", ["N", "NC"], ids=["rsocket-go", "rsocket-rust"])
@pytest.mark.parametrize("middle", [["FN"], ["FN", "FN"], ["FCN"], []])
@pytest.mark.parametrize("read", [*ONE, *MANY])
async def test_complete_on_the_first_fragment(read, middle, last):
    """R-FRAG-08: F, C and N together begin a payload; its last fragment ends the stream."""
    half = b"d" * 16_000
    frames = [fragment(b"", "FCN", b"m" * 16_000), *(fragment(half, each) for each in middle)]
    assert await outcome(read, frames) == [NO_END]
    whole = Payload(half * len(middle) + b"end", b"m" * 16_000)
    assert await outcome(read, [*frames, fragment(b"end", last)]) == [whole]


@pytest.mark.parametrize("read", MANY)
async def test_complete_on_the_first_fragment_of_a_later_item(read):
    """R-FRAG-08: items before it are delivered; later frames are ignored."""
    frames = [
        fragment(b"one", "N"),
        fragment(b"t", "FN"),
        fragment(b"wo", "N"),
        fragment(b"th", "FCN"),
        fragment(b"ree", "N"),
        fragment(b"late", "N"),
    ]
    items = [Payload(b"one"), Payload(b"two"), Payload(b"three")]
    assert await outcome(read, frames) == items


@pytest.mark.parametrize("read", [*ONE, *MANY])
async def test_an_error_instead_of_the_other_fragments(read):
    """R-FRAG-08: the fragments so far are not delivered, with any flags."""
    with pytest.raises(BaseExceptionGroup) as caught:
        await outcome(read, [fragment(b"some", "FCN"), ErrorFrame(1, 0x202, b"no")])
    assert caught.group_contains(Rejected, match="no", depth=1)


async def test_the_items_of_a_requester_with_complete_on_the_first_fragment():
    """R-FRAG-08: the fragments of a channel's requester are read in the same way."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestChannelFrame(1, 9, data=b"0"))
        await peer.send(fragment(b"1", "FCN"), fragment(b"2", "FN"), fragment(b"3", "N"))
        await peer.receive(RequestNFrame)
        assert [(await peer.receive(PayloadFrame)).data for _ in range(2)] == [b"0", b"123"]
        assert (await peer.receive(PayloadFrame)).complete


@pytest.mark.parametrize("first", [RequestResponseFrame, RequestFnfFrame])
async def test_a_request_whose_fragments_have_complete(first):
    """R-FRAG-08: C means nothing in these requests, and F counts."""
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(first(1, follows=True, data=b"one "))
        await peer.send(fragment(b"two ", "FCN"), fragment(b"three", "NC"))
        if first is RequestResponseFrame:
            assert (await peer.receive(PayloadFrame)).data == b"one two three"
        else:
            await peer.expect_alive()
            assert responder.last_fire_and_forget == b"one two three"


@pytest.mark.parametrize("read", [*ONE, *MANY])
async def test_fragments_without_next(read):
    """R-FRAG-10: some stacks set no N on fragments; they are read all the same."""
    frames = [fragment(b"a", "F"), fragment(b"b", "F"), fragment(b"c", "C")]
    assert await outcome(read, frames) == [Payload(b"abc")]


@pytest.mark.parametrize("data", [b"x" * 100, b""], ids=["with data", "empty"])
async def test_endless_fragments_end_their_stream(data):
    """R-FRAG-09, R-UNX-06: past the limit the request is refused, and the connection lives."""
    config = ConnectionConfig(limits=Limits(max_payload_size=10_000))
    responder = KnownAnswers()
    async with frame_peer_client(responder, config=config) as peer:
        await peer.send(RequestFnfFrame(1, follows=True, data=b"f"))
        await peer.send(RequestResponseFrame(3, follows=True, data=b"r"))
        for _ in range(12_000 if not data else 200):
            await peer.send(
                PayloadFrame(1, next=True, follows=True, data=data),
                PayloadFrame(3, next=True, follows=True, data=data),
            )
        frames = [frame for frame in await peer.drain() if isinstance(frame, ErrorFrame)]
        if data:
            assert [frame.stream_id for frame in frames if frame.stream_id == 3] == [3]
        await peer.send(PayloadFrame(1, next=True, data=b"end"))
        await peer.drain()
        await peer.expect_alive()
    if data:
        assert responder.last_fire_and_forget == b""


async def test_endless_fragments_of_an_answer(nursery):
    """R-FRAG-09: an answer past the limit is an error of its request; the peer gets CANCEL."""
    config = ConnectionConfig(limits=Limits(max_payload_size=1000))
    failures = []

    async def ask(requester):
        try:
            await requester.request_response(Payload())
        except Exception as error:
            failures.append(error)

    async with frame_peer_server(config=config) as (peer, requester):
        nursery.start_soon(ask, requester)
        await peer.receive(RequestResponseFrame)
        for _ in range(20):
            await peer.send(PayloadFrame(1, next=True, follows=True, data=b"x" * 100))
        await peer.receive(CancelFrame)
        assert len(failures) == 1
        await peer.expect_alive()


@pytest.mark.parametrize("where", ["first", "last"])
async def test_completion_of_a_fragmented_channel_request(where):
    """B.20.12: C is taken from the REQUEST_CHANNEL as from its last fragment."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(
            RequestChannelFrame(1, 5, follows=True, complete=where == "first", data=b"a"),
            PayloadFrame(1, next=True, complete=where == "last", data=b"b"),
        )
        frames = [frame for frame in await peer.drain() if isinstance(frame, PayloadFrame)]
        assert b"".join(frame.data for frame in frames) == b"ab"
        assert frames[-1].complete
        await peer.expect_alive()


async def test_metadata_after_data_of_a_fragment():
    """B.20.16: this malformed order is refused or appended, and no other stream is affected."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(
            RequestResponseFrame(1, follows=True, data=b"da"),
            PayloadFrame(1, next=True, metadata=b"meta", data=b"ta"),
        )
        answer = await peer.receive()
        assert answer in (
            PayloadFrame(1, next=True, complete=True, metadata=b"meta", data=b"data"),
            ErrorFrame(1, ErrorCode.INVALID, getattr(answer, "data", b"")),
        )
        await peer.expect_alive()


async def test_fragment_sizes_that_other_stacks_refuse_cannot_be_set():
    """R-FRAG-12: rsocket-java refuses fragments below 64 bytes, so none can be configured."""
    with pytest.raises(ValueError, match="fragment_size"):
        ConnectionConfig(fragment_size=63)


class Same(KnownAnswers):
    """Streams begin with the payload of the request, and do not end."""

    async def request_stream(self, payload):
        yield payload
        await trio.sleep_forever()


async def ask(requester, kind, payload):
    if kind is RequestResponseFrame:
        await requester.request_response(payload)
    elif kind is RequestFnfFrame:
        await requester.fire_and_forget(payload)
    elif kind is RequestStreamFrame:
        async with requester.request_stream(payload):
            await trio.sleep_forever()
    else:
        async with requester.request_channel(Same().request_stream(payload)):
            await trio.sleep_forever()


@pytest.mark.parametrize("metadata", [None, b"", b"meta"])
@pytest.mark.parametrize(
    "kind", [RequestResponseFrame, RequestFnfFrame, RequestStreamFrame, RequestChannelFrame]
)
async def test_requests_of_about_the_fragment_size(kind, metadata, nursery):
    """R-FRAG-01: one that fits leaves in one frame, one byte more in two, none is longer."""
    head = 6 + 4 * (kind in {RequestStreamFrame, RequestChannelFrame})
    head += 0 if metadata is None else 3 + len(metadata)
    async with frame_peer_server(config=SMALL) as (peer, requester):
        for size in range(64 - 16, 64 + 2):
            payload = Payload(bytes(size - head), metadata)
            nursery.start_soon(ask, requester, kind, payload)
            frames = await receive_fragments(peer, kind)
            assert reassemble(frames) == payload
            assert len(frames) == (1 if size <= 64 else 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("metadata", [None, b"", b"meta"])
@pytest.mark.parametrize(
    "request_", [RequestResponseFrame, partial(RequestStreamFrame, initial_request_n=1)]
)
async def test_answers_of_about_the_fragment_size(request_, metadata):
    """R-FRAG-01: as for requests."""
    head = 6 if metadata is None else 6 + 3 + len(metadata)
    async with frame_peer_client(Same(), config=SMALL) as peer:
        for number, size in enumerate(range(64 - 16, 64 + 2)):
            payload = Payload(bytes(size - head), metadata)
            await peer.send(request_(2 * number + 1, metadata=metadata, data=payload.data))
            frames = await receive_fragments(peer, PayloadFrame)
            assert reassemble(frames) == payload
            assert len(frames) == (1 if size <= 64 else 2)


class Ignores(KnownAnswers):
    """Channels read nothing, and end only if they are cancelled."""

    async def request_channel(self, payload, payloads):
        yield payload
        await trio.sleep_forever()


@pytest.mark.parametrize("end", [[ErrorFrame], [CancelFrame, ErrorFrame]], ids=len)
async def test_unfinished_items_of_streams_that_are_over_are_forgotten(end):
    """They do not count in max_reassembly_size, which the streams of a connection share."""
    config = ConnectionConfig(limits=Limits(max_payload_size=1000, max_reassembly_size=1000))
    async with frame_peer_client(Ignores(), config=config) as peer:
        for stream_id in range(1, 13, 2):
            ends = [kind(stream_id, *[0x201] * (kind is ErrorFrame)) for kind in end]
            await peer.send(
                RequestChannelFrame(stream_id, 1),
                PayloadFrame(stream_id, next=True, follows=True, data=bytes(400)),
            )
            await peer.receive(RequestNFrame)
            assert (await peer.receive(PayloadFrame)).stream_id == stream_id
            await peer.send(*ends)
            await peer.expect_nothing()
