"""Servers that break the rules: only their connection ends, and nothing is lost."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.lumberjack.shipping import counted, shipping
from tests.lumberjack.vectors import CLIENT_SIDE, ack

settled = trio.testing.wait_all_tasks_blocked


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "where a frame 2A is due"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "where a frame 2A is due"),
        (ack(2) + b"garbage", "where a frame 2A is due"),
        (ack(2) + ack(4), "ACK 4 is outside the window: 3 events"),
        (ack(2) + ack(2**32 - 1), "is outside the window"),
        (ack(2) + ack(0) * 1001, "more than 1000 ACKs in a second"),
        (ack(2) * 1002, "more than 1000 ACKs in a second"),
        (ack(2) + ack(3)[:3], "the server closed the connection"),
    ],
)
async def test_answers_that_break_the_rules(network, autojump_clock, caplog, answer, match):
    """What was acknowledged before counts; the rest goes to the next connection."""
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1, 2, 3))
        bad = await network.peer()
        assert await bad.numbers() == [1, 2, 3]
        await bad.stream.send_all(answer)
        await settled()
        if "closed" in match:
            await bad.close()
        expected = [3] if answer.startswith(ack(2)) else [1, 2, 3]
        peer = await network.peer()
        assert await peer.accept(len(expected)) == expected
    (line,) = lines(caplog)
    assert match in line


async def test_acks_before_anything_was_sent(network, autojump_clock, caplog):
    """A server cannot acknowledge what it has not got."""
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        await peer.accept(1)
        await peer.ack(1)
        await settled()
        assert shipper.statistics().connections == 0
        nursery.start_soon(shipper.send, counted(2))
        assert await (await network.peer()).accept(1) == [2]


async def test_a_server_that_never_stops(network, autojump_clock):
    """It sends keep-alives as fast as it can: it is disconnected, and others run meanwhile."""
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        flooder = await network.peer()
        sent = 0
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await flooder.stream.send_all(ack(0) * 100)
                sent += 100
                await trio.lowlevel.checkpoint()
        assert sent < 10_000
        await (await network.peer()).accept(1)


@pytest.mark.parametrize("script", CLIENT_SIDE, ids=lambda script: script["name"])
async def test_recorded_scripts(network, autojump_clock, script):
    """The scripts of the vectors, frame by frame, with the read timeout of the recording."""
    rest = {
        "endless keepalives (12 x 0.3 s)": 10,
        "not an ack frame": 10,
        "FIN at once": 10,
    }.get(script["name"], 0)
    async with shipping(ack_timeout=0.7) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(10)))
        peer = await network.peer()
        assert await peer.numbers() == list(range(10))
        for step in script["server_hex"]:
            if step.startswith("<wait"):
                await trio.sleep(float(step[6:-2]))
            elif step == "<FIN>":
                await peer.stream.send_eof()
            else:
                await peer.stream.send_all(bytes.fromhex(step))
        await settled()
        assert shipper.statistics().acknowledged == 10 - rest
        assert bool(nursery.child_tasks) is bool(rest)
        if rest:
            assert await (await network.peer()).accept(rest) == list(range(10))


async def test_a_server_that_reads_nothing(slow_hosts, autojump_clock, caplog):
    """The writer is stuck; `ack_timeout` ends this."""
    async with shipping(ack_timeout=8) as (shipper, nursery):
        nursery.start_soon(shipper.send, [b"x" * 1000] * 50)
        await trio.sleep(25)
        assert [began for began, _, _ in slow_hosts] == pytest.approx([0, 8.5, 17.5])
        nursery.cancel_scope.cancel()
    assert "for 8 s (ack_timeout)" in lines(caplog)[0]


async def test_a_slow_reader_is_alive(slow_hosts, autojump_clock):
    """A large window may take longer than `ack_timeout`, as long as the server reads."""
    async with shipping(ack_timeout=8, compression_level=0) as (shipper, nursery):
        nursery.start_soon(shipper.send, [b"x" * 2**20])
        await settled()
        ((_, reading, answers),) = slow_hosts
        received = 0
        while received < 2**20 + 16:
            await trio.sleep(2)
            received += len(await reading.receive_some(65536))
        assert trio.current_time() > 30
        await answers.send_all(ack(1))
    assert len(slow_hosts) == 1
    assert shipper.statistics().resent == 0


async def test_logging_is_limited(network, autojump_clock, caplog):
    """A server that drops each connection does not fill the log."""
    caplog.set_level("INFO")
    async with shipping() as (shipper, nursery):

        async def drop_all():
            while True:
                peer = await network.peer()
                await peer.batch()
                await peer.ack(1)  # Progress, so that the waits stay short.
                await settled()
                await peer.close()

        nursery.start_soon(drop_all)
        await shipper.send(counted(*range(100)))
        nursery.cancel_scope.cancel()
    assert len(network.attempts) == 100
    lost = [line for line in lines(caplog) if "is lost" in line and "more lines" not in line]
    assert 5 <= len(lost) <= 35
