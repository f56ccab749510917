"""Connections of the client in virtual time: fail-over, load balance, TTL, deadlines, giving up."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectFailed
from rsocket_trio.lumberjack import ShipError
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.sockets.byte_stream import ByteStream
from tests.lumberjack.shipping import HOST, OTHER, counted, numbers, shipping

settled = trio.testing.wait_all_tasks_blocked


def lines(caplog):
    return [(record.levelname, record.getMessage()) for record in caplog.records]


async def serve_all(network, seen, *, answer=True):
    """Acknowledge everything, on each connection; remember (host, numbers) of each window."""

    async def one(peer):
        while (batch := await peer.batch()) is not None:
            seen.append((peer.uri, numbers(batch)))
            if answer:
                await peer.ack(len(batch))

    async with trio.open_nursery() as nursery:
        while True:
            nursery.start_soon(one, await network.peer())


async def test_slow_start(network, autojump_clock):
    """Windows grow with each that is acknowledged; a loss halves them."""
    async with shipping(initial_window=2, max_window=8, pipelining=1) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(40)))
        peer = await network.peer()
        sizes = []
        for _ in range(4):
            batch = await peer.batch()
            sizes.append(len(batch))
            await peer.ack(len(batch))
        assert len(await peer.batch()) == 8
        await peer.close()
        peer = await network.peer()
        while sum(sizes) < 40:
            batch = await peer.batch()
            sizes.append(len(batch))
            await peer.ack(len(batch))
        assert sizes == [2, 4, 8, 8, 4, 5, 6, 3]


async def test_retries_until_a_host_is_up(network, autojump_clock, caplog):
    """The waits grow; every failure is logged with its host."""
    network.up.clear()
    async with shipping() as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        await trio.sleep(4)
        assert shipper.statistics().failures == 4
        network.up.add(HOST)
        peer = await network.peer()
        assert [time for time, _ in network.attempts] == pytest.approx([0, 0.5, 1.5, 3.5, 7.5])
        await peer.accept(1)
    assert lines(caplog)[0] == (
        "WARNING",
        f"cannot connect to {HOST}: Connection refused; events that wait: 1",
    )


async def test_no_attempts_without_events(network, autojump_clock):
    """The client connects when there is something to send, and stops if it is cancelled."""
    network.up.clear()
    async with shipping() as (shipper, _):
        await trio.sleep(100)
        assert not network.attempts
        with trio.move_on_after(2):
            await shipper.send(counted(1))
        made = len(network.attempts)
        await trio.sleep(100)
        assert len(network.attempts) == made == 3


async def test_fail_over(network, autojump_clock, caplog):
    """One host gets all; when it fails, the next gets what is not acknowledged, and keeps it."""
    caplog.set_level("INFO")
    network.up.add(OTHER)
    settings = {"initial_window": 4, "max_window": 4}
    async with shipping(HOST, OTHER, **settings) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(8)))
        peer = await network.peer()
        assert peer.uri == HOST
        await peer.ack(3)
        assert [await peer.numbers(), await peer.numbers()] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        await settled()
        await peer.close()
        peer = await network.peer()
        assert peer.uri == OTHER
        assert await peer.accept(5) == [3, 4, 5, 6, 7]
        nursery.start_soon(shipper.send, counted(9))
        assert await peer.accept(1) == [9]
    assert ("INFO", f"connected to {OTHER} again") in lines(caplog)
    (lost,) = [text for level, text in lines(caplog) if level == "WARNING"]
    assert lost == (
        f"the connection to {HOST} is lost: the server closed the connection; "
        "events that are sent again: 5"
    )


async def test_load_balance(network, autojump_clock):
    """All hosts get windows at the same time; one that is down takes nothing."""
    third = "lumberjack://three:5044"
    network.up.add(OTHER)
    seen = []
    settings = {"load_balance": True, "initial_window": 5, "max_window": 5}
    async with shipping(HOST, OTHER, third, **settings) as (shipper, nursery):
        nursery.start_soon(partial(serve_all, network, seen))
        await shipper.send(counted(*range(200)))
        assert sorted(number for _, window in seen for number in window) == list(range(200))
        for host in (HOST, OTHER):
            mine = [number for uri, window in seen if uri == host for number in window]
            assert mine == sorted(mine)
            assert len(mine) >= 50
        assert shipper.statistics().connections == 2
        assert {uri for _, uri in network.attempts} == {HOST, OTHER, third}
        nursery.cancel_scope.cancel()


async def test_load_balance_when_one_is_lost(network, autojump_clock):
    """The other one gets the rest of the first."""
    network.up.add(OTHER)
    settings = {"load_balance": True, "initial_window": 5, "max_window": 5, "pipelining": 1}
    async with shipping(HOST, OTHER, **settings) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(10)))
        first, second = await network.peer(), await network.peer()
        windows = [await first.numbers(), await second.numbers()]
        assert sorted(windows) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        network.up.discard(first.uri)
        await first.ack(2)
        await settled()
        await first.close()
        await second.ack(5)
        assert await second.numbers() == windows[0][2:]
        await second.ack(3)


async def test_connection_ttl(network, autojump_clock, caplog):
    """Windows on the way are finished; then a new connection is made, without a wait."""
    caplog.set_level("INFO")
    async with shipping(connection_ttl=60, initial_window=2, max_window=2) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(8)))
        peer = await network.peer()
        assert [await peer.numbers(), await peer.numbers()] == [[0, 1], [2, 3]]
        await trio.sleep(20)
        await peer.ack(0)
        await trio.sleep(20)
        await peer.ack(2)
        assert await peer.numbers() == [4, 5]
        await trio.sleep(25)
        await peer.ack(2)
        with trio.move_on_after(10) as scope:
            await peer.batch()
        assert scope.cancelled_caught
        await peer.ack(1, 2)
        assert await peer.batch() is None
        again = await network.peer()
        assert await again.accept(2) == [6, 7]
        assert network.attempts[1][0] == pytest.approx(75)
    assert not [text for level, text in lines(caplog) if level == "WARNING"]
    assert shipper.statistics().resent == 0


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_connection_whose_time_is_over_says_goodbye(
    network, autojump_clock, monkeypatch, is_lost
):
    """TLS tells the server then that nothing was cut off. A lost connection is only dropped."""
    closings = []
    aclose = ByteStream.aclose

    async def watched(stream):
        # `aclose_forcefully` has no time for it.
        closings.append(trio.current_effective_deadline() > trio.current_time())
        await aclose(stream)

    monkeypatch.setattr(ByteStream, "aclose", watched)
    async with shipping(connection_ttl=60) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        await peer.accept(1)
        if is_lost:
            await peer.close()
        else:
            assert await peer.batch() is None
        await trio.sleep(1)
        assert closings == ([False] if is_lost else [True, False])


async def test_a_ttl_that_is_over_at_once(network):
    """Each connection carries a window, so the events arrive."""
    seen = []
    async with shipping(connection_ttl=1e-9, max_window=4) as (shipper, nursery):
        nursery.start_soon(serve_all, network, seen)
        with trio.fail_after(10):
            await shipper.send(counted(*range(20)))
        assert len(network.attempts) == 5
        nursery.cancel_scope.cancel()


async def test_an_idle_connection_has_a_ttl_too(network, autojump_clock):
    """It is closed, and the next one is made when there is something to send."""
    async with shipping(connection_ttl=60) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        await peer.accept(1)
        assert await peer.batch() is None
        assert trio.current_time() == pytest.approx(60)
        await trio.sleep(100)
        assert len(network.attempts) == 1
        nursery.start_soon(shipper.send, counted(2))
        assert await (await network.peer()).accept(1) == [2]


async def test_the_server_closes_an_idle_connection(network, autojump_clock, caplog):
    """This is not a trouble: the next events go to the same host."""
    caplog.set_level("INFO")
    network.up.add(OTHER)
    async with shipping(HOST, OTHER) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        await peer.accept(1)
        await trio.sleep(60)
        await peer.close()
        await trio.sleep(60)
        nursery.start_soon(shipper.send, counted(2))
        peer = await network.peer()
        assert peer.uri == HOST
        assert peer.began == pytest.approx(120)
        await peer.accept(1)
    assert [(level, text.split(": ")[0]) for level, text in lines(caplog)] == [
        ("INFO", "connected to lumberjack://one:5044"),
        ("INFO", "the connection to lumberjack://one:5044 is over"),
        ("INFO", "connected to lumberjack://one:5044 again"),
    ]


async def test_ack_timeout(network, autojump_clock, caplog):
    """A half-open connection is found, and all is sent on the next one."""
    async with shipping(ack_timeout=7) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1, 2))
        silent = await network.peer()
        assert await silent.numbers() == [1, 2]
        await trio.sleep(5)
        await silent.ack(0)
        peer = await network.peer()
        assert peer.began == pytest.approx(5 + 7 + 0.5)
        assert await peer.accept(2) == [1, 2]
        # An idle connection may be silent for any time.
        await trio.sleep(1000)
        nursery.start_soon(shipper.send, counted(3))
        assert await peer.accept(1) == [3]
    (line,) = lines(caplog)
    assert "it has sent no ACK and no keep-alive for 7 s (ack_timeout)" in line[1]


async def test_ack_deadline(network, autojump_clock, caplog):
    """Keep-alives do not hold a client for ever."""
    async with shipping(ack_timeout=7, ack_deadline=20) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(5)))
        stuck = await network.peer()
        await stuck.ack(2)

        assert await stuck.numbers() == [0, 1, 2, 3, 4]
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stuck.ack(0)
                await trio.sleep(5)
        peer = await network.peer()
        assert peer.began == pytest.approx(20.5)
        assert await peer.accept(3) == [2, 3, 4]
    (line,) = lines(caplog)
    assert "within 20 s (ack_deadline), although it may be alive" in line[1]


async def test_a_silent_host_and_callers_without_patience(network, autojump_clock):
    """The next host gets its turn, although no caller waits for the lost windows any more."""
    network.up.add(OTHER)
    async with shipping(HOST, OTHER, ack_timeout=7) as (shipper, nursery):
        for _ in range(2):
            with trio.move_on_after(3):
                await shipper.send(counted(1))
        await trio.sleep(10)
        assert shipper.statistics().connections == 0
        nursery.start_soon(shipper.send, counted(2))
        assert (await network.peer()).uri == HOST
        peer = await network.peer()
        assert peer.uri == OTHER
        assert await peer.accept(1) == [2]


async def test_no_ack_deadline(network, autojump_clock):
    """Without one, keep-alives hold the client as long as they come."""
    async with shipping(ack_timeout=7, ack_deadline=None) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        await peer.numbers()
        for _ in range(1000):
            await peer.ack(0)
            await trio.sleep(5)
        await peer.ack(1)


async def test_a_deadline_of_the_caller(network, autojump_clock):
    """`trio.fail_after` limits one call; its events are not sent again."""
    async with shipping() as (shipper, nursery):
        with pytest.raises(trio.TooSlowError):
            with trio.fail_after(5):
                await shipper.send(counted(1, 2))
        peer = await network.peer()
        assert await peer.numbers() == [1, 2]
        nursery.start_soon(shipper.send, counted(3))
        assert await peer.numbers() == [3]
        await peer.ack(2, 1)


async def test_giving_up(network, autojump_clock):
    """After `max_attempts` every call gets an error that says how much is acknowledged."""
    retry = Retry(initial_delay=1, jitter=0, max_attempts=3)
    found = {}
    network.up.clear()
    async with shipping(HOST, OTHER, retry=retry) as (shipper, nursery):

        async def send(name, events):
            with pytest.raises(ShipError) as info:
                await shipper.send(events)
            found[name] = (trio.current_time(), info.value)

        nursery.start_soon(send, "a", counted(1, 2))
        nursery.start_soon(send, "b", counted(3))
    assert [time for time, _ in network.attempts] == pytest.approx([0, 1, 3])
    assert [uri for _, uri in network.attempts] == [HOST, OTHER, HOST]
    for name, count in (("a", 2), ("b", 1)):
        time, error = found[name]
        assert time == pytest.approx(3)
        assert error.acknowledged == 0
        assert isinstance(error.__cause__, ConnectFailed)
        assert str(error) == (
            f"{count} of {count} events are not acknowledged: gave up after 3 attempts: "
            f"cannot connect to {HOST}: Connection refused"
        )
    assert found["a"][1] is not found["b"][1]


async def test_giving_up_twice(network, autojump_clock):
    """A call after that has all attempts again."""
    network.up.clear()
    async with shipping(retry=Retry(initial_delay=1, jitter=0, max_attempts=3)) as (shipper, _):
        for attempts in (3, 6):
            with pytest.raises(ShipError, match="gave up after 3 attempts"):
                await shipper.send(counted(1))
            assert len(network.attempts) == attempts


async def test_giving_up_after_a_part(network, autojump_clock):
    """The error counts what is acknowledged, and a later call tries again."""
    retry = Retry(initial_delay=1, jitter=0, max_attempts=2)
    async with shipping(retry=retry, initial_window=2, max_window=2) as (shipper, nursery):

        async def script():
            peer = await network.peer()
            await peer.ack(2, 1)
            assert [await peer.numbers(), await peer.numbers()] == [[0, 1], [2, 3]]
            network.up.clear()
            await settled()
            await peer.close()

        nursery.start_soon(script)
        events = counted(*range(6))
        with pytest.raises(ShipError, match="3 of 6 events are not acknowledged") as info:
            await shipper.send(events)
        network.up.add(HOST)
        nursery.start_soon(shipper.send, events[info.value.acknowledged :])
        assert await (await network.peer()).accept(3) == [3, 4, 5]


async def test_connections_without_use_count_as_failures(network, autojump_clock):
    """A server that accepts and closes at once is tried as often as one that refuses."""
    retry = Retry(initial_delay=1, jitter=0, max_attempts=3)
    async with shipping(retry=retry) as (shipper, nursery):

        async def drop_all():
            while True:
                await (await network.peer()).close()

        nursery.start_soon(drop_all)
        with pytest.raises(ShipError, match=r"gave up after 3 attempts: the connection .* lost"):
            await shipper.send(counted(1))
        assert [time for time, _ in network.attempts] == pytest.approx([0, 1, 3])
        nursery.cancel_scope.cancel()


async def test_progress_is_a_success(network, autojump_clock):
    """A server that acknowledges one event with each connection gets all, without giving up."""
    retry = Retry(initial_delay=1, jitter=0, max_attempts=1)
    async with shipping(retry=retry) as (shipper, nursery):
        nursery.start_soon(shipper.send, counted(*range(6)))
        for number in range(6):
            peer = await network.peer()
            assert (await peer.numbers())[0] == number
            await peer.ack(1)
            await settled()
            await peer.close()
        assert [time for time, _ in network.attempts] == pytest.approx(list(range(6)))


async def test_giving_up_with_load_balance(network, autojump_clock):
    """Only when every host has failed so often, and none is connected."""
    network.up.add(OTHER)
    retry = Retry(initial_delay=1, factor=1, jitter=0, max_attempts=2)
    async with shipping(HOST, OTHER, retry=retry, load_balance=True) as (shipper, nursery):
        network.up.discard(HOST)
        nursery.start_soon(shipper.send, counted(1))
        peer = await network.peer()
        await trio.sleep(25)
        assert shipper.statistics().in_flight == 1
        with pytest.raises(trio.TooSlowError), trio.fail_after(4):
            await shipper.send(counted(2))  # One host fails, the other one is connected.
        assert [await peer.numbers(), await peer.numbers()] == [[1], [2]]
        await peer.ack(1, 1)
        await settled()
        network.up.discard(OTHER)
        await peer.close()
        with pytest.raises(ShipError):
            await shipper.send(counted(3))


async def test_a_host_that_does_not_answer(monkeypatch, autojump_clock):
    """The time for connecting has a limit."""
    times = []

    async def dial(*_arguments, **_settings):
        times.append(trio.current_time())
        await trio.sleep_forever()

    monkeypatch.setattr("rsocket_trio.lumberjack.client.connector.dial", dial)
    retry = Retry(initial_delay=1, jitter=0, max_attempts=2)
    async with shipping(retry=retry, connect_timeout=4) as (shipper, _):
        with pytest.raises(ShipError, match=r"not connected within 4 s \(connect_timeout\)"):
            await shipper.send(counted(1))
    assert times == pytest.approx([0, 5])
