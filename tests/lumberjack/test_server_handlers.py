"""What handlers may do: return, fail, acknowledge parts, misuse scopes; and poison events."""

from __future__ import annotations

import contextvars
import logging
import math
from functools import partial

import pytest
import trio

from rsocket_trio import ConnectionLost
from rsocket_trio.lumberjack import (
    Batch,
    DataFrame,
    InvalidEvent,
    LumberjackConfig,
    encode_batch,
    serve,
)
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to, served, shared
from tests.lumberjack.vectors import compressed, event, window


async def test_a_batch():
    """A handler gets the events raw and decoded, the payload, and facts about the connection."""
    seen = []

    async def handler(batch):
        seen.append((batch.raw, batch.events, batch.version, batch.is_json, batch.compressed))
        assert len(batch) == len(batch.raw)
        assert batch.size == sum(map(len, batch.raw))
        assert batch.acknowledged == 0
        assert batch.events is batch.events
        assert list(batch.numbered()) == list(enumerate(batch.events, 1))
        assert batch.transport.peer.startswith("127.0.0.1:")
        assert repr(batch).startswith(f"<Batch of {len(batch)} events, version {batch.version}")

    packed = compressed(event(1, b'{"a":1}'))
    pairs = DataFrame(1, 1, ((b"line", b"x"), (b"host", b"h"))).encode()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(window(1) + packed + window(1, 1) + pairs)
            assert [await sender.ack(), await sender.ack()] == [(2, 1), (1, 1)]
        await server.aclose()
    assert seen[0] == ([b'{"a":1}'], [{"a": 1}], 2, True, packed[6:])
    assert seen[1][1:] == ([{"line": "x", "host": "h"}], 1, False, None)


def test_batches_are_sealed():
    with pytest.raises(TypeError, match="serve calls the handler with one"):
        Batch()


async def test_partial_acks(autojump_clock):
    """Partial ACKs leave at once; never backwards, never twice."""

    async def handler(batch):
        for n in (2, 1, 2, 0, 4):
            await batch.ack(n)
            assert batch.acknowledged == (4 if n == 4 else 2)
            await trio.sleep(1)
        for wrong in (-1, 6):
            with pytest.raises(ValueError, match=f"there are 5 events, so {wrong} cannot"):
                await batch.ack(wrong)
        for wrong in ("1", 1.0, True):
            with pytest.raises(TypeError, match="n must be an int"):
                await batch.ack(wrong)

    async with served(shared(handler)) as one:
        began = trio.current_time()
        await one.sender.send(full_window(5))
        assert [await one.sender.ack() for _ in range(3)] == [(2, 2), (2, 4), (2, 5)]
        assert trio.current_time() - began == pytest.approx(5)
        await one.sender.no_ack_for(100)


async def test_version_1_gets_only_the_last_ack(autojump_clock):
    """A sender of version 1 takes any ACK for the last one, so a part leaves no frame."""

    async def handler(batch):
        await batch.ack(2)
        assert batch.acknowledged == 2
        await trio.sleep(60)

    async with served(shared(handler)) as one:
        await one.sender.send(full_window(3, version=1))
        await one.sender.no_ack_for(59)
        assert await one.sender.ack() == (1, 3)
        await one.sender.no_ack_for(59)


async def test_everything_acknowledged_early(autojump_clock):
    """The last ACK may leave before the handler returns; it leaves once, without keep-alives."""

    async def handler(batch):
        await batch.ack(len(batch))
        await trio.sleep(60)

    async with served(shared(handler)) as one:
        await one.sender.send(full_window(3))
        assert await one.sender.ack() == (2, 3)
        await one.sender.no_ack_for(100)


async def test_acks_by_several_tasks(autojump_clock):
    """Tasks of a handler may acknowledge at the same time; each waits for its own ACK."""

    async def handler(batch):
        async with trio.open_nursery() as nursery:
            for n in range(1, 6):
                nursery.start_soon(batch.ack, n)

    async with served(shared(handler)) as one:
        await one.sender.send(full_window(5))
        sequences = []
        while not sequences or sequences[-1] != 5:
            sequences.append((await one.sender.ack())[1])
        assert sequences == sorted(set(sequences))


async def test_a_batch_that_is_kept(autojump_clock):
    """A batch can be acknowledged after its handler, unless its connection is over."""
    kept = []

    async def handler(batch):
        kept.append(batch)
        if len(kept) == 2:
            raise ValueError("no")

    async with served(shared(handler)) as one:
        await one.sender.send(full_window(3) + full_window(3))
        assert await one.sender.acks_until_end() == [(2, 3)]
        await kept[0].ack(3)
        with pytest.raises(ConnectionLost, match="the connection of this batch is over"):
            await kept[1].ack(1)
        assert kept[1].acknowledged == 0


