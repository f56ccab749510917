"""A call of a server, from its request to its one last frame; and its deadline."""

from __future__ import annotations

from math import inf

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.account import Account
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.ttrpc import (
    AnyMessage,
    Call,
    Method,
    MethodKind,
    NotFound,
    ResourceExhausted,
    Service,
    StatusCode,
    TtrpcConfig,
    TtrpcLimits,
)
from rsocket_trio.ttrpc.server.bound import ServedMethod
from rsocket_trio.ttrpc.server.calls import StreamCall, UnaryCall
from rsocket_trio.ttrpc.server.replies import Replies
from rsocket_trio.ttrpc.wire.frames import MAX_BODY
from tests.ttrpc.scenes import (
    SERVICE,
    data,
    end,
    frame_of,
    one,
    opening,
    request,
    stranger_to,
    things,
)

SECOND = 10**9
TIGHT = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=64))
BOTH = pytest.mark.parametrize("over", ["memory", "socket"])


def last_frames(frames) -> list[tuple[int, int]]:
    """The id of each last frame, and its status; of DATA with "remote closed" it is 0."""
    return [(each.stream_id, each.code if each.kind == 2 else 0) for each in frames if each.is_last]


class Number(int):
    """A message."""

    def SerializeToString(self):  # noqa: N802 - the name that protobuf has
        return b"%d" % self

    @classmethod
    def FromString(cls, data):  # noqa: N802 - the name that protobuf has
        return cls(data.decode())


# -- deadlines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MethodKind)
async def test_the_deadline_ends_a_handler(kind, autojump_clock):
    """DEADLINE_EXCEEDED, at the time that the client has said, and for each kind of call."""
    ended = []

    async def wait(_request):
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async def stream(_request):
        await wait(None)
        yield b""

    service = one(kind, stream if kind.receives_stream else wait)
    async with stranger_to(service) as stranger:
        begun = trio.current_time()
        flags = 0x02 if kind.sends_stream else 0
        await stranger.send(request(1, timeout=3 * SECOND, flags=flags))
        frame = await stranger.frame()
        assert frame.code == StatusCode.DEADLINE_EXCEEDED
        assert trio.current_time() - begun == pytest.approx(3)
        assert ended == [pytest.approx(begun + 3)]
        assert await stranger.drain() == []


async def test_a_negative_timeout_is_over_at_once():
    async def handler(_request):
        raise AssertionError("it must not run")

    async with stranger_to(one(MethodKind.UNARY, handler)) as stranger:
        await stranger.send(request(1, timeout=-1), request(3, timeout=-(2**63)))
        codes = [frame.code for frame in await stranger.drain()]
        assert codes == [StatusCode.DEADLINE_EXCEEDED] * 2


@pytest.mark.parametrize("timeout", [1, 2**63 - 1])
async def test_the_shortest_and_the_longest_timeout(timeout, autojump_clock):
    """One nanosecond lets a handler run that does not wait; 292 years are no problem."""
    deadlines = []

    async def handler(request, call: Call):
        deadlines.append(call.deadline - trio.current_time())
        return request

    async with stranger_to(one(MethodKind.UNARY, handler)) as stranger:
        await stranger.send(request(1, payload=b"x", timeout=timeout))
        assert (await stranger.frame()).payload == b"x"
        assert deadlines == [pytest.approx(timeout / 1e9, abs=1e-6)]


async def test_no_timeout_is_no_deadline(autojump_clock):
    async def handler(request, call: Call):
        assert call.deadline == float("inf")
        await trio.sleep(10_000)
        return request

    async with stranger_to(one(MethodKind.UNARY, handler)) as stranger:
        await stranger.send(request(1, payload=b"x"))
        with trio.fail_after(20_000):
            await trio.sleep(10_001)
        assert (await stranger.frame()).payload == b"x"


async def test_a_handler_that_finishes_after_its_deadline(autojump_clock):
    """It absorbs its cancellation: what it returns is the answer, and there is no other."""

    async def handler(request):
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
        return request

    async with stranger_to(one(MethodKind.UNARY, handler)) as stranger:
        await stranger.send(request(1, payload=b"late", timeout=SECOND))
        await trio.sleep(10)
        frames = await stranger.drain()
        assert [frame.payload for frame in frames] == [b"late"]


@pytest.mark.parametrize("error", [NotFound("gone"), ValueError("secret")])
async def test_a_handler_that_fails_at_its_deadline(error, autojump_clock):
    """Its own error is the answer."""

    async def handler(_request):
        try:
            await trio.sleep_forever()
        finally:
            raise error

    async with stranger_to(one(MethodKind.UNARY, handler)) as stranger:
        await stranger.send(request(1, timeout=SECOND))
        frame = await stranger.frame()
        assert frame.code == (5 if isinstance(error, NotFound) else 2)
        assert b"secret" not in frame.body
        await trio.sleep(10)
        assert await stranger.drain() == []


async def test_a_nursery_of_a_handler_at_its_deadline(autojump_clock):
    async def handler(_request):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(trio.sleep_forever)

    async with stranger_to(one(MethodKind.UNARY, handler)) as stranger:
        await stranger.send(request(1, timeout=SECOND))
        assert (await stranger.frame()).code == StatusCode.DEADLINE_EXCEEDED


