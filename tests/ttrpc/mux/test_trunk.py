"""A trunk and its streams: turns, ends, stuck readers, cancellation and hostile peers."""

from __future__ import annotations

import logging
import math
import socket
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed, RemoteProtocolError
from rsocket_trio.sockets.adopt import adopt
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.ttrpc.mux import MAX_UNREAD, PLUGIN_SERVICE, RUNTIME_SERVICE, multiplexed
from rsocket_trio.ttrpc.wire.frames import encode_frame
from rsocket_trio.ttrpc.wire.trunk import MAX_PIECE, TRUNK_HEADER, TrunkDecoder, encode_piece
from tests.sockets.echoing import echo_server
from tests.ttrpc.mux.trunks import receive, receive_all, trunk_pair


async def test_two_streams_in_both_directions() -> None:
    """Each is a connection of its own."""
    async with trunk_pair() as (one, other):
        pairs = [(one.open(n), other.open(n)) for n in (PLUGIN_SERVICE, RUNTIME_SERVICE)]
        data = bytes(range(256)) * 2000

        async def exchange(here: trio.abc.Stream, there: trio.abc.Stream, text: bytes) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(here.send_all, text)
                nursery.start_soon(there.send_all, text[::-1])
                assert await receive(there, len(text)) == text
                assert await receive(here, len(text)) == text[::-1]

        async with trio.open_nursery() as nursery:
            for i, pair in enumerate(pairs):
                nursery.start_soon(exchange, *pair, data[i:])
        assert (one.dropped, other.dropped) == (0, 0)


async def test_large_writes_take_turns() -> None:
    """A small write does not wait for the end of a large one."""
    here, there = trio.testing.lockstep_stream_pair()
    async with multiplexed(here) as trunk:
        large, small = trunk.open(1), trunk.open(2)
        order: list[int] = []
        decoder = TrunkDecoder()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(large.send_all, encode_frame(1, 1, 0, b"x" * 2**20))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(small.send_all, encode_frame(1, 1, 0, b"") * 900)
            await trio.testing.wait_all_tasks_blocked()
            while order.count(2) < 3:
                for connection, _ in decoder.feed(bytes(await there.receive_some())):
                    order.append(connection)
                await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    assert order == [1, 2, 1, 2, 1, 2]


async def test_closing_one_stream_leaves_the_other() -> None:
    """What arrives for it later is dropped without a word; the last one closes the trunk."""
    async with trunk_pair() as (one, other):
        a, b = one.open(1), one.open(2)
        x, y = other.open(1), other.open(2)
        await a.aclose()
        await x.send_all(b"for nobody")
        await y.send_all(b"hello")
        assert await receive(b, 5) == b"hello"
        await b.send_all(b"last words")
        await b.aclose()
        assert await receive_all(y) == b"last words"
        assert await receive_all(x) == b""
        assert one.dropped == 0


async def test_the_end_of_the_block_is_the_end_of_all() -> None:
    """Open streams are closed, and the peer gets the end."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(there) as other:
        x = other.open(1)
        async with multiplexed(here) as trunk:
            a = trunk.open(1)
            await a.send_all(b"data")
        for call in (partial(a.send_all, b""), a.receive_some, a.wait_send_all_might_not_block):
            with pytest.raises(trio.ClosedResourceError):
                await call()
        await a.aclose()
        with pytest.raises(trio.ClosedResourceError, match="this trunk is closed"):
            trunk.open(2)
        assert await receive_all(x) == b"data"


@pytest.mark.parametrize("cut", [1, 7, 8, 11])
async def test_an_end_inside_a_piece(cut: int) -> None:
    """All streams are broken, behind the bytes that came whole or in part."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here) as trunk:
        one, two = trunk.open(1), trunk.open(2)
        await there.send_all(encode_piece(1, b"whole") + encode_piece(2, b"partly")[:cut])
        await there.send_eof()
        assert await receive(one, 5) == b"whole"
        if cut > 8:
            assert await receive(two, cut - 8) == b"partly"[: cut - 8]
        for stream in (one, two, trunk.open(3)):
            with pytest.raises(trio.BrokenResourceError, match="ended inside a piece"):
                await stream.receive_some()


async def test_sending_goes_on_behind_the_end_of_the_peer() -> None:
    """A peer that sends no more may still read answers."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here) as trunk:
        stream = trunk.open(1)
        await there.send_eof()
        assert await stream.receive_some() == b""
        assert await trunk.open(2).receive_some() == b""
        await stream.send_all(b"answer")
        assert await receive(there, 14) == encode_piece(1, b"answer")


async def test_a_trunk_that_breaks() -> None:
    """Both directions of all streams raise the error of trio."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here) as trunk:
        one, two = trunk.open(1), trunk.open(2)
        there.receive_stream.close()
        with pytest.raises(trio.BrokenResourceError, match="the trunk is broken"):
            await one.send_all(b"x")
        for call in (partial(two.send_all, b"x"), two.wait_send_all_might_not_block):
            with pytest.raises(trio.BrokenResourceError, match="the trunk is broken"):
                await call()


