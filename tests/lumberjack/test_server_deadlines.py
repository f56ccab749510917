"""Every timer of a connection, in virtual time."""

from __future__ import annotations

from math import inf

import pytest
import trio
import trio.testing

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.lumberjack import LumberjackConfig
from rsocket_trio.lumberjack.server.bytes_in import TimedReader
from rsocket_trio.lumberjack.server.turns import ShareOfTurns, Turns
from tests.lumberjack.receiving import full_window, served, shared
from tests.lumberjack.vectors import event, window


async def accept(_batch):
    pass


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


async def end_of(one):
    """Wait until the connection ends; return the time since now."""
    began = trio.current_time()
    assert await one.sender.ack() is None
    return trio.current_time() - began


@pytest.mark.parametrize(
    ("sent", "seconds", "name"),
    [
        (b"", 10, "it sent nothing for 10 s (first_byte_timeout)"),
        (b"2", 30, "it stopped inside a batch for 30 s (progress_timeout)"),
        (window(1), 30, "it stopped inside a batch for 30 s (progress_timeout)"),
        (full_window(3)[:-1], 30, "it stopped inside a batch for 30 s (progress_timeout)"),
    ],
)
async def test_silence(sent, seconds, name, autojump_clock, caplog):
    """A sender that stops is disconnected, with one line that names the setting."""
    async with served(shared(accept)) as one:
        if sent:
            await one.sender.send(sent)
        assert await end_of(one) == pytest.approx(seconds)
    (line,) = lines(caplog)
    assert name in line


async def test_a_byte_now_and_then(autojump_clock, caplog):
    """Any byte is progress, but the whole batch has a time."""
    data = full_window(50)

    async def trickle(one):
        for byte in data:
            try:
                await one.sender.send(bytes([byte]))
            except trio.BrokenResourceError:
                return
            await trio.sleep(1)

    async with served(shared(accept)) as one, trio.open_nursery() as nursery:
        nursery.start_soon(trickle, one)
        assert await end_of(one) == pytest.approx(300)
        nursery.cancel_scope.cancel()
    (line,) = lines(caplog)
    assert "one batch took 300 s (batch_timeout)" in line


class SlowShare:
    """Memory that others take for a while. It has no deadline of its own."""

    began = 0.0
    deadline = inf
    seconds = 0.0
    free = False

    async def enter(self):
        await trio.sleep(self.seconds)

    def hold(self, size, incomplete):
        pass


async def test_a_wait_for_memory_does_not_count(autojump_clock):
    """The time of a batch is the sender's, and it waits for ours."""
    config = LumberjackConfig(batch_timeout=60, progress_timeout=1000)
    ours, theirs = trio.testing.memory_stream_pair()
    share = SlowShare()
    turns = ShareOfTurns(Turns())
    reader = TimedReader(ours, config, share, turns, owes=lambda: False, pauses=lambda: None)
    began = trio.current_time()
    await theirs.send_all(window(1))
    assert await reader.read() == []
    share.seconds = 50
    await theirs.send_all(b"2")
    assert await reader.read() == []
    with pytest.raises(RemoteProtocolError, match="one batch took 60 s"):
        await reader.read()
    assert trio.current_time() == pytest.approx(began + 110)