async def leave_a_scope_open(_batch):
    trio.CancelScope().__enter__()


async def leave_a_cancelled_scope_open(_batch):
    trio.CancelScope(deadline=-1).__enter__()
    raise ValueError("and fail")


async def leave_a_nursery_open(_batch):
    nursery = trio.open_nursery()
    opened = await nursery.__aenter__()
    opened.start_soon(trio.sleep_forever)
    KEPT.append(nursery)


async def leave_a_shielded_scope_and_a_nursery_open(batch):
    await leave_a_nursery_open(batch)
    trio.CancelScope(shield=True).__enter__()


KEPT = []


async def raise_a_stray_cancelled(_batch):
    with trio.CancelScope(deadline=-1):
        try:
            await trio.sleep(1)
        except trio.Cancelled as cancelled:
            error = cancelled
    raise error


async def raise_a_group(_batch):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(acknowledge_a_part, _batch)
        nursery.start_soon(trio.sleep, 0)


async def acknowledge_a_part(batch):
    await batch.ack(2)
    raise RuntimeError("the rest failed")


async def raise_a_base_exception(_batch):
    raise GeneratorExit


def no_coroutine(_batch):
    return None


@pytest.mark.parametrize(
    ("bad", "acks"),
    [
        (leave_a_cancelled_scope_open, []),
        (leave_a_nursery_open, []),
        (leave_a_shielded_scope_and_a_nursery_open, []),
        (raise_a_stray_cancelled, []),
        (raise_a_group, [(2, 2)]),
        (raise_a_base_exception, []),
        (acknowledge_a_part, [(2, 2)]),
        (no_coroutine, []),
    ],
    ids=lambda bad: getattr(bad, "__name__", ""),
)
async def test_failing_handlers(bad, acks, caplog):
    """The rest stays unacknowledged, the connection closes with one line; others go on."""

    def handler(batch):
        return good(batch) if batch.events[0]["n"] == 7 else bad(batch)

    async def good(batch):
        await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as other, sender_to(server) as sender:
            await other.send(full_window(1, 7))
            await sender.send(full_window(3) + full_window(1, 4))
            assert await sender.acks_until_end() == acks
            assert await other.ack() == (2, 7)
            await other.send(full_window(1, 7))
            assert await other.ack() == (2, 7)
        await server.aclose()
    KEPT.clear()
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    left = 3 - sum(sequence for _, sequence in acks)
    assert f"failed with {left} of 3 events of a batch from 127.0.0.1" in line.getMessage()
    assert "crashed" not in caplog.text


