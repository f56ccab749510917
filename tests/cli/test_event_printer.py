"""Printing batches: whole lines, one batch after the other, and an acknowledgement at the end."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio.cli import event_printer
from rsocket_trio.cli.event_printer import EventPrinter
from rsocket_trio.cli.stdio import Writer
from rsocket_trio.lumberjack import LumberjackConfig, encode_batch
from tests.lumberjack.receiving import served, shared

KEEPALIVE = (2, 0)


@attrs.define
class Printing:
    """A printer whose output is a pipe."""

    printer: EventPrinter
    output: int
    over: trio.Event
    _rest: bytes = b""

    async def read(self, lines: int) -> list[int]:
        """Read at least so many lines; return the numbers in them."""
        while self._rest.count(b"\n") < lines:
            await trio.lowlevel.wait_readable(self.output)
            self._rest += os.read(self.output, 2**20)
        whole, _, self._rest = self._rest.rpartition(b"\n")
        return [json.loads(line)["n"] for line in whole.splitlines()]


@asynccontextmanager
async def printing(**options: int) -> AsyncIterator[Printing]:
    (output, writes_output), (errors, writes_errors) = os.pipe(), os.pipe()
    printer = EventPrinter(Writer(writes_output), Writer(writes_errors), **options)
    over = trio.Event()

    async def run() -> None:
        await printer.run()
        over.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            yield Printing(printer, output, over)
            nursery.cancel_scope.cancel()
    finally:
        for fd in (output, writes_output, errors, writes_errors):
            os.close(fd)


def batch(first: int, count: int = 1, size: int = 0) -> bytes:
    events = [b'{"n":%d,"x":"%s"}' % (n, b"x" * size) for n in range(first, first + count)]
    return encode_batch(events, compression_level=0)


@pytest.mark.parametrize("name", ["event_line", "invalid_line"])
async def test_other_tasks_run_while_the_line_of_a_large_event_is_made(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It may take seconds, in which other senders need their ACKs and keep-alives."""
    go_on = threading.Event()

    def slow(*_args: object, **_options: object) -> bytes:
        return b'{"n":%d}\n' % go_on.wait(10)

    monkeypatch.setattr(event_printer, name, slow)
    event = (b'"%s"' if name == "event_line" else b"%s") % (b"x" * 100_000)
    async with (
        printing() as one,
        served(shared(one.printer.handle)) as connection,
    ):
        await connection.sender.send(encode_batch([event]))
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
        if name == "event_line":
            assert await one.read(1) == [1]
        assert await connection.sender.ack() == (2, 1)


async def test_keepalives_while_the_reader_stands_still(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A sender of version 2 gets a keep-alive in each interval, and the ACK after the last line."""
    async with (
        printing() as one,
        served(shared(one.printer.handle, LumberjackConfig(keepalive_interval=5))) as connection,
    ):
        await connection.sender.send(batch(0, 300, 1000))
        assert [await connection.sender.ack() for _ in range(3)] == [KEEPALIVE] * 3
        assert await one.read(300) == list(range(300))
        while (ack := await connection.sender.ack()) == KEEPALIVE:
            pass
        assert ack == (2, 300)


async def test_batches_do_not_mix() -> None:
    """The batches of several senders are printed one after the other."""
    async with (
        printing() as one,
        served(shared(one.printer.handle)) as first,
        served(shared(one.printer.handle)) as second,
    ):
        await first.sender.send(batch(0, 200, 1000))
        await trio.testing.wait_all_tasks_blocked()
        await second.sender.send(batch(1000, 200, 1000))
        await trio.testing.wait_all_tasks_blocked()
        assert await one.read(400) == [*range(200), *range(1000, 1200)]
        assert await first.sender.ack() == (2, 200)
        assert await second.sender.ack() == (2, 200)


async def test_a_sender_that_leaves() -> None:
    """What is printed of its batch are whole lines, not all; the batch of another follows."""
    async with printing() as one, served(shared(one.printer.handle)) as second:
        async with served(shared(one.printer.handle)) as first:
            await first.sender.send(batch(0, 2000, 1000))
            await trio.testing.wait_all_tasks_blocked()
        await second.sender.send(batch(9999))
        found: list[int] = []
        while 9999 not in found:
            found += await one.read(1)
        printed = found[:-1]
        assert printed == list(range(len(printed)))
        assert 0 < len(printed) < 2000
        assert await second.sender.ack() == (2, 1)


async def test_a_sender_that_leaves_before_its_turn() -> None:
    """Nothing of its batch is printed."""
    async with printing() as one, served(shared(one.printer.handle)) as first:
        await first.sender.send(batch(0, 200, 1000))
        await trio.testing.wait_all_tasks_blocked()
        async with served(shared(one.printer.handle)) as second:
            await second.sender.send(batch(5000))
            await trio.testing.wait_all_tasks_blocked()
        await first.sender.send(batch(200))
        assert await one.read(201) == list(range(201))


async def test_the_last_event_and_a_sender_that_leaves() -> None:
    """``run`` returns after ``take`` events, also if their sender is gone meanwhile."""
    async with printing(take=64) as one:
        async with served(shared(one.printer.handle)) as first:
            await first.sender.send(batch(0, 300, 2000))
            await trio.testing.wait_all_tasks_blocked()
            assert not one.over.is_set()
        assert len(await one.read(33)) < 64
        async with served(shared(one.printer.handle)) as second:
            await second.sender.send(batch(0, 300, 2000))
            while not one.over.is_set():
                await one.read(1)
                await trio.testing.wait_all_tasks_blocked()
            acknowledged = await second.sender.ack()
            assert acknowledged is not None
            assert 0 < acknowledged[1] < 64


async def test_the_last_slice_and_a_sender_that_leaves() -> None:
    """As above, while the last of these events are being printed."""
    async with printing(take=33) as one:
        async with served(shared(one.printer.handle)) as first:
            await first.sender.send(batch(0, 300, 2000))
            await trio.testing.wait_all_tasks_blocked()
            assert not one.over.is_set()
        assert await one.read(33) == list(range(33))
        await one.over.wait()