async def test_what_a_peer_sends_while_nothing_is_open() -> None:
    """The trunk reads from the first open on, so nothing is lost before."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here) as trunk:
        await there.send_all(encode_piece(1, b"early"))
        await trio.testing.wait_all_tasks_blocked()
        assert await receive(trunk.open(1), 5) == b"early"
        assert trunk.dropped == 0


async def test_a_flood_for_connections_that_are_not_open(caplog: pytest.LogCaptureFixture) -> None:
    """Their bytes are counted and dropped, with one line; the open stream gets its own."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here) as trunk:
        stream = trunk.open(1)
        flood = b"".join(encode_piece(n, b"xy") + encode_piece(n, b"") for n in range(2, 5000))
        await there.send_all(encode_piece(0, b"z") + flood + encode_piece(1, b"hello") + flood)
        assert await receive(stream, 5) == b"hello"
        await trio.testing.wait_all_tasks_blocked()
        assert trunk.dropped == 1 + 2 * 2 * 4998
        assert not stream._branch.unread
    assert [r.getMessage() for r in caplog.records] == [
        "a trunk has bytes for connection 0, which is not open"
    ]


async def test_a_flood_leaves_turns_to_others() -> None:
    """The reading task lets other tasks run after each read."""
    here, there = trio.testing.memory_stream_pair()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with multiplexed(here) as trunk:
        stream = trunk.open(1)
        reads = 30
        flood = TRUNK_HEADER.pack(7, 0) * (reads * 8192)
        await there.send_all(flood + encode_piece(1, b"x"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            assert await receive(stream, 1) == b"x"
            nursery.cancel_scope.cancel()
    assert turns >= reads


@pytest.mark.parametrize("length", [MAX_PIECE + 1, 2**32 - 1])
async def test_a_piece_that_is_too_long(length: int, caplog: pytest.LogCaptureFixture) -> None:
    """It ends the trunk at its header: what came before is delivered, then there is an error."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here) as trunk:
        one, two = trunk.open(1), trunk.open(2)
        await there.send_all(encode_piece(1, b"before") + TRUNK_HEADER.pack(2, length))
        assert await receive(one, 6) == b"before"
        for stream in (one, two):
            for call in (stream.receive_some, partial(stream.send_all, b"x")):
                with pytest.raises(trio.BrokenResourceError, match=f"a piece of {length}") as found:
                    await call()
                assert isinstance(found.value.__cause__, RemoteProtocolError)
        assert await receive_all(there) == b""
    (record,) = caplog.records
    assert record.levelno == logging.WARNING


async def test_a_stuck_reader_ends_alone(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its stream fails after the trunk's patience; the other one goes on, and memory is bounded."""
    here, there = trio.testing.memory_stream_pair()
    async with multiplexed(here, patience=7) as trunk:
        stuck, read = trunk.open(1), trunk.open(2)
        began = trio.current_time()
        flood = b"".join(encode_piece(1, b"x" * 65536) for _ in range(50))
        await there.send_all(flood + encode_piece(2, b"hello"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(assert_held_below, stuck, MAX_UNREAD + 65536))
            assert await receive(read, 5) == b"hello"
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began == pytest.approx(7)
        for call in (stuck.receive_some, partial(stuck.send_all, b"x")):
            with pytest.raises(trio.BrokenResourceError, match=r"connection 1 .* not read for 7 s"):
                await call()
        assert not stuck._branch.unread
        await there.send_all(encode_piece(1, b"x" * 10**6) + encode_piece(2, b"again"))
        assert await receive(read, 5) == b"again"
    (record,) = caplog.records
    assert "its bytes were not read for 7 s" in record.getMessage()


async def assert_held_below(stream: object, limit: int) -> None:
    while True:
        assert len(stream._branch.unread) < limit  # type: ignore[attr-defined]  # internal
        await trio.sleep(0.01)


async def test_a_slow_reader_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """A reader that takes a little within the trunk's patience gets all."""
    data = bytes(range(256)) * 400
    async with trunk_pair(max_unread=1000, patience=10) as (one, other):
        sender, receiver = one.open(1), other.open(1)
        got = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender.send_all, data)
            while len(got) < len(data):
                await trio.sleep(9)
                got += await receiver.receive_some(70_000)
        assert got == data


async def test_a_blocked_event_loop_is_not_a_stuck_reader(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A handler that holds up everything for a long time takes one slice of the patience."""
    async with trunk_pair(max_unread=10, patience=10) as (one, other):
        sender, receiver = one.open(1), other.open(1)
        await sender.send_all(b"x" * 10)
        await trio.testing.wait_all_tasks_blocked()
        await sender.send_all(b"y" * 10)
        await trio.testing.wait_all_tasks_blocked()
        autojump_clock.jump(1000)
        await trio.testing.wait_all_tasks_blocked()
        assert await receive(receiver, 20) == b"x" * 10 + b"y" * 10


async def test_closing_a_full_stream_frees_the_trunk() -> None:
    """The trunk does not wait for a reader that is gone."""
    async with trunk_pair(max_unread=10, patience=math.inf) as (one, other):
        a, b = one.open(1), one.open(2)
        x, y = other.open(1), other.open(2)
        for _ in range(3):
            await a.send_all(b"x" * 10)
        await b.send_all(b"hello")
        await trio.testing.wait_all_tasks_blocked()
        assert not y._branch.unread
        await x.aclose()
        assert await receive(y, 5) == b"hello"


async def test_a_cancelled_send_tears_no_piece() -> None:
    """At every moment of a write: the other stream goes on, and pieces are whole or not sent."""
    data = encode_frame(1, 1, 0, b"x" * 200_000)
    for reads in range(1, 10):
        here, there = trio.testing.lockstep_stream_pair()
        async with multiplexed(here) as trunk:
            cancelled, other = trunk.open(1), trunk.open(2)
            got = b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancelled.send_all, data)
                await trio.testing.wait_all_tasks_blocked()
                for _ in range(reads):
                    got += await there.receive_some(30_000)
                    await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.send_all, b"whole")
                while not got.endswith(encode_piece(2, b"whole")):
                    got += await there.receive_some(1000)
        decoder = TrunkDecoder()
        pieces = decoder.feed(got)
        assert not decoder.pending
        assert (
            b"".join(piece for number, piece in pieces if number == 1)
            == (data[: sum(len(piece) for number, piece in pieces if number == 1)])
        )


async def test_a_send_that_is_cancelled_before_its_turn_sends_nothing() -> None:
    """Its piece leaves the line."""
    here, there = trio.testing.lockstep_stream_pair()
    async with multiplexed(here) as trunk:
        first, second = trunk.open(1), trunk.open(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.send_all, b"first")
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(0.01):
                await second.send_all(b"second")
            got = await receive(there, 13)
            nursery.start_soon(second.send_all, b"third")
            got += await receive(there, 13)
        assert got == encode_piece(1, b"first") + encode_piece(2, b"third")


async def test_an_error_in_the_block_has_no_group() -> None:
    """It leaves as it is, and everything is closed."""
    here, there = trio.testing.memory_stream_pair()
    with pytest.raises(KeyError, match="mine"):
        async with multiplexed(here) as trunk:
            trunk.open(1)
            raise KeyError("mine")
    assert await there.receive_some() == b""


async def test_cancelling_the_block() -> None:
    """The trunk is closed, also with a piece that cannot be written."""
    here, there = trio.testing.lockstep_stream_pair()
    with trio.CancelScope() as scope:
        async with multiplexed(here) as trunk:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trunk.open(1).send_all, b"x")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
    assert scope.cancelled_caught
    assert await receive_all(there) in {b"", encode_piece(1, b"x")}


async def test_an_address_is_dialled(tmp_path: Path) -> None:
    """So a plugin of NRI needs one line; the facts are those of the socket."""
    path = f"{tmp_path}/nri.sock"
    async with assert_no_leaks(), echo_server(path):
        async with multiplexed(path) as trunk:
            assert (trunk.info.scheme, trunk.info.peer) == ("ttrpc+unix", path)
            plugin, runtime = trunk.open(PLUGIN_SERVICE), trunk.open(RUNTIME_SERVICE)
            await plugin.send_all(b"one")
            await runtime.send_all(b"two")
            assert await receive(runtime, 3) == b"two"
            assert await receive(plugin, 3) == b"one"
    with pytest.raises(ConnectFailed, match="No such file"):
        async with multiplexed(f"{tmp_path}/none"):
            raise AssertionError("connected")


async def test_an_inherited_socket() -> None:
    """A `ByteStream` gives its facts to the trunk."""
    here, there = trio.socket.socketpair()
    async with multiplexed(adopt(here)) as one, multiplexed(adopt(there)) as other:
        assert one.info.extra["peer_credentials"]
        a, x = one.open(1), other.open(1)
        data = b"x" * 3_000_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.send_all, data)
            assert await receive(x, len(data)) == data


@pytest.mark.parametrize("kind", ["socket", "socket of trio", "number"])
async def test_an_open_socket(kind: str) -> None:
    """As `connect` and `serve_stream` take one."""
    here, there = socket.socketpair()
    target = {
        "socket": lambda: here,
        "socket of trio": lambda: trio.socket.from_stdlib_socket(here),
        "number": here.detach,
    }[kind]()
    async with multiplexed(target) as one, multiplexed(there) as other:
        a, x = one.open(1), other.open(1)
        await a.send_all(b"hello")
        assert await receive(x, 5) == b"hello"


async def test_wrong_arguments() -> None:
    """They are refused before anything is opened."""
    for options in ({"max_unread": 0}, {"patience": 0}, {"patience": math.nan}):
        with pytest.raises(ValueError, match="must be greater than 0"):
            async with trunk_pair(**options):
                raise AssertionError
    with pytest.raises(TypeError, match="an address, an open stream or a socket is needed, not"):
        async with multiplexed(b"x"):  # type: ignore[arg-type]  # the mistake
            raise AssertionError