async def test_a_scope_left_open_does_no_harm(caplog):
    """The scope belongs to a task in which nothing else is done afterwards."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, leave_a_scope_open, ADDRESS)
        async with sender_to(server) as sender:
            for _ in range(3):
                await sender.send(full_window(1))
                assert await sender.ack() == (2, 1)
        await server.aclose()
    assert not caplog.records


async def test_handlers_share_a_task_until_one_leaves_something_there(autojump_clock):
    """The next batch never finds what another one has left; a clean handler costs no task."""
    tasks, found = [], []
    variable = contextvars.ContextVar("variable", default="nothing")

    async def handler(batch):
        tasks.append(trio.lowlevel.current_task())
        found.append((variable.get(), trio.current_effective_deadline()))
        if len(tasks) == 2:
            variable.set("of the second one")
        elif len(tasks) == 4:
            trio.CancelScope(shield=True, deadline=trio.current_time() + 9).__enter__()

    async with served(shared(handler)) as one:
        for _ in range(6):
            await one.sender.send(full_window(1))
            assert await one.sender.ack() == (2, 1)
    assert found == [("nothing", math.inf)] * 6
    assert tasks[0] is tasks[1]
    assert tasks[2] is tasks[3]
    assert tasks[4] is tasks[5]
    assert len(set(tasks)) == 3


async def test_the_handler_is_cancelled_when_the_sender_leaves(caplog):
    """The handler gets Cancelled; the log says what was not acknowledged."""
    caplog.set_level(logging.INFO)
    begun, ended = trio.Event(), []

    async def handler(_batch):
        begun.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            ended.append("cancelled")
            raise

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(full_window(1))
            await begun.wait()
        while not ended:
            await trio.sleep(0.01)
        while server.statistics().connections:
            await trio.sleep(0.01)
        assert server.statistics().held_batches == 0
        await server.aclose()
    assert "with 1 batches not acknowledged" in caplog.text


BAD = [
    (b"{", "is not JSON at character 1"),
    (b"\xff", "is not UTF-8 at byte 0"),
    (b"[" * 100_000, "is nested too deeply"),
    (b'{"a":NaN}', "NaN"),
]


@pytest.mark.parametrize("is_async", [True, False])
async def test_poison_with_a_hook(is_async):
    """The hook gets the raw bytes before the handler runs; all of the batch is acknowledged."""
    poisons, seen = [], []

    async def wait_and_take(poison):
        await trio.sleep(0.01)
        poisons.append(poison)

    async def handler(batch):
        assert len(poisons) == len(BAD)
        seen.extend(batch.numbered())
        assert batch.events == [{"a": 1}, {"b": 2}]
        assert len(batch) == len(BAD) + 2

    hook = wait_and_take if is_async else poisons.append
    events = [b'{"a":1}', *(raw for raw, _ in BAD), b'{"b":2}']
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, ADDRESS, on_poison=hook))
        async with sender_to(server) as sender:
            await sender.send(encode_batch(events))
            assert await sender.ack() == (2, len(events))
        await server.aclose()
    assert seen == [(1, {"a": 1}), (len(events), {"b": 2})]
    assert [(poison.raw, poison.number) for poison in poisons] == [
        (raw, number) for number, (raw, _) in enumerate(BAD, 2)
    ]
    for poison, (_, reason) in zip(poisons, BAD, strict=True):
        assert reason in poison.reason
        assert poison.version == 2
        assert poison.transport.peer.startswith("127.0.0.1:")


async def test_only_poison():
    """A batch in which no event can be decoded is handled too, with no events."""
    seen = []

    async def handler(batch):
        seen.append((batch.events, list(batch.numbered()), len(batch)))

    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(serve, handler, ADDRESS, on_poison=lambda poison: poison.number)
        )
        async with sender_to(server) as sender:
            await sender.send(encode_batch([b"{", b"]"]))
            assert await sender.ack() == (2, 2)
        await server.aclose()
    assert seen == [([], [], 2)]


async def test_poison_without_a_hook(caplog):
    """`events` raises, so the handler fails and nothing is acknowledged; `raw` still works."""
    seen = []

    async def handler(batch):
        seen.append(batch.raw)
        with pytest.raises(InvalidEvent):
            batch.numbered()
        assert batch.events

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(encode_batch([b'{"a":1}', b"{"]))
            assert await sender.acks_until_end() == []
        await server.aclose()
    assert seen == [[b'{"a":1}', b"{"]]
    assert "event 2 is not JSON" in caplog.text
    assert "serve(..., on_poison=...) takes such events" in caplog.text


async def test_a_hook_that_fails(caplog):
    """It counts as a failure of the handler."""

    async def handler(_batch):
        raise AssertionError

    def hook(_poison):
        raise OSError("the disk is full")

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, ADDRESS, on_poison=hook))
        async with sender_to(server) as sender:
            await sender.send(encode_batch([b"{"]))
            assert await sender.acks_until_end() == []
        await server.aclose()
    assert "the disk is full" in caplog.text


async def test_arguments():
    """Wrong arguments are errors before anything is opened."""

    async def handler(_batch):
        pass

    for arguments, options, error, text in [
        ((handler,), {}, ValueError, "name an address"),
        ((None, ADDRESS), {}, TypeError, "handler must be a function or a Router"),
        ((handler, ADDRESS), {"on_poison": 1}, TypeError, "on_poison must be a function"),
        ((handler, "tcp://127.0.0.1:1"), {}, ValueError, "'tcp' is not one of lumberjack, lumber"),
        ((handler, ADDRESS), {"config": None}, TypeError, "must be a LumberjackConfig"),
        ((handler, "lumberjacks://127.0.0.1:0"), {}, ValueError, "needs an ssl_context"),
        ((handler, ADDRESS), {"max_connections": 0}, ValueError, "at least 1"),
    ]:
        with pytest.raises(error, match=text):
            await serve(*arguments, **options)


def test_config():
    """Each number is checked."""
    for wrong in (
        {"max_batches": 0},
        {"max_waiting_batches": -1},
        {"progress_timeout": 0},
        {"idle_timeout": -1},
        {"flush_delay": float("nan")},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            LumberjackConfig(**wrong)
    with pytest.raises(TypeError, match="send_timeout must be a number"):
        LumberjackConfig(send_timeout="1")