async def test_the_deadline_passes_while_the_answer_waits_for_room(autojump_clock):
    """The status leaves in place of the answer, which is dropped: one last frame."""
    async with stranger_to(things(), config=TIGHT, over="lockstep") as stranger:
        stranger.pause()
        for stream_id in (1, 3, 5, 7):
            await stranger.send(request(stream_id, payload=bytes(1000), timeout=SECOND))
            await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(5)
        stranger.resume()
        frames = await stranger.drain()
        assert [each.stream_id for each in frames] == [1, 3, 5, 7]
        assert [len(each.payload) for each in frames[:2]] == [1000, 1000]
        assert [each.code for each in frames[2:]] == [StatusCode.DEADLINE_EXCEEDED] * 2


# -- one last frame -----------------------------------------------------------------------------


class Table:
    """In place of `IncomingCalls`: the calls share an outbox whose room the test gives."""

    def __init__(self):
        self.outbox = Outbox(1, 2**20, 2**20)
        self.replies = Replies(self.outbox, Account(2**20, "max_answers_size", "wait"), MAX_BODY)
        self.outbox.put(b"x")  # so that there is no room

    def forget(self, call):
        pass

    def give_room(self):
        self.outbox.room.give_back(1)

    @property
    def sent(self):
        return [frame_of(each) for each in self.outbox._frames[1:]]


def made(kind: MethodKind, handler) -> tuple[Table, UnaryCall]:
    table = Table()
    bound = one(kind, handler).methods["Echo"]
    method = ServedMethod.of(bound)
    if kind is MethodKind.UNARY:
        return table, UnaryCall(table, 1, method, b"", None, inf)
    return table, StreamCall(table, 1, method, b"", None, inf, None)


async def echo(request):
    return request


async def twice(request):
    yield request
    yield request


@pytest.mark.parametrize(
    ("event", "codes"),
    [
        (lambda call: call.end_with(ResourceExhausted("no")), [StatusCode.RESOURCE_EXHAUSTED]),
        (lambda call: call.stop("the connection is over"), []),
        (lambda call: call.connection_closed(), []),
    ],
    ids=["refused", "stopped", "connection over"],
)
@pytest.mark.parametrize(
    ("kind", "handler"), [(MethodKind.UNARY, echo), (MethodKind.SERVER_STREAM, twice)]
)
async def test_a_call_ends_in_the_turn_in_which_it_gets_room(kind, handler, event, codes):
    """The frame that has got room is not sent behind the last one, and the room is given back."""
    table, call = made(kind, handler)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.answer)
        await trio.testing.wait_all_tasks_blocked()
        assert table.sent == []
        table.give_room()
        event(call)
    call.close(None)
    assert [each.code for each in table.sent] == codes
    assert table.outbox.room.used == 0


async def test_a_deadline_in_the_turn_in_which_it_gets_room():
    """The answer has won; no status follows."""
    table, call = made(MethodKind.UNARY, echo)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.answer)
            await trio.testing.wait_all_tasks_blocked()
            table.give_room()
            scope.cancel()
    call.close(None)
    assert [each.code for each in table.sent] == [0]


@pytest.mark.parametrize("kind", MethodKind)
async def test_an_answer_is_the_last_frame(kind):
    """`respond` ends the call, so an error behind it sends nothing."""
    table, call = made(kind, twice if kind.receives_stream else echo)
    table.outbox.room.set_limit(1000)
    await call.answer()
    assert not call.live
    call.close(ValueError("behind the answer"))
    call.close(None)
    call.end_with(ResourceExhausted("no"))
    assert last_frames(table.sent) == [(1, 0)]


STEPS = {
    "data": lambda i: data(i, b"x"),
    "end": end,
    "data and end": lambda i: data(i, b"x", 0x01),
    "too long": lambda i: data(i, bytes(2000)),
    "again": lambda i: opening(i, "Echo"),
}


@pytest.mark.parametrize("kind", MethodKind)
@pytest.mark.parametrize("when", ["before", "after"])
@given(steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=4), outcome=st.booleans())
@settings(max_examples=40)
def test_one_last_frame_whatever_the_client_sends(kind, when, steps, outcome):
    """In any order, before the handler ends or after. A request with a used id has its refusal."""
    config = TtrpcConfig(limits=TtrpcLimits(max_message_size=1000))

    async def wait(_request):
        await gate.wait()
        if not outcome:
            raise NotFound("no")
        return b""

    async def stream(_request):
        yield await wait(None)

    async def main():
        service = one(kind, stream if kind.receives_stream else wait)
        async with stranger_to(service, config=config) as stranger:
            await stranger.send(request(1, flags=0x02 if kind.sends_stream else 0))
            if when == "after":
                gate.set()
                await trio.testing.wait_all_tasks_blocked()
            for step in steps:
                await stranger.send(STEPS[step](1))
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
            frames = await stranger.drain()
            refused = [
                each
                for each in frames
                if each.kind == 2 and each.code and "re-used" in each.status.message
            ]
            assert len(refused) == steps.count("again")
            assert len(last_frames(frames)) == 1 + len(refused)
            assert await stranger.ask(3) == b"" if outcome and not kind.receives_stream else True

    gate = trio.Event()
    trio.run(main)


