"""The workers: which one runs a request, the traces it leaves, and its pauses.

Modules of rsocket_trio.connection: crew, engine, job, queued_steps, workload.
"""

from __future__ import annotations

import contextvars

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import (
    ConnectionConfig,
    ConnectionStatistics,
    Limits,
    Payload,
    Rejected,
    Responder,
)
from rsocket_trio.connection import crew, first_steps, queued_steps
from rsocket_trio.frames import (
    CancelFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestResponseFrame,
    decode,
)
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client

SEEN = contextvars.ContextVar("SEEN", default="clean")


class Tasks(Responder):
    """Notes the task of every request, and does what its data says."""

    def __init__(self):
        self.tasks = []
        self.left = []

    async def request_response(self, payload):
        self.tasks.append(trio.lowlevel.current_task())
        match payload.data:
            case b"wait":
                await trio.sleep_forever()
            case b"yield":
                await trio.lowlevel.checkpoint()
            case b"sleep":
                await trio.sleep(5)
            case b"context":
                SEEN.set("dirty")
            case b"scope":
                scope = trio.CancelScope()
                scope.__enter__()
                self.left.append(scope)
            case b"deadline":
                scope = trio.move_on_after(1)
                scope.__enter__()
                self.left.append(scope)
            case b"nursery":
                manager = trio.open_nursery()
                self.left.append((manager, await manager.__aenter__()))
            case b"fail":
                raise KeyError
        return Payload(SEEN.get().encode())


async def ask(client, data=b""):
    return (await client.request_response(Payload(data))).data


async def at_rest():
    """The worker of the last request is waiting for the next."""
    await trio.testing.wait_all_tasks_blocked()


async def test_few_workers_serve_requests_that_do_not_block():
    """Requests in sequence or at once do not cost a task each if none of them blocks."""
    tasks = Tasks()
    async with connected_pair(tasks) as client:
        for _ in range(3):
            await ask(client)
            await at_rest()
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(ask, client)
    assert len(tasks.tasks) == 43
    # One worker is woken. When it rests after a burst, more are woken, depending on the order of
    # turns.
    assert len(set(tasks.tasks)) <= 3


async def test_a_handler_that_blocks_has_its_task_to_itself():
    """Each handler that waits has a task, and later requests have another."""
    tasks = Tasks()
    async with connected_pair(tasks) as client, trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask, client, b"wait")
        await trio.testing.wait_all_tasks_blocked()
        assert len(set(tasks.tasks)) == 5
        await ask(client)
        assert tasks.tasks[-1] not in tasks.tasks[:-1]
        nursery.cancel_scope.cancel()


async def test_thousands_of_handlers_that_block_begin_soon(monkeypatch):
    """Tasks are woken by threes and sevens, up to 40 in a turn of the loop."""
    began = []
    for module in (crew, first_steps, queued_steps):
        # On a busy machine a turn takes long, and then fewer tasks are woken.
        monkeypatch.setattr(module, "perf_counter", lambda: 0.0)

    class Turns(trio.abc.Instrument):
        def __init__(self):
            self.count = 0

        def before_io_wait(self, timeout):
            self.count += 1

    class Waits(Responder):
        async def request_response(self, payload):
            began.append(turns.count)
            await trio.sleep_forever()

    turns = Turns()
    trio.lowlevel.add_instrument(turns)
    async with connected_pair(Waits()) as client, trio.open_nursery() as nursery:
        for _ in range(2000):
            nursery.start_soon(client.request_response, Payload())
        await trio.testing.wait_all_tasks_blocked()
        assert len(began) == 2000
        assert began[-1] - began[0] <= 2000 / 40 + 20
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(turns)


@pytest.mark.parametrize("trace", [b"context", b"scope", b"deadline", b"nursery"])
async def test_the_context_of_a_request_does_not_reach_the_next(trace, autojump_clock, caplog):
    """Context variables, open scopes and nurseries stay with the request that left them."""
    tasks = Tasks()
    async with connected_pair(tasks) as client:
        answer = await ask(client, trace)
        assert answer == (b"dirty" if trace == b"context" else b"clean")
        await at_rest()
        async with trio.open_nursery() as nursery:

            async def next_request():
                with trio.fail_after(20):
                    assert await ask(client, b"sleep") == b"clean"

            nursery.start_soon(next_request)
            await trio.sleep(2)
            for left in tasks.left:
                if isinstance(left, trio.CancelScope):
                    left.cancel()
        assert tasks.tasks[0] is not tasks.tasks[1]
        assert await ask(client) == b"clean"
        assert client.statistics().open_streams == 0
    assert "please report" not in caplog.text


