"""Calls with one answer, as their callers see them."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionClosed,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    StreamIdsExhausted,
)
from rsocket_trio.ttrpc import (
    AnyMessage,
    CallError,
    Internal,
    Method,
    MethodKind,
    NotFound,
    ResourceExhausted,
    Status,
    StatusCode,
    TtrpcConfig,
    TtrpcLimits,
    codec_for,
    connect,
)
from rsocket_trio.ttrpc import errors as ttrpc_errors
from rsocket_trio.ttrpc.client.requests import timeout_until
from rsocket_trio.ttrpc.wire.envelopes import Response, decode_request, encode_response
from rsocket_trio.ttrpc.wire.frames import HEADER, MAX_BODY, MessageType, encode_frame
from tests.ttrpc.scenes import (
    CHAT,
    COUNT,
    ECHO,
    JOIN,
    answer,
    client_of,
    client_of_stranger,
    data,
    pair,
    refusal,
    things,
)

BOTH = pytest.mark.parametrize("over", ["memory", "socket"])


def read(frame):
    return decode_request(frame.body, max_metadata=10**6, max_entries=1000)


@BOTH
async def test_it_is_answered(over):
    async with client_of(things(), over=over) as client:
        for size in (0, 1, 127, 128, 16_383, 16_384, 10**6):
            assert await client.unary(ECHO, b"x" * size) == b"x" * size


async def test_the_request_as_it_is_sent():
    """Flags 0; service, method, payload, timeout and metadata."""
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:
        for metadata in (None, {"k": "v", "l": ["1", "2"]}, [("k", "2"), ("K", ""), ("k", "1")]):
            nursery.start_soon(lambda m=metadata: client.unary(ECHO, b"x", metadata=m))
            frame = await stranger.frame()
            request = read(frame)
            assert (frame.kind, frame.flags) == (MessageType.REQUEST, 0)
            assert (request.service, request.method, request.payload) == (
                "test.Things",
                "Echo",
                b"x",
            )
            assert request.timeout_nano == 0
            assert (
                request.metadata
                == {
                    None: (),
                    "dict": (("k", "v"), ("l", "1"), ("l", "2")),
                    "list": (("k", "2"), ("K", ""), ("k", "1")),
                }[metadata and type(metadata).__name__]
            )
            await stranger.send(answer(frame.stream_id))


@BOTH
async def test_ids_increase_on_the_wire(over):
    """With many tasks, and while the outbox is full: a Go server refuses them otherwise."""
    config = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=100))
    over = "lockstep" if over == "memory" else over
    async with client_of_stranger(over=over, config=config) as (client, stranger):
        stranger.pause()
        async with trio.open_nursery() as nursery:
            scopes = []

            async def ask(number):
                with trio.CancelScope() as scope:
                    scopes.append(scope)
                    await client.unary(ECHO, b"%d" % number * (1 if number % 3 else 50_000))

            for number in range(100):
                nursery.start_soon(ask, number)
            await trio.testing.wait_all_tasks_blocked()
            for scope in scopes[::7]:
                scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            stranger.resume()
            frames = await stranger.drain()
            ids = [each.stream_id for each in frames]
            assert ids == sorted(ids)
            assert len(set(ids)) == len(ids) >= 80
            assert all(each % 2 for each in ids)
            await stranger.send(*(answer(each) for each in ids))


async def test_answers_in_any_order():
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:
        got = {}

        async def ask(number):
            got[number] = await client.unary(ECHO, b"%d" % number)

        for number in range(50):
            nursery.start_soon(ask, number)
        frames = await stranger.drain()
        await stranger.send(
            *(answer(each.stream_id, read(each).payload) for each in reversed(frames))
        )
        await trio.testing.wait_all_tasks_blocked()
        assert got == {number: b"%d" % number for number in range(50)}


# -- deadlines ----------------------------------------------------------------------------------


async def test_the_deadline_of_the_caller_leaves_as_timeout(autojump_clock):
    """The nearest one around the call; for each kind of call."""
    async with client_of_stranger() as (client, stranger):
        for opened in (
            lambda: client.server_stream(COUNT, b""),
            lambda: client.client_stream(JOIN),
            lambda: client.bidi_stream(CHAT),
            None,
        ):
            with trio.move_on_after(5), trio.move_on_after(3), trio.move_on_after(10):
                if opened is None:
                    await client.unary(ECHO, b"")
                else:
                    async with opened():
                        await trio.sleep_forever()
            timeout = read(await stranger.frame()).timeout_nano
            assert timeout == pytest.approx(3e9)
            await stranger.drain()


@pytest.mark.parametrize(
    ("seconds", "timeout"),
    [(float("inf"), 0), (1, 10**9), (0.5e-9, 1), (-5, 1), (1e300, 2**63 - 1), (9.3e9, 2**63 - 1)],
)
async def test_the_timeout_in_nanoseconds(seconds, timeout, autojump_clock):
    assert timeout_until(trio.current_time() + seconds) == timeout


async def test_a_shielded_call_has_no_deadline(autojump_clock):
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:

        async def ask():
            with trio.move_on_after(1), trio.CancelScope(shield=True):
                await client.unary(ECHO, b"")

        nursery.start_soon(ask)
        assert read(await stranger.frame()).timeout_nano == 0
        await stranger.send(answer(1))


async def test_a_caller_whose_time_is_over(autojump_clock):
    """Its own cancel scope says so; the answer that comes later is ignored."""
    async with client_of_stranger() as (client, stranger):
        with pytest.raises(trio.TooSlowError), trio.fail_after(2):
            await client.unary(ECHO, b"")
        assert client.statistics().open_calls == 0
        await stranger.send(answer(1, b"late"), data(1, b"later"))
        await stranger.drain()
        assert client.statistics().ignored_frames == 2


async def test_a_cancelled_caller_sends_nothing():
    async with client_of_stranger() as (client, stranger):
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.unary(ECHO, b"")
        assert await stranger.drain() == []


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [each for each in StatusCode if each])
async def test_each_code_has_its_class(code):
    details = (AnyMessage("type", b"bytes"), AnyMessage("other", b""))
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:

        async def ask():
            with pytest.raises(CallError) as caught:
                await client.unary(ECHO, b"")
            error = caught.value
            name = "CallCancelled" if code == 1 else code.name.title().replace("_", "")
            assert type(error) is getattr(ttrpc_errors, name)
            assert (error.code, error.message, error.details) == (code, "why", details)
            assert error.code is code
            assert str(error) == f"{code.name}: why"

        nursery.start_soon(ask)
        await stranger.frame()
        await stranger.send(refusal(1, code, "why", details))


async def test_an_error_wins_over_a_payload():
    body = encode_response(Response(Status(5, "no"), b"payload"))
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:

        async def ask():
            with pytest.raises(NotFound, match="no"):
                await client.unary(ECHO, b"")

        nursery.start_soon(ask)
        await stranger.frame()
        await stranger.send(encode_frame(1, MessageType.RESPONSE, 0, body))


@BOTH
async def test_a_request_that_is_too_long(over):
    """Nothing is sent, and the connection is as good as before."""
    async with client_of_stranger(over=over) as (client, stranger):
        with pytest.raises(ResourceExhausted, match="nothing was sent"):
            await client.unary(ECHO, bytes(MAX_BODY))
        assert await stranger.drain() == []
        assert client.statistics().open_calls == 0


async def test_metadata_that_cannot_be_sent():
    async with client_of_stranger() as (client, stranger):
        with pytest.raises(LocalProtocolError):
            await client.unary(ECHO, b"", metadata={"k": "\ud800"})
        for wrong in ({"k": 1}, [("k",)], [("k", b"v")], {1: "v"}, ["kv"], [["k", "v"]]):
            with pytest.raises(TypeError, match="metadata must be"):
                await client.unary(ECHO, b"", metadata=wrong)
        assert await stranger.drain() == []


async def test_a_method_of_another_kind():
    async with client_of_stranger() as (client, stranger):
        with pytest.raises(TypeError, match=r"/test.Things/Count is of the kind server_stream"):
            await client.unary(COUNT, b"")
        for call, method in [
            (client.client_stream, ECHO),
            (client.bidi_stream, JOIN),
            (lambda m: client.server_stream(m, b""), CHAT),
        ]:
            with pytest.raises(TypeError, match=f"call Client.{method.kind.value}"):
                call(method)
        assert await stranger.drain() == []


async def test_messages_of_a_wrong_type():
    class Number(int):
        def SerializeToString(self):  # noqa: N802 - the name that protobuf has
            return b"%d" % self

        @classmethod
        def FromString(cls, raw):  # noqa: N802 - the name that protobuf has
            return cls(raw.decode())

    double = Method("s", "m", MethodKind.UNARY, codec_for(Number), codec_for(Number))
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:
        with pytest.raises(TypeError, match="a message must be Number here, not str"):
            await client.unary(double, "4")
        with pytest.raises(TypeError, match="a message must be bytes here, not str"):
            await client.unary(ECHO, "text")

        async def ask():
            with pytest.raises(Internal, match="a message of 4 bytes is no Number") as caught:
                await client.unary(double, Number(4))
            assert isinstance(caught.value.__cause__, ValueError)

        nursery.start_soon(ask)
        await stranger.frame()
        await stranger.send(answer(1, b"four"))


# -- the end of the connection ------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("how", ["close", "half a frame", "reserved byte"])
async def test_the_connection_ends_during_a_call(how, over):
    async with client_of_stranger(over=over) as (client, stranger), trio.open_nursery() as nursery:
        expected = ConnectionClosed if how == "reserved byte" else ConnectionLost

        async def ask():
            with pytest.raises(expected):
                await client.unary(ECHO, b"")

        for _ in range(3):
            nursery.start_soon(ask)
        await stranger.drain()
        if how == "half a frame":
            await stranger.send(answer(1)[:-1])
        if how == "reserved byte":
            await stranger.send(HEADER.pack(2**24, 99, 2, 0) + b"more")
        else:
            await stranger.leave()
        assert isinstance(await client.wait_closed(), expected)
        with pytest.raises(expected):
            await client.unary(ECHO, b"")
        with pytest.raises(expected):
            async with client.server_stream(COUNT, b""):
                pass


async def test_the_block_ends_during_a_call():
    here, there = pair()
    async with there, trio.open_nursery() as nursery:
        raised = []

        async def ask():
            try:
                await client.unary(ECHO, b"")
            except Exception as error:
                raised.append(error)

        async with connect(here) as client:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        assert [type(each) for each in raised] == [trio.ClosedResourceError]
        with pytest.raises(trio.ClosedResourceError):
            await client.unary(ECHO, b"")


async def test_the_connection_ends_in_the_turn_in_which_a_call_gets_room():
    """The call fails; it would wait for ever if it entered the table after the end."""
    config = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=1))
    async with client_of_stranger(over="lockstep", config=config) as (client, stranger):
        stranger.pause()
        outcomes = []

        async def ask(kind):
            try:
                if kind == "unary":
                    await client.unary(ECHO, b"x")
                elif kind == "send":
                    await call.send(b"x")
                else:
                    async with client.server_stream(COUNT, b"x") as replies:
                        await replies.receive()
            except Exception as error:
                outcomes.append(type(error))

        async with client.client_stream(JOIN) as call, trio.open_nursery() as nursery:
            connection = client._connection
            await trio.testing.wait_all_tasks_blocked()
            while not connection.room.used:  # the first frames are being written
                await call.send(b"fills the outbox")
                await trio.testing.wait_all_tasks_blocked()
            for kind in ("unary", "stream", "send"):
                nursery.start_soon(ask, kind)
            await trio.testing.wait_all_tasks_blocked()
            assert len(connection.room.waiting) == 3
            connection.room.set_limit(10**6)
            connection.lifecycle.lost(OSError("broken"))
        assert outcomes == [ConnectionLost] * 3
        assert connection.calls == {}


@pytest.mark.parametrize("kind", ["unary", "stream"])
async def test_a_request_that_waits_for_room_leaves_with_the_time_that_is_left(
    kind, autojump_clock
):
    """Not with the time from before the wait."""
    config = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=1))
    async with client_of_stranger(over="lockstep", config=config) as (client, stranger):
        stranger.pause()

        async def ask():
            with trio.move_on_after(10):
                if kind == "unary":
                    await client.unary(ECHO, b"x")
                else:
                    async with client.server_stream(COUNT, b"x") as replies:
                        assert [reply async for reply in replies] == []

        async with trio.open_nursery() as nursery:
            calls = 1
            while not client._connection.room.used:  # the first frames are being written
                nursery.start_soon(client.unary, ECHO, b"fills the outbox")
                await trio.testing.wait_all_tasks_blocked()
                calls += 1
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert len(client._connection.room.waiting) == 1
            await trio.sleep(4)
            stranger.resume()
            frames = [await stranger.frame() for _ in range(calls)]
            assert read(frames[-1]).timeout_nano == pytest.approx(6e9, rel=1e-3)
            for frame in frames:
                await stranger.send(answer(frame.stream_id))
        assert client.statistics().queued_size == 0


async def test_ids_are_used_up():
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:
        client._connection._next_id = 2**32 - 1
        nursery.start_soon(client.unary, ECHO, b"")
        assert (await stranger.frame()).stream_id == 2**32 - 1
        with pytest.raises(StreamIdsExhausted, match="connect again"):
            await client.unary(ECHO, b"")
        with trio.CancelScope() as scope:
            scope.cancel(reason="a cancelled caller sees the cancellation instead")
            await client.unary(ECHO, b"")
        assert scope.cancelled_caught
        await stranger.send(answer(2**32 - 1))
        await trio.testing.wait_all_tasks_blocked()
        assert client.statistics().queued_size == 0


async def test_data_on_a_unary_call_harms_that_call():
    async with client_of_stranger() as (client, stranger), trio.open_nursery() as nursery:

        async def ask():
            with pytest.raises(RemoteProtocolError, match="DATA frame on a unary call"):
                await client.unary(ECHO, b"")

        nursery.start_soon(ask)
        await stranger.frame()
        await stranger.send(data(1, b"x"), answer(1), answer(1))
        await stranger.drain()
        assert client.statistics().ignored_frames == 2