async def test_the_time_is_that_of_one_batch(autojump_clock):
    """Each batch has its own time, also if it begins in the bytes of the one before."""
    data = full_window(1) * 20
    async with served(shared(accept)) as one:
        await one.sender.send(data[:10])
        for start in range(10, len(data), len(data) // 20):
            await trio.sleep(29)
            await one.sender.send(data[start : start + len(data) // 20])
        for _ in range(20):
            assert await one.sender.ack() == (2, 1)


async def test_no_deadline_between_batches(autojump_clock):
    """Beats keep idle connections open for hours."""
    async with served(shared(accept)) as one:
        for _ in range(3):
            await one.sender.send(full_window(1))
            assert await one.sender.ack() == (2, 1)
            await one.sender.no_ack_for(100_000)


async def test_idle_timeout(autojump_clock, caplog):
    """The time counts only while neither side owes anything."""

    async def slow(_batch):
        await trio.sleep(95)

    config = LumberjackConfig(idle_timeout=20, keepalive_interval=1000)
    async with served(shared(slow, config)) as one:
        await one.sender.send(full_window(1))
        assert await one.sender.ack() == (2, 1)
        assert trio.current_time() == pytest.approx(95)
        assert await end_of(one) == pytest.approx(20)
    assert "it was idle for 20 s (idle_timeout)" in lines(caplog)[0]


async def test_flush(autojump_clock):
    """Events without a window are handled after half a second of silence."""
    async with served(shared(accept)) as one:
        await one.sender.send(window(3) + b"".join(map(event, range(1, 6))))
        assert await one.sender.ack() == (2, 3)
        assert await one.sender.ack() == (2, 5)
        assert trio.current_time() == pytest.approx(0.5)
        await one.sender.send(event(6))
        await trio.sleep(0.4)
        await one.sender.send(event(7))
        assert await one.sender.ack() == (2, 7)
        assert trio.current_time() == pytest.approx(1.4)


async def test_flush_without_silence(autojump_clock):
    """A sender that is never silent gets its ACKs too."""
    async with served(shared(accept)) as one, trio.open_nursery() as nursery:

        async def send():
            await one.sender.send(window(1000))
            for sequence in range(1, 1200):
                await one.sender.send(event(sequence))
                await trio.sleep(0.25)

        nursery.start_soon(send)
        assert await one.sender.ack() == (2, 1000)
        began = trio.current_time()
        version, sequence = await one.sender.ack()
        assert version == 2
        assert 1030 <= sequence <= 1045
        assert trio.current_time() - began == pytest.approx(10, abs=0.6)
        nursery.cancel_scope.cancel()


async def test_flush_before_a_deadline(autojump_clock, caplog):
    """Whole events in front of an incomplete frame are handled before the deadline ends it."""
    async with served(shared(accept)) as one:
        data = window(2) + event(1) + event(2) + event(3) + event(4)[:-1]
        await one.sender.send(data)
        assert await one.sender.acks_until_end() == [(2, 2), (2, 3)]
    assert "progress_timeout" in lines(caplog)[0]


async def test_keepalives(autojump_clock):
    """Version 2 gets an ACK 0 each 5 s while the handler works, and none behind the ACK."""
    times = []

    async def slow(_batch):
        await trio.sleep(17)

    async with served(shared(slow)) as one:
        await one.sender.send(full_window(2))
        while True:
            ack = await one.sender.ack()
            times.append(round(trio.current_time(), 3))
            if ack != (2, 0):
                break
        assert ack == (2, 2)
        assert times == [5, 10, 15, 17]
        await one.sender.no_ack_for(60)
        await one.sender.send(full_window(1))
        began = trio.current_time()
        assert await one.sender.ack() == (2, 0)
        assert trio.current_time() - began == pytest.approx(5)


async def test_an_ack_restarts_the_interval(autojump_clock):
    """A partial ACK tells the sender as much as a keep-alive."""

    async def slow(batch):
        await trio.sleep(4)
        await batch.ack(1)
        await trio.sleep(5.5)

    async with served(shared(slow)) as one:
        await one.sender.send(full_window(2))
        found = [await one.sender.ack() for _ in range(3)]
        assert found == [(2, 1), (2, 0), (2, 2)]
        assert trio.current_time() == pytest.approx(9.5)


async def test_no_keepalive_while_an_ack_is_due(autojump_clock):
    """At the moment of a keep-alive the ACK itself leaves, if it is there."""

    async def slow(_batch):
        await trio.sleep(5)

    async with served(shared(slow)) as one:
        await one.sender.send(full_window(2))
        found = [await one.sender.ack()]
        while found[-1] == (2, 0):
            found.append(await one.sender.ack())
        await one.sender.no_ack_for(60)
    assert found[-1] == (2, 2)


async def test_no_keepalives_for_version_1(autojump_clock):
    """Not even while a batch of version 2 waits behind one of version 1."""

    async def slow(_batch):
        await trio.sleep(60)

    async with served(shared(slow)) as one:
        await one.sender.send(full_window(2, version=1) + full_window(1))
        await one.sender.no_ack_for(59)
        assert await one.sender.ack() == (1, 2)
        assert await one.sender.ack() == (2, 0)
        assert trio.current_time() == pytest.approx(65)


async def test_keepalives_while_a_batch_waits_for_room(autojump_clock):
    """The sender of a batch that waits for room hears of us too."""

    async def slow(batch):
        if batch.events[0]["n"] == 7:
            await trio.sleep(12)

    of_all = shared(slow, LumberjackConfig(max_batches=1))
    async with served(of_all) as first, served(of_all) as second:
        await first.sender.send(full_window(1, 7))
        await trio.testing.wait_all_tasks_blocked()
        await second.sender.send(full_window(1, 1))
        assert [await second.sender.ack() for _ in range(3)] == [(2, 0), (2, 0), (2, 1)]
        assert trio.current_time() == pytest.approx(12)


async def test_send_timeout(autojump_clock, caplog):
    """A sender that does not read its ACKs is disconnected, and its handler is cancelled."""
    cancelled = trio.Event()
    caplog.set_level("INFO")

    async def slow(_batch):
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.set()
            raise

    async with served(shared(slow), lockstep=True) as one:
        await one.sender.send(full_window(1))
        await cancelled.wait()
        assert trio.current_time() == pytest.approx(35)  # 5 s for the keep-alive, 30 s to send it.
        await one.over.wait()
    assert "it has read no ACK for 30 s (send_timeout)" in caplog.text


async def test_our_own_slowness_is_not_the_senders_fault(autojump_clock):
    """The times of a batch stand still while we do not read."""

    async def slow(_batch):
        await trio.sleep(1000)

    config = LumberjackConfig(max_waiting_batches=1, keepalive_interval=100_000)
    data = full_window(1) * 3
    async with served(shared(slow, config)) as one:
        await one.sender.send(data[:-1])  # One is handled, one waits, a part of the third is here.
        assert await one.sender.ack() == (2, 1)
        await trio.sleep(29)
        await one.sender.send(data[-1:])
        for _ in range(2):
            assert await one.sender.ack() == (2, 1)