async def test_a_cancelled_worker_ends():
    """CANCEL cancels the worker's scope, so the next request has another."""
    tasks = Tasks()
    async with connected_pair(tasks) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client, b"wait")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        await ask(client)
    assert tasks.tasks[0] is not tasks.tasks[1]


async def test_the_number_of_idle_workers_is_limited():
    """After a burst of requests that wait, 64 workers stay for the next."""
    before = trio.lowlevel.current_statistics().tasks_living
    gate = trio.Event()

    class Gated(Responder):
        async def request_response(self, payload):
            await gate.wait()
            return payload

    async with connected_pair(Gated()) as client:
        await trio.testing.wait_all_tasks_blocked()
        quiet = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(ask, client)
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == quiet + 64
    assert trio.lowlevel.current_statistics().tasks_living == before


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        (Limits(max_active_requests=2), 2),
        (Limits(max_requests_size=10), 2),
        (Limits(max_requests_size=1), 1),
    ],
)
async def test_requests_beyond_the_limits_are_rejected(limits, fits):
    """Past max_active_requests or max_requests_size it is REJECTED; one request always fits."""
    tasks = Tasks()
    rejected = []

    async def waiting(client):
        try:
            await ask(client, b"wait")
        except Rejected:
            rejected.append(1)

    async with connected_pair(tasks, config=ConnectionConfig(limits=limits)) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(waiting, client)
            await trio.testing.wait_all_tasks_blocked()
            assert len(tasks.tasks) == fits
            assert len(rejected) == 4 - fits
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert await ask(client) == b"clean"


@pytest.mark.parametrize("size", [10, 1000])
async def test_a_full_outbox_pauses_and_resumes(size):
    """Thousands of answers through an outbox of a few bytes: all arrive."""
    config = ConnectionConfig(limits=Limits(max_outbox_size=100))
    answers = []

    class Large(Responder):
        async def request_response(self, payload):
            if payload.data[-1:] == b"7":
                await trio.lowlevel.checkpoint()
            return Payload(payload.data * size)

    async def one(client, number):
        answers.append(await ask(client, b"%d" % number))

    async with connected_pair(Large(), config=config) as client:
        async with trio.open_nursery() as nursery:
            for number in range(2000):
                nursery.start_soon(one, client, number)
        assert sorted(answers) == sorted(b"%d" % number * size for number in range(2000))
        assert client.statistics().open_streams == 0


async def test_a_full_outbox_pauses_workers_that_are_woken_together():
    """However many workers are woken, one handler begins while the peer reads no answer."""
    config = ConnectionConfig(limits=Limits(max_outbox_size=1000))
    made = 0

    class Large(Responder):
        async def request_response(self, payload):
            nonlocal made
            if payload.data == b"wait":
                await trio.sleep_forever()
            made += 1
            return Payload(bytes(60_000))

    async with frame_peer_client(Large(), config=config) as peer:
        waiting = [RequestResponseFrame(i, data=b"wait") for i in range(1, 600, 2)]
        await peer.send(*waiting, *[RequestResponseFrame(i) for i in range(601, 1200, 2)])
        await trio.testing.wait_all_tasks_blocked()
        assert made < 20  # The answers that the pipe holds, and one turn after the other for room.
        for _ in range(300):
            await peer.receive(PayloadFrame)
        assert made == 300


class Mixed(Responder):
    """Answers with a number of bytes: at once, after a turn, or never."""

    async def request_response(self, payload):
        kind, size = payload.data[:1], int(payload.data[1:])
        if kind == b"y":
            await trio.lowlevel.checkpoint()
        elif kind == b"w":
            await trio.sleep_forever()
        elif kind == b"d":
            SEEN.set("dirty")
        return Payload(bytes(size))


