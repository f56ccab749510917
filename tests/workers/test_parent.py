"""What a parent does about workers that say too much, or nothing, without a process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from rsocket_trio import Health
from rsocket_trio.uri import parse_uri
from rsocket_trio.workers.channel import Channel
from rsocket_trio.workers.messages import (
    MAX_ANSWER,
    Answer,
    Ask,
    Closing,
    Counts,
    Handed,
    Message,
    encode,
)
from rsocket_trio.workers.parent import Job, _Parent, _Worker
from tests.workers.test_channel import connection

URI = parse_uri("tcp://127.0.0.1:0")


def report(text: bytes) -> Answer:
    return Answer(metrics=False, more=False, part=text)


@contextmanager
def talking() -> Iterator[tuple[_Parent, _Worker, socket.socket]]:
    parent = _Parent(Job(run="a:b"), [URI], 1, None, 1.0, Health())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    worker = _Worker(1, 1)
    worker.channels.append(Channel(ours, 0))
    try:
        yield parent, worker, theirs
    finally:
        worker.channels[0].close()
        theirs.close()


@pytest.mark.parametrize(
    "message",
    [Ask(), Handed(1), *(report(text) for text in (b"{", b"[" * 20_000, b'{"a":' * 10_000))],
)
async def test_a_worker_that_says_what_it_must_not(message: Message) -> None:
    """It is killed at the first message, so it cannot fill the log; the parent goes on."""
    with talking() as (parent, worker, theirs):
        theirs.send(encode(message))
        with trio.fail_after(10):
            await parent._listen_to(worker, worker.channels[0])
        assert worker.unwanted


async def test_an_answer_without_an_end() -> None:
    """Its parts are bounded together."""
    with talking() as (parent, worker, theirs):

        async def say() -> None:
            part = encode(Answer(metrics=True, more=True, part=bytes(60_000)))
            with trio.socket.from_stdlib_socket(theirs.dup()) as sock:
                while not worker.unwanted:
                    await sock.send(part)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say)
            await parent._listen_to(worker, worker.channels[0])
            nursery.cancel_scope.cancel()
        assert worker.unwanted
        assert len(worker.parts) < 2 * MAX_ANSWER


async def test_a_worker_that_closes_again_and_again() -> None:
    """It is dismissed once: no task for each message."""
    with talking() as (parent, worker, theirs):
        for _ in range(100):
            theirs.send(encode(Closing()))
        theirs.close()
        async with trio.open_nursery() as parent._nursery:
            await parent._listen_to(worker, worker.channels[0])
            assert len(parent._nursery.child_tasks) == 1
            parent._nursery.cancel_scope.cancel()


async def test_reports_that_cannot_be_added() -> None:
    """The others are added, and nobody fails."""
    parent = _Parent(Job(run="a:b"), [URI], 1, None, 1.0, Health())
    for report in ({"a": 1.5, "b": 1}, {"a": 10**400}, {"b": 2}):
        worker = _Worker(1, 1)
        worker.state, worker.report = "ready", report
        worker.asked[Ask()] = trio.Event()
        parent.all.append(worker)
    for each in parent.all:
        parent_end, worker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        each.channels.append(Channel(parent_end, 0))
        worker_end.close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_answer, parent)
        assert await parent.report() == {"a": 1.5, "b": 3}
    for each in parent.all:
        each.channels[0].close()


async def _answer(parent: _Parent) -> None:
    await trio.testing.wait_all_tasks_blocked()
    for each in parent.all:
        each.asked[Ask()].set()


async def test_connections_are_handed_over_in_order() -> None:
    """Those that wait for room do not overtake each other, and only the first looks for it."""
    with talking() as (parent, worker, theirs):
        parent.all.append(worker)
        looks: list[int] = []
        by_load = parent._by_load
        parent._by_load = lambda place: looks.append(place) or by_load(place)  # type: ignore[method-assign]
        waiting = [await connection() for _ in range(20)]
        async with trio.open_nursery() as nursery:
            for number, (client, server) in enumerate(waiting):
                await client.send_all(bytes([number]))
                nursery.start_soon(parent._hand, 0, server)
                await trio.testing.wait_all_tasks_blocked()
            assert len(looks) < len(waiting)
            parent.generation, worker.state = 1, "ready"
            worker.channels[0].took(Counts(0, 0))
        for number, (client, _) in enumerate(waiting):
            _, descriptors, _, _ = socket.recv_fds(theirs, 100, 1)
            with socket.socket(fileno=descriptors[0]) as sock:
                assert sock.recv(1) == bytes([number])
            await client.aclose()
        for each in worker.channels[0].close():
            await each.aclose()


async def test_connections_that_wait_for_room_are_counted() -> None:
    """While no worker has room, those whose first frame was read are bounded like the others."""
    parent = _Parent(Job(run="a:b"), [URI], 1, None, 1.0, Health())
    client, server = await connection()
    await client.send_all(bytes(20))
    async with trio.open_nursery() as nursery:
        before = parent._peeks.value
        await parent._peeks.acquire()
        nursery.start_soon(parent._hand_by_frame, 0, server)
        await trio.testing.wait_all_tasks_blocked()
        assert parent._peeks.value == before - 1
        assert parent._silent == {}
        nursery.cancel_scope.cancel()
    assert parent._peeks.value == before
    assert server.socket.fileno() == -1
    await client.aclose()
