"""Both ends of the socket between a parent and a worker, in one process."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from rsocket_trio.uri import parse_uri
from rsocket_trio.workers.channel import MOST_UNTAKEN, Channel
from rsocket_trio.workers.messages import (
    Answer,
    Ask,
    Closing,
    Counts,
    Handed,
    Malformed,
    Returned,
    Session,
    encode,
    token_hash,
)
from rsocket_trio.workers.worker import _Place, add_up

URI = parse_uri("tcp://127.0.0.1:0")


@asynccontextmanager
async def ends() -> AsyncIterator[tuple[Channel, _Place, Any]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(ours, 0)
    address = {"descriptor": theirs.detach(), "uri": str(URI), "bound": ["tcp://127.0.0.1:5"]}
    place = _Place({"number": 1, "generation": 1, "parent": os.getppid(), "addresses": [address]})
    listener: Any = place.listener(URI)
    try:
        yield channel, place, listener
    finally:
        for each in channel.close():
            await each.aclose()
        listener._sock.close()


async def connection() -> tuple[trio.SocketStream, trio.SocketStream]:
    one, other = (trio.socket.from_stdlib_socket(each) for each in socket.socketpair())
    return trio.SocketStream(one), trio.SocketStream(other)


async def listening(channel: Channel, listener: Any) -> None:
    """Let the worker say that it listens."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.accept)
        message = await channel.receive()
        assert message == Counts(0, 0)
        nursery.cancel_scope.cancel()
    channel.took(message)


async def test_a_connection_is_handed_over_and_counted() -> None:
    """The parent closes its copy when the worker has it, and knows when it has ended."""
    async with ends() as (channel, place, listener):
        assert not channel.has_room
        await listening(channel, listener)
        assert place.listener(URI) is None  # one server has it
        assert place.serves(URI)
        client, server = await connection()
        assert channel.hand(server, excess=True)
        stream = await listener.accept()
        assert stream in listener.excess
        taken = await channel.receive()
        assert taken == Counts(1, 0)
        channel.took(taken)
        assert (channel.open, channel.accepted, server.socket.fileno()) == (1, 1, -1)

        async def serve(stream: trio.SocketStream) -> None:
            await stream.send_all(b"x")
            await stream.aclose()

        await listener.counted(serve, stream)
        assert await client.receive_some() == b"x"
        ended = await channel.receive()
        assert ended == Counts(1, 1)
        channel.took(ended)
        assert (channel.open, listener.excess) == (0, set())
        await client.aclose()


async def test_a_worker_gets_no_more_than_it_takes() -> None:
    """One that hangs has a bounded number on its way, which another one gets when it is gone."""
    async with ends() as (channel, _, listener):
        await listening(channel, listener)
        while channel.has_room:
            client, server = await connection()
            await client.aclose()
            assert channel.hand(server, excess=False)
        assert len(channel.untaken) == channel.open == MOST_UNTAKEN
        left = channel.close()
        assert len(left) == MOST_UNTAKEN
        assert not channel.hand(left[0], excess=False) if channel.has_room else True
        for each in left:
            assert each.socket.fileno() != -1
            await each.aclose()


async def test_a_descriptor_that_did_not_arrive() -> None:
    """The worker says so, and the parent still has the connection."""
    async with ends() as (channel, _, listener):
        await listening(channel, listener)
        client, server = await connection()
        channel._sock.send(encode(Handed(1)))
        channel.untaken[1], channel._handed = server, 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.accept)
            returned = await channel.receive()
            assert returned == Returned(1)
            assert channel.gave_back(returned) is server
            assert channel.gave_back(returned) is None
            counts = await channel.receive()
            assert counts == Counts(1, 1)
            nursery.cancel_scope.cancel()
        await client.aclose()
        await server.aclose()


async def test_a_worker_without_descriptors_gets_a_pause(autojump_clock: trio.abc.Clock) -> None:
    """What it gives back would come again at once, thousands of times in a second."""
    async with ends() as (channel, _, _):
        channel.took(Counts(0, 0))
        assert channel.has_room
        channel.gave_back(Returned(1))
        assert not channel.has_room
        await trio.sleep(1)
        assert channel.has_room


async def test_the_end_stands_behind_what_was_handed_over() -> None:
    """A worker accepts all of it, and only then stops."""
    async with ends() as (channel, place, listener), trio.open_nursery() as nursery:
        await listening(channel, listener)
        client, server = await connection()
        assert channel.hand(server, excess=False)
        channel.dismiss()
        stopping = trio.Event()

        async def wait() -> None:
            await place.wait_stopping()
            stopping.set()

        nursery.start_soon(wait)
        stream = await listener.accept()
        assert not stopping.is_set()
        nursery.start_soon(listener.accept)
        await stopping.wait()
        for each in (stream, client):
            await each.aclose()
        nursery.cancel_scope.cancel()