request = st.tuples(
    st.sampled_from([b"r", b"r", b"r", b"y", b"w", b"d"]),
    st.sampled_from([0, 10, 1000, 60_000]),
    st.integers(0, 9),
)


@given(
    batches=st.lists(st.lists(request, min_size=1, max_size=60), max_size=6),
    room=st.sampled_from([1, 100, 10_000, 2**18]),
    reads=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_every_request_begins(batches, room, reads):
    """Every request begins, in any mix of blocking, cancelled and large ones."""

    async def run():
        config = ConnectionConfig(limits=Limits(max_outbox_size=room))
        expected, answered, stream_id = set(), set(), 1
        async with frame_peer_client(Mixed(), config=config) as peer:

            async def read():
                while True:
                    for frame in map(decode, await peer.transport.receive_frames()):
                        if isinstance(frame, PayloadFrame):
                            answered.add(frame.stream_id)

            for batch, reading in zip(batches, reads, strict=False):
                frames = []
                for kind, size, number in batch:
                    frames.append(RequestResponseFrame(stream_id, data=kind + b"%d" % size))
                    if number == 0:  # one in ten
                        frames.append(CancelFrame(stream_id))
                    elif kind != b"w":
                        expected.add(stream_id)
                    stream_id += 2
                async with trio.open_nursery() as nursery:
                    if reading:
                        nursery.start_soon(read)
                    await peer.send(*frames)
                    await trio.lowlevel.checkpoint()
                    nursery.cancel_scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            assert expected <= answered

    trio.run(run)


@pytest.mark.parametrize("end", ["the client", "the server"])
async def test_the_connection_ends_while_a_request_waits_for_room(end, autojump_clock):
    """Workers do not retry for room in a closed outbox: the connection ends."""
    config = ConnectionConfig(limits=Limits(max_outbox_size=1000), close_timeout=1)
    made = 0

    class Large(Responder):
        async def accept(self, setup, requester):
            self.requester = requester
            return self

        async def request_response(self, payload):
            nonlocal made
            made += 1
            return Payload(bytes(60_000))

    server = Large()
    with trio.fail_after(60):
        async with frame_peer_client(server, config=config) as peer:
            await peer.send(*[RequestResponseFrame(i) for i in range(1, 600, 2)])
            await trio.testing.wait_all_tasks_blocked()
            assert 0 < made < 20
            if end == "the server":
                server.requester._connection.lifecycle.close()
                await server.requester.wait_closed()
    assert made < 20


@pytest.mark.parametrize("end", ["the client", "the server", "cancelled"])
async def test_nothing_is_kept_of_a_connection_that_is_over(end, autojump_clock):
    """An application may keep its requester: requests that never began go, and unsent frames."""
    config = ConnectionConfig(limits=Limits(max_outbox_size=1000), close_timeout=1)
    kept = []

    class Large(Responder):
        async def accept(self, setup, requester):
            kept.append(requester)
            return self

        async def request_response(self, payload):
            return Payload(bytes(60_000))

        async def request_channel(self, payload, payloads):
            async for item in payloads:
                yield item

    async with trio.open_nursery() as nursery:
        async with frame_peer_client(Large(), config=config) as peer:
            await peer.send(
                *[RequestResponseFrame(i) for i in range(1, 100, 2)],
                *[RequestChannelFrame(i, 1, data=b"item") for i in range(101, 200, 2)],
                *[RequestResponseFrame(i) for i in range(201, 9000, 2)],
            )
            await trio.testing.wait_all_tasks_blocked()
            statistics = kept[0].statistics()
            assert statistics.unread_size
            assert statistics.queued_size
            if end == "the server":
                kept[0]._connection.lifecycle.close()
                await kept[0].wait_closed()
            elif end == "cancelled":
                nursery.cancel_scope.cancel()
                await trio.lowlevel.checkpoint()
    connection = kept[0]._connection
    assert kept[0].statistics() == ConnectionStatistics(
        open_streams=0, active_requests=0, queued_size=0, unread_size=0
    )
    assert not connection.workload.queue
    assert connection.workload.account.held == 0
    assert connection.outbox.last is None
    assert not connection.crew._reader.frames
