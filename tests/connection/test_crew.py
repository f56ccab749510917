"""The workers: who runs which request, what they leave behind, and when they pause."""

from __future__ import annotations

import contextvars

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import (
    ApplicationError,
    ConnectionClosed,
    ConnectionConfig,
    ConnectionStatistics,
    Limits,
    Payload,
    Rejected,
    Responder,
)
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


async def test_few_workers_serve_what_does_not_block():
    """Requests one after the other, and at once, do not cost a task each where none blocks."""
    tasks = Tasks()
    async with connected_pair(tasks) as client:
        for _ in range(3):
            await ask(client)
            await at_rest()
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(ask, client)
    assert len(tasks.tasks) == 43
    # One is woken; when it rests after a burst, more are, depending on whose turn comes first.
    assert len(set(tasks.tasks)) <= 3


async def test_a_handler_that_blocks_has_its_task_to_itself():
    """Each of those that wait has a task, and what comes behind has another."""
    tasks = Tasks()
    async with connected_pair(tasks) as client, trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask, client, b"wait")
        await trio.testing.wait_all_tasks_blocked()
        assert len(set(tasks.tasks)) == 5
        await ask(client)
        assert tasks.tasks[-1] not in tasks.tasks[:-1]
        nursery.cancel_scope.cancel()


async def test_thousands_of_handlers_that_block_begin_soon():
    """Tasks are woken by threes and sevens, up to 40 in a turn of the loop."""
    began = []

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
async def test_traces_of_a_handler_do_not_reach_the_next(trace, autojump_clock, caplog):
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


async def test_only_so_many_idle_workers_are_kept():
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
        (Limits(max_streams=2), 2),
        (Limits(max_requests_size=10), 2),
        (Limits(max_requests_size=1), 1),
    ],
)
async def test_more_requests_than_allowed(limits, fits):
    """Past max_streams or max_requests_size the answer is REJECTED; one request always fits."""
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
    config = ConnectionConfig(limits=Limits(outbox_size=100))
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


async def test_a_full_outbox_pauses_those_woken_together():
    """However many workers block, and more are woken: for answers nobody reads one begins."""
    config = ConnectionConfig(limits=Limits(outbox_size=1000))
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
        assert made < 20  # what the pipe holds, and one turn after the other for room
        for _ in range(300):
            await peer.receive(PayloadFrame)
        assert made == 300


class Mixed(Responder):
    """Answers of so many bytes, at once, or after a turn, or never."""

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
    """Whatever blocks, is cancelled or fills the outbox, and whenever the peer reads."""

    async def run():
        config = ConnectionConfig(limits=Limits(outbox_size=room))
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


class Uncomparable:
    """As an array of numpy's: whether one equals another is no truth value."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("ambiguous")


VALUE = contextvars.ContextVar("VALUE")


@pytest.mark.parametrize("wait", [False, True])
async def test_context_variables_that_cannot_be_compared(wait):
    """One that a handler replaces stays with its request, and harms nobody."""

    class Sets(Responder):
        async def request_response(self, payload):
            seen.append(VALUE.get())
            VALUE.set(Uncomparable())
            if wait:
                await trio.lowlevel.checkpoint()
            return payload

    seen = []
    VALUE.set(first := Uncomparable())
    async with connected_pair(Sets()) as client:
        for _ in range(3):
            await client.request_response(Payload(b"x"))
    assert all(value is first for value in seen)


class Unusual(BaseException):
    """As those of other frameworks' cancellations."""


class Interrupts:
    """Comparing it raises what is no `Exception`."""

    __hash__ = None

    def __eq__(self, other):
        raise Unusual


class Alike:
    """One equals another."""

    __hash__ = None

    def __eq__(self, other):
        return True


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("make", [dict, list, Alike, Interrupts])
async def test_context_variables_with_an_equal_value(make, wait):
    """Another value is another one, also where it is equal, e.g. a dict that is empty for now."""

    class Sets(Responder):
        async def request_response(self, payload):
            seen.append(VALUE.get())
            VALUE.set(make())
            if wait:
                await trio.lowlevel.checkpoint()
            return payload

    seen = []
    VALUE.set(first := make())
    async with connected_pair(Sets()) as client:
        for _ in range(5):
            await client.request_response(Payload(b"x"))
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.request_response, Payload(b"x"))
    assert all(value is first for value in seen)


