"""PayloadStream and CreditGate by themselves: every way to read, and every way it can end."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import (
    ApplicationError,
    LocalProtocolError,
    Payload,
    RemoteProtocolError,
    sealed,
)
from rsocket_trio.account import ITEM_COST, Account
from rsocket_trio.interactions.credit_gate import CreditGate
from rsocket_trio.interactions.demand import PayloadInbox, PayloadStream
from rsocket_trio.protocol.credit import Window


class Recorder:
    """The operation and the outbound half of a stream, in one: notes each call."""

    def __init__(self, max_unread=1000):
        self.account = Account(max_unread, "Limits.max_unread_size", "are unread")
        self.grants = []
        self.abandoned = 0

    def grant(self, n):
        self.grants.append(n)

    def abandon(self):
        self.abandoned += 1


def make(prefetch=4, max_unread=1000, **window):
    recorder = Recorder(max_unread)
    inbox = PayloadInbox(recorder, recorder.account, Window(prefetch, **window), 10)
    return inbox, sealed.make(PayloadStream, inbox), recorder


async def test_every_way_to_read_keeps_the_order():
    """receive, async for, receive_nowait and receive_many take the items in order."""
    inbox, stream, recorder = make(8)
    for number in range(7):
        inbox.deliver(Payload(b"%d" % number, b"m"))
    inbox.end()
    assert recorder.account.held == 7 * (2 + ITEM_COST)
    got = [await stream.receive(), stream.receive_nowait(), await anext(stream)]
    got += await stream.receive_many(2)
    got += await stream.receive_many()
    assert [payload.data for payload in got] == [b"%d" % number for number in range(7)]
    for read in (stream.receive, stream.receive_many):
        with pytest.raises(trio.EndOfChannel):
            await read()
    with pytest.raises(trio.EndOfChannel):
        stream.receive_nowait()
    assert [item async for item in stream] == []
    assert recorder.account.held == 0
    assert recorder.grants == []  # A stream that has ended grants no more credit.


async def test_wrong_arguments_are_refused():
    """A wrong value is a ValueError, or a LocalProtocolError if it is about demand."""
    inbox, stream, _ = make()
    inbox.deliver(Payload(b"one"))
    inbox.deliver(Payload(b"two"))
    assert await stream.receive_many(1) == [Payload(b"one")]
    with pytest.raises(ValueError, match="limit"):
        await stream.receive_many(0)
    with pytest.raises(LocalProtocolError, match="at least 1"):
        stream.request_n(0)
    with pytest.raises(LocalProtocolError, match="prefetch=0"):
        stream.request_n(1)


async def test_manual_demand():
    """request_n grants its argument, up to max_prefetch outstanding or unread."""
    inbox, stream, recorder = make(0, initial=1)
    stream.request_n(9)
    with pytest.raises(LocalProtocolError, match="max_prefetch"):
        stream.request_n(1)
    inbox.deliver(Payload())
    await stream.receive()
    stream.request_n(1)
    assert recorder.grants == [9, 1]
    stream.close()
    with pytest.raises(trio.ClosedResourceError):
        stream.request_n(1)


async def test_an_overrun_is_the_peers_fault():
    """More items than granted, or more bytes than allowed, fail the stream."""
    inbox, _, _ = make(1)
    inbox.deliver(Payload())
    with pytest.raises(RemoteProtocolError, match="than it was granted"):
        inbox.deliver(Payload())
    inbox, _, _ = make(4, max_unread=5 + ITEM_COST)
    inbox.deliver(Payload(b"123", b"45"))
    with pytest.raises(RemoteProtocolError, match="max_unread_size"):
        inbox.deliver(Payload())  # An empty item takes memory too.


async def test_one_reader_at_a_time():
    """A second task that waits gets an error, and the first goes on."""
    inbox, stream, _ = make()
    got = []

    async def read():
        got.append(await stream.receive())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await stream.receive()
        inbox.deliver(Payload(b"x"))
    assert got == [Payload(b"x")]


@pytest.mark.parametrize("how", ["end", "fail", "close"])
async def test_the_end_wakes_a_waiting_reader(how):
    """Completion, failure and closing wake the reader."""
    inbox, stream, recorder = make()
    outcome = []

    async def read():
        try:
            await stream.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError, ApplicationError) as error:
            outcome.append(type(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        match how:
            case "end":
                inbox.end()
                inbox.end(ApplicationError("too late"))
            case "fail":
                inbox.end(ApplicationError("x"))
            case "close":
                stream.close()
                stream.close()
    kinds = {"end": trio.EndOfChannel, "fail": ApplicationError, "close": trio.ClosedResourceError}
    assert outcome == [kinds[how]]
    assert recorder.abandoned == (how == "close")


async def test_closing_gives_unread_bytes_back():
    """Closed unread items do not count, and aclose is a checkpoint that closes anyway."""
    inbox, stream, recorder = make()
    inbox.deliver(Payload(b"123", b"4"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()
    assert scope.cancelled_caught
    assert (recorder.account.held, recorder.abandoned) == (0, 1)
    for read in (stream.receive, stream.receive_many):
        with pytest.raises(trio.ClosedResourceError):
            await read()


async def test_cancelled_readers_lose_nothing():
    """Each way to read is a cancellation point, also if an item is there."""
    inbox, stream, _ = make()
    inbox.deliver(Payload(b"x"))
    for read in (stream.receive, stream.receive_many, stream.__anext__):
        with trio.CancelScope() as scope:
            scope.cancel()
            await read()
        assert scope.cancelled_caught
    assert await stream.receive() == Payload(b"x")
    with trio.move_on_after(0) as scope:
        await stream.receive()
    inbox.deliver(Payload(b"y"))
    assert stream.receive_nowait() == Payload(b"y")


async def test_iteration_lets_other_tasks_run():
    """Iterating over buffered items yields to other tasks at least every 64 items."""
    inbox, stream, _ = make(1000, max_unread=10**6)
    for _ in range(650):
        inbox.deliver(Payload())
    turns = []

    async def other():
        while True:
            turns.append(1)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(650):
            await anext(stream)
        assert len(turns) >= 9
        nursery.cancel_scope.cancel()


@given(prefetch=st.integers(1, 20), steps=st.lists(st.booleans(), max_size=200))
def test_unread_items_never_exceed_the_window(prefetch, steps):
    """In any order of turns, unread and granted items together stay within the window."""
    inbox, stream, recorder = make(prefetch)
    sent = 0
    for deliver in steps:
        credit = prefetch + sum(recorder.grants) - sent
        if deliver and credit:
            inbox.deliver(Payload())
            sent += 1
        elif not deliver and stream.statistics().unread:
            stream.receive_nowait()
        numbers = stream.statistics()
        assert numbers.unread + numbers.outstanding <= prefetch
        assert numbers.outstanding == prefetch + sum(recorder.grants) - sent
        assert numbers.outstanding or numbers.unread  # A reader that goes on gets all items.
        assert all(n >= -(-prefetch // 4) for n in recorder.grants)


async def test_a_producer_waits_for_credit_at_a_gate():
    """2**31-1 is an ordinary number."""
    gate = CreditGate(2)
    assert [gate.take() for _ in range(3)] == [True, True, False]
    woken = []

    async def wait():
        await gate.change()
        woken.append(gate.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == []
        gate.add(2**31 - 1)
        gate.add(2**31 - 1)
    assert woken == [True]
    assert gate.available == 2 * (2**31 - 1) - 1


async def test_closing_a_gate_wakes_its_producer():
    """A producer that was cancelled is not woken."""
    gate = CreditGate(0)
    with trio.move_on_after(0):
        await gate.change()
    gate.add(1)
    assert gate.available == 1
    assert gate.take()

    async def wait():
        await gate.change()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        gate.close()
    assert gate.closed
    assert not gate.take()