async def test_what_could_not_be_said_is_said_later() -> None:
    """The parent may be slow: the last counts arrive nevertheless."""
    async with ends() as (channel, place, listener), trio.open_nursery() as nursery:
        await listening(channel, listener)
        nursery.start_soon(listener.accept)
        for number in range(1000):
            place.session(b"%d" % number, kept=True)
        listener._taken = 2000
        for _ in range(2000):
            listener.ended()
        sessions = 0
        channel._handed = 2000
        while (message := await channel.receive()) != Counts(2000, 2000):
            if isinstance(message, Session):
                sessions += 1
                assert message.digest == token_hash(b"%d" % (sessions - 1))
        assert sessions == 1000
        nursery.cancel_scope.cancel()


async def test_a_report() -> None:
    """It adds up what the servers of the process count; one that fails ends nothing."""
    async with ends() as (channel, place, listener), trio.open_nursery() as nursery:
        await listening(channel, listener)
        nursery.start_soon(listener.accept)
        assert channel.say(Ask())
        assert await channel.receive() == Answer(metrics=False, more=False, part=b"{}")
        broken: Any = SimpleNamespace()
        server = _Weak(broken)
        place.servers.add(server)  # type: ignore[arg-type]  # any object that fails
        assert channel.say(Ask())
        assert await channel.receive() == Answer(metrics=False, more=False, part=b"")
        nursery.cancel_scope.cancel()
        del server
        gc.collect()


class _Weak:
    """A server whose statistics fail."""

    def __init__(self, _: object) -> None:
        pass

    def statistics(self) -> None:
        raise RuntimeError("no numbers")


def test_numbers_are_added() -> None:
    """Also within mappings and lists; what is no number stays as it was said first."""
    total: dict[str, Any] = {}
    add_up(total, {"a": 1, "b": {"c": 2}, "d": "x"})
    add_up(total, {"a": 2, "b": {"c": 3, "e": 1}, "d": "y", "f": 0.5})
    assert total == {"a": 3, "b": {"c": 5, "e": 1}, "d": "x", "f": 0.5}


def test_rows_are_added_by_their_texts() -> None:
    """A route of several workers is one row; buckets are added by their places."""

    def row(route: str | None, begun: int, *counts: int) -> dict[str, Any]:
        ended = {"completed": {"counts": list(counts), "total": 0.5}}
        return {"interaction": "stream", "route": route, "begun": begun, "ended": ended}

    total: dict[str, Any] = {}
    for rows in ([row("a", 1, 1, 0), row(None, 2, 0, 2)], [row(None, 3, 1, 2), row("b", 4, 0, 4)]):
        add_up(total, {"by_route": rows})
    summed = row(None, 5, 1, 4)
    summed["ended"]["completed"]["total"] = 1.0
    assert total == {"by_route": [row("a", 1, 1, 0), summed, row("b", 4, 0, 4)]}


async def test_metrics_have_many_parts(caplog: pytest.LogCaptureFixture) -> None:
    """They arrive whole also at the end, when nobody waits for room; what is too long is not."""
    async with ends() as (channel, place, _):
        place.tell()  # there are none
        place.metrics = lambda: b"m" * 3_000_000
        place.tell()
        place.tell()  # it is behind, and says no more
        found = b""

        async def receive() -> None:
            nonlocal found
            while True:
                answer = await channel.receive()
                if isinstance(answer, Answer):
                    assert answer.metrics
                    found += answer.part
                    if not answer.more:
                        return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.to_thread.run_sync(place.say_last_words)
        assert found == b"m" * 3_000_000
        place.metrics = lambda: b"m" * 5_000_000
        assert place.answers(Ask(metrics=True)) == [Answer(metrics=True, more=False, part=b"")]
        assert "cannot be told: 5000000 bytes" in caplog.text


async def test_a_server_that_closes_says_so() -> None:
    """The parent hands nothing over to it any more."""
    async with ends() as (channel, _, listener):
        await listening(channel, listener)
        await listener.aclose()
        assert await channel.receive() == Closing()


@pytest.mark.parametrize("counts", [Counts(1, 0), Counts(5, 5)])
async def test_counts_that_cannot_be(counts: Counts) -> None:
    """A worker cannot have taken what it was not given."""
    async with ends() as (channel, _, _listener):
        with pytest.raises(Malformed, match="of 0 connections"):
            channel.took(counts)
