"""Frames that a server accepts, refuses or ignores: ids, limits, lengths, metadata."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio.ttrpc import (
    Call,
    Method,
    MethodKind,
    Service,
    StatusCode,
    TtrpcConfig,
    TtrpcLimits,
)
from rsocket_trio.ttrpc.wire.frames import HEADER, MAX_BODY, MessageType, encode_frame
from tests.ttrpc.scenes import (
    SERVICE,
    data,
    end,
    one,
    opening,
    request,
    stranger_to,
    things,
)

BOTH = pytest.mark.parametrize("over", ["memory", "socket"])


@BOTH
async def test_ids_must_be_odd_and_increase(over):
    """PROTOCOL.md, "Message Frame". Gaps are allowed, and so is the largest id."""
    async with stranger_to(things(), over=over) as stranger:
        await stranger.send(*(request(each) for each in (2, 0, 5, 3, 5, 9, 2**32 - 1, 11)))
        got = [(frame.stream_id, frame.code) for frame in await stranger.drain()]
        wrong = StatusCode.INVALID_ARGUMENT
        refused = [(each, wrong) for each in (0, 2, 3, 5, 11)]
        assert sorted(got) == sorted([*refused, (5, 0), (9, 0), (2**32 - 1, 0)])


async def test_an_id_of_a_refused_request_is_used():
    """The next request needs another one, or two answers would have the same id."""
    async with stranger_to(things()) as stranger:
        await stranger.send(request(1, "Nothing"), request(1))
        codes = [frame.code for frame in await stranger.drain()]
        assert codes == [StatusCode.UNIMPLEMENTED, StatusCode.INVALID_ARGUMENT]


async def test_data_for_calls_that_are_over_is_ignored():
    """It has crossed the last frame on its way; one last frame is enough."""
    async with stranger_to(things()) as stranger:
        assert await stranger.ask(1) == b"alive?"
        await stranger.send(data(1, b"late"), end(1))
        assert await stranger.drain() == []


@pytest.mark.parametrize(
    ("stream_id", "text"),
    [(7, "no longer active"), (8, "must be odd"), (0, "must be odd")],
)
async def test_data_for_calls_that_never_were_is_refused(stream_id, text):
    async with stranger_to(things()) as stranger:
        await stranger.send(data(stream_id, b"what?"))
        frame = await stranger.frame()
        assert frame.stream_id == stream_id
        assert frame.code == StatusCode.INVALID_ARGUMENT
        assert text in frame.status.message


@BOTH
@pytest.mark.parametrize("kind", [2, 0, 4, 255])
async def test_other_types_are_ignored(kind, over):
    """PROTOCOL.md, "Mesage Types": a RESPONSE is for clients, others are of later versions."""
    async with stranger_to(things(), over=over) as stranger:
        await stranger.send(HEADER.pack(3, 1, kind, 0xFF) + b"abc")
        assert await stranger.ask(1) == b"alive?"


async def test_names_of_the_peer_are_cut():
    """A name of megabytes is not sent back."""
    async with stranger_to(things()) as stranger:
        await stranger.send(request(1, service="s" * 10_000), request(3, "m" * 10_000))
        texts = [frame.status.message for frame in await stranger.drain()]
        assert texts == ["service " + "s" * 256, "method " + "m" * 256]


@pytest.mark.parametrize(
    ("limits", "metadata", "word"),
    [
        ({"max_metadata_entries": 2}, (("a", "1"),) * 3, "entries"),
        ({"max_metadata_size": 100}, (("a", "1" * 200),), "100"),
    ],
)
async def test_metadata_are_limited(limits, metadata, word):
    """Only the call suffers."""
    config = TtrpcConfig(limits=TtrpcLimits(**limits))
    async with stranger_to(things(), config=config) as stranger:
        await stranger.send(request(1, metadata=metadata))
        status = (await stranger.frame()).status
        assert status.code == StatusCode.RESOURCE_EXHAUSTED
        assert word in status.message
        assert await stranger.ask(3) == b"alive?"


async def test_metadata_arrive_in_order_and_in_their_case():
    seen = []

    async def handler(_request, call: Call):
        seen.append((call.pairs, call.values("k")))
        return b""

    async with stranger_to(one(MethodKind.UNARY, handler)) as stranger:
        pairs = (("k", "2"), ("K", "1"), ("k", "1"), ("ü", ""))
        await stranger.send(request(1, metadata=pairs))
        assert (await stranger.frame()).code == 0
        assert seen == [(pairs, ["2", "1"])]


@BOTH
async def test_calls_in_flight_are_limited(over):
    """One more is refused; when one ends, the next is served."""
    config = TtrpcConfig(limits=TtrpcLimits(max_active_requests=3))
    gates = []

    async def handler(request):
        gates.append(trio.Event())
        await gates[-1].wait()
        return request

    async with stranger_to(one(MethodKind.UNARY, handler), config=config, over=over) as stranger:
        await stranger.send(*(request(each) for each in (1, 3, 5, 7)))
        refused = await stranger.drain()
        assert [(frame.stream_id, frame.code) for frame in refused] == [
            (7, StatusCode.RESOURCE_EXHAUSTED)
        ]
        gates[0].set()
        assert (await stranger.frame()).code == 0
        await stranger.send(request(9))
        assert await stranger.drain() == []
        for gate in gates:
            gate.set()
        assert sorted(frame.stream_id for frame in await stranger.drain()) == [3, 5, 9]


async def test_bytes_in_flight_are_limited():
    config = TtrpcConfig(limits=TtrpcLimits(max_requests_size=1000))
    gate = trio.Event()

    async def handler(request):
        await gate.wait()
        return b""

    async with stranger_to(one(MethodKind.UNARY, handler), config=config) as stranger:
        # The first may be of any size, as it is the only one.
        await stranger.send(request(1, payload=bytes(2000)), request(3, payload=b""))
        assert [frame.code for frame in await stranger.drain()] == [StatusCode.RESOURCE_EXHAUSTED]
        gate.set()
        assert (await stranger.frame()).code == 0
        await stranger.send(request(5, payload=bytes(2000)))
        assert (await stranger.frame()).code == 0


@BOTH
async def test_a_request_that_is_too_long_harms_one_call(over):
    config = TtrpcConfig(limits=TtrpcLimits(max_message_size=1000))
    async with stranger_to(things(), config=config, over=over) as stranger:
        await stranger.send(request(1, payload=bytes(2000)))
        frame = await stranger.frame()
        assert (frame.stream_id, frame.code) == (1, StatusCode.RESOURCE_EXHAUSTED)
        assert "exceed maximum message size of 1000" in frame.status.message
        assert await stranger.ask(3) == b"alive?"


@BOTH
async def test_a_message_that_is_too_long_harms_one_call(over):
    config = TtrpcConfig(limits=TtrpcLimits(max_message_size=1000))
    async with stranger_to(things(), config=config, over=over) as stranger:
        await stranger.send(opening(1), opening(3), data(1, bytes(2000)), data(3, b"x"), end(3))
        await stranger.send(data(1, b"more"), end(1))
        frames = await stranger.drain()
        assert sorted((frame.stream_id, frame.code) for frame in frames) == [
            (1, StatusCode.RESOURCE_EXHAUSTED),
            (3, 0),
        ]


async def test_a_frame_of_another_type_that_is_too_long_is_ignored():
    config = TtrpcConfig(limits=TtrpcLimits(max_message_size=1000))
    async with stranger_to(things(), config=config) as stranger:
        for kind in (0, 2, 4):
            await stranger.send(HEADER.pack(2000, 1, kind, 0) + bytes(2000))
        await stranger.send(data(1, bytes(2000)))  # no such call
        assert await stranger.ask(1) == b"alive?"


@BOTH
async def test_the_reserved_byte_ends_the_connection(over):
    """PROTOCOL.md: "the first frame byte should always be zero". The answer still leaves."""
    async with stranger_to(things(), over=over) as stranger:
        await stranger.send(HEADER.pack(2**24, 1, MessageType.REQUEST, 0) + b"abc")
        frames = await stranger.until_end()
        assert [(each.stream_id, each.code) for each in frames] == [
            (1, StatusCode.RESOURCE_EXHAUSTED)
        ]


async def test_an_answer_that_is_too_long_harms_one_call():
    async def handler(request):
        return bytes(int(request))

    async def stream(request):
        yield b"first"
        yield bytes(int(request))

    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Echo"), handler)
    service.add(Method.raw(SERVICE, "Count", MethodKind.SERVER_STREAM), stream)
    async with stranger_to(service) as stranger:
        await stranger.send(request(1, payload=b"%d" % (MAX_BODY - 5)))
        assert len((await stranger.frame()).body) == MAX_BODY
        await stranger.send(request(3, payload=b"%d" % (MAX_BODY - 4)))
        assert (await stranger.frame()).code == StatusCode.RESOURCE_EXHAUSTED
        await stranger.send(request(5, "Count", payload=b"%d" % MAX_BODY))
        first, longest, last = [await stranger.frame() for _ in range(3)]
        assert (first.body, len(longest.body), last.is_last) == (b"first", MAX_BODY, True)
        await stranger.send(request(7, "Count", payload=b"%d" % (MAX_BODY + 1)))
        first, last = [await stranger.frame() for _ in range(2)]
        assert first.body == b"first"
        assert last.code == StatusCode.RESOURCE_EXHAUSTED
        assert await stranger.drain() == []


async def test_flags_do_not_decide_the_kind():
    """Go ignores the flags of a request: the method decides."""
    async with stranger_to(things()) as stranger:
        await stranger.send(
            request(1, payload=b"a", flags=0x02),
            request(3, payload=b"b", flags=0x06),
            request(5, "Count", payload=b"1", flags=0x02),
            request(7, payload=b"c", flags=0xF1),
            end(1),
        )
        frames = await stranger.drain()
        answers = {each.stream_id: each.payload for each in frames if each.stream_id != 5}
        assert answers == {1: b"a", 3: b"b", 7: b"c"}
        assert [each.body for each in frames if each.stream_id == 5] == [b"0", b""]


async def test_a_closed_stream_of_messages_is_honoured():
    """A client stream whose REQUEST says "remote closed" has no message, or one."""
    async with stranger_to(things()) as stranger:
        await stranger.send(
            request(1, "Join", flags=0x01), request(3, "Join", payload=b"all", flags=0x01)
        )
        frames = await stranger.drain()
        assert sorted((each.stream_id, each.payload) for each in frames) == [(1, b""), (3, b"all")]


async def test_the_payload_of_an_open_stream_is_its_first_message():
    async with stranger_to(things()) as stranger:
        await stranger.send(opening(1, payload=b"one "), data(1, b"two"), end(1))
        assert (await stranger.frame()).payload == b"one two"


@pytest.mark.parametrize(
    ("frames", "joined"),
    [
        ([data(1, b"a"), data(1), data(1, b"b"), end(1)], [b"a", b"", b"b"]),
        ([data(1, b"a", 0x01)], [b"a"]),
        ([data(1, b"ignored", 0x04), end(1)], []),
        ([data(1, b"ignored", 0x05)], []),
        ([data(1, b"", 0x01)], []),
        ([data(1, b"a", 0xF2), data(1, b"", 0x01), data(1, b"late")], [b"a"]),
    ],
)
async def test_flags_of_data(frames, joined):
    """PROTOCOL.md, "Data Flags". An empty message is a message; "no data" is none."""
    seen = []

    async def handler(messages):
        seen.extend([each async for each in messages])
        return b""

    async with stranger_to(one(MethodKind.CLIENT_STREAM, handler)) as stranger:
        await stranger.send(opening(1, "Echo"), *frames)
        assert [frame.code for frame in await stranger.drain()] == [0]
        assert seen == joined


async def test_data_for_a_method_without_a_stream_ends_its_call():
    """Also for one with a stream of answers. A frame that only closes is harmless."""
    cancelled = []

    async def wait(_request):
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(1)

    async def stream(_request):
        await wait(None)
        yield b""

    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Echo"), wait)
    service.add(Method.raw(SERVICE, "Count", MethodKind.SERVER_STREAM), stream)
    async with stranger_to(service) as stranger:
        await stranger.send(request(1), request(3, "Count"), end(1), end(3))
        assert await stranger.drain() == []
        await stranger.send(data(1, b"x"), data(3, b"x"))
        frames = await stranger.drain()
        assert sorted((each.stream_id, each.code) for each in frames) == [
            (1, StatusCode.INVALID_ARGUMENT),
            (3, StatusCode.INVALID_ARGUMENT),
        ]
        assert len(cancelled) == 2
        await stranger.send(data(1, b"x"))
        assert await stranger.drain() == []


async def test_a_refusal_never_waits_for_room():
    """The answers of calls may fill the outbox; a peer that does not read learns it later."""
    config = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=1))
    async with stranger_to(things(), config=config) as stranger:
        bodies = encode_frame(1, MessageType.REQUEST, 0, b"\xff")
        await stranger.send(bodies, *(request(each, "None") for each in range(3, 203, 2)))
        codes = [frame.code for frame in await stranger.drain()]
        assert codes == [StatusCode.INVALID_ARGUMENT] + [StatusCode.UNIMPLEMENTED] * 100