class Unsplittable(BaseExceptionGroup):
    """Its class forgot what the others are made with."""

    def derive(self, excs):
        raise TypeError


class Unsplit(Unsplittable):
    def split(self, condition):
        raise TypeError


@pytest.mark.parametrize("group", [Unsplittable, Unsplit])
@pytest.mark.parametrize("wait", ["", "wait", "cancelled"])
async def test_a_group_that_cannot_be_split(group, wait, caplog):
    """It is a failure as any other, with a cancellation beside it or without."""

    class Raises(Responder):
        async def request_response(self, payload):
            if payload.data:
                return payload
            try:
                if wait:
                    await (trio.lowlevel.checkpoint if wait == "wait" else trio.sleep_forever)()
            finally:
                raise group("", [Unusual(), ValueError()])

    async with connected_pair(Raises()) as client:
        if wait == "cancelled":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.request_response)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        else:
            with pytest.raises(ApplicationError):
                await client.request_response()
        assert await client.request_response(Payload(b"x")) == Payload(b"x")
    assert "please report" not in caplog.text


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("later", [False, True])
async def test_a_scope_left_open_is_cancelled(wait, later, caplog):
    """It is noticed, at once or while the task that has it reads; the connection lives."""

    class Leaves(Responder):
        async def request_response(self, payload):
            if payload.data:
                scopes.append(trio.CancelScope())
                scopes[-1].__enter__()
                if not later:
                    scopes[-1].cancel()
                elif wait:
                    await trio.lowlevel.checkpoint()
            return payload

    scopes = []
    async with connected_pair(Leaves()) as client:
        await ask(client)
        await at_rest()
        await ask(client)  # the scope of its task, opened just now, lasts for some time
        assert await ask(client, b"x") == b"x"
        await at_rest()
        scopes[0].cancel()
        await at_rest()
        assert await ask(client) == b""
    assert "left a cancel scope open" in caplog.text
    assert "please report" not in caplog.text


async def leave_scope():
    trio.CancelScope().__enter__()
    await trio.sleep_forever()


async def leave_scope_late():
    try:
        await trio.sleep_forever()
    finally:
        trio.CancelScope().__enter__()


async def leave_nursery():
    await trio.open_nursery().__aenter__()
    await trio.sleep_forever()


async def raise_unusual():
    try:
        await trio.sleep_forever()
    finally:
        raise Unusual


async def raise_unusual_in_a_nursery():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raise_unusual)
        nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize(
    "misuse",
    [leave_scope, leave_scope_late, leave_nursery, raise_unusual, raise_unusual_in_a_nursery],
)
@pytest.mark.parametrize("side", ["server", "client"])
async def test_what_is_misused_at_the_end_of_a_connection(misuse, side, caplog):
    """It ends as any other: no server falls over it, and no block of a client fails."""

    class Misuses(Responder):
        async def request_response(self, payload):
            begun.set()
            await misuse()

    async def accept(_setup, requester):
        if side == "server":
            return Misuses()
        nursery.start_soon(unanswered, requester)
        return Responder()

    async def unanswered(requester):
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises((ConnectionClosed, trio.ClosedResourceError)):
            await requester.request_response()

    begun = trio.Event()
    async with trio.open_nursery() as nursery:
        async with connected_pair(accept, client_responder=Misuses()) as client:
            if side == "server":
                nursery.start_soon(unanswered, client)
            await begun.wait()
            await trio.testing.wait_all_tasks_blocked()
    assert "please report" not in caplog.text


@pytest.mark.parametrize("end", ["the client", "the server"])
async def test_the_end_while_a_request_waits_for_room(end, autojump_clock):
    """Nobody tries again and again in an outbox that is closed: the connection ends."""
    config = ConnectionConfig(limits=Limits(outbox_size=1000), close_timeout=1)
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
    config = ConnectionConfig(limits=Limits(outbox_size=1000), close_timeout=1)
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
            assert statistics.unread
            assert statistics.queued
            if end == "the server":
                kept[0]._connection.lifecycle.close()
                await kept[0].wait_closed()
            elif end == "cancelled":
                nursery.cancel_scope.cancel()
                await trio.lowlevel.checkpoint()
    connection = kept[0]._connection
    assert kept[0].statistics() == ConnectionStatistics(
        open_streams=0, running_requests=0, queued=0, unread=0
    )
    assert not connection.crew.queue
    assert connection.crew.size == 0
    assert connection.outbox.last is None
    assert not connection.crew._reader.frames