@BOTH
async def test_a_handler_of_a_stream_that_ends_first(over):
    """PROTOCOL.md, "Streaming": the server ends the call; what still comes is dropped."""

    async def first_only(messages):
        return await messages.receive()

    async with stranger_to(one(MethodKind.CLIENT_STREAM, first_only), over=over) as stranger:
        await stranger.send(opening(1, "Echo"), data(1, b"a"))
        assert (await stranger.frame()).payload == b"a"
        await stranger.send(data(1, b"b"), data(1, b"c"), end(1))
        assert await stranger.drain() == []


@BOTH
async def test_an_overdue_call_does_not_begin(over, autojump_clock):
    """Its client has left: nobody needs the work."""
    begun = []

    async def slow(request):
        begun.append(request)
        await clock_moves()
        return request

    async def clock_moves():
        autojump_clock.jump(5)

    service = one(MethodKind.UNARY, slow)
    async with stranger_to(service, over=over) as stranger:
        await stranger.send(
            *(request(each, payload=b"%d" % each, timeout=SECOND) for each in (1, 3, 5))
        )
        frames = await stranger.drain()
        assert begun == [b"1"]
        assert [each.code for each in frames] == [0, 4, 4]


@BOTH
async def test_an_error_of_a_stream_is_a_response(over):
    async def fails(request):
        yield b"one"
        raise NotFound("no more")

    async with stranger_to(one(MethodKind.SERVER_STREAM, fails), over=over) as stranger:
        await stranger.send(request(1))
        first, last = await stranger.drain()
        assert first.body == b"one"
        assert (last.code, last.status.message) == (StatusCode.NOT_FOUND, "no more")


async def test_messages_that_cannot_be_read():
    """INTERNAL, for that call only; the text of the codec's error is not sent."""

    service = Service(SERVICE)

    @service.method("Echo")
    async def double(request: Number) -> Number:
        return Number(2 * request)

    @service.method("Join")
    async def total(parts: trio.abc.ReceiveChannel[Number]) -> Number:
        return Number(sum([each async for each in parts]))

    async with stranger_to(service) as stranger:
        await stranger.send(request(1, payload=b"secret"))
        await stranger.send(opening(3), data(3, b"2"), data(3, b"secret"), end(3))
        await stranger.send(opening(5), data(5, b"2"), data(5, b"3"), end(5))
        frames = {each.stream_id: each for each in await stranger.drain()}
        assert frames[1].code == frames[3].code == StatusCode.INTERNAL
        assert frames[1].status.message == (
            "ttrpc: error unmarshalling payload: 6 bytes are no Number"
        )
        assert frames[3].status.message == "a message of 6 bytes is no Number"
        assert frames[5].payload == b"5"


@pytest.mark.parametrize("waits", [False, True])
async def test_answers_of_a_wrong_type(waits, caplog):
    """UNKNOWN, as Go says when there is nothing that it could send."""

    async def nothing(_request):
        if waits:
            await trio.lowlevel.checkpoint()

    async def texts(_request):
        yield b"right"
        yield "wrong"

    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Echo"), nothing)
    service.add(Method.raw(SERVICE, "Count", MethodKind.SERVER_STREAM), texts)
    async with stranger_to(service) as stranger:
        await stranger.send(request(1), request(3, "Count"))
        frames = await stranger.drain()
        assert sorted(last_frames(frames)) == [(1, StatusCode.UNKNOWN), (3, StatusCode.UNKNOWN)]
    said = "a message must be bytes here, not NoneType\nthe handler of /test.Things/Echo returned"
    assert said in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        NotFound("half of a pair: \ud800"),
        NotFound("x", details=[AnyMessage("half of a pair: \ud800", b"")]),
    ],
)
async def test_a_status_that_cannot_be_sent_as_it_is(error, caplog):
    """Its code leaves; only this call is harmed."""

    async def fails(_request):
        raise error

    service = one(MethodKind.UNARY, fails)
    async with stranger_to(service) as stranger:
        for stream_id in (1, 3):
            await stranger.send(request(stream_id))
            assert (await stranger.frame()).code == StatusCode.NOT_FOUND
    assert "please report" not in caplog.text


async def test_long_texts_and_details():
    """A status never waits for room, so its size is limited."""

    async def fails(request):
        details = [AnyMessage("type", bytes(int(request)))]
        raise NotFound("x" * int(request), details=details)

    async with stranger_to(one(MethodKind.UNARY, fails)) as stranger:
        await stranger.send(request(1, payload=b"10"))
        status = (await stranger.frame()).status
        assert status.details == (AnyMessage("type", bytes(10)),)
        await stranger.send(request(3, payload=b"100000"))
        status = (await stranger.frame()).status
        assert status.details == ()
        assert status.message == "x" * (2**14 - 3) + "..."
