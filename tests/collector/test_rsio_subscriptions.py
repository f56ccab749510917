"""Publishers over rsio into the spool: demand, ends, addresses."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import Retry, rsio
from rsocket_trio.collector import IngestConfig, parse_subscription
from rsocket_trio.reactive_streams import failed, from_iterable, just
from tests.collector.running import data, running, stored
from tests.waiting import until

QUICK = Retry(initial_delay=0.01, max_delay=0.02)


class Numbers:
    """A publisher of numbers, which knows how many were taken."""

    def __init__(self, count: int, size: int = 1) -> None:
        self.sent = 0
        self.count = count
        self.size = size

    def elements(self):
        while self.sent < self.count:
            self.sent += 1
            yield b"%0*d" % (self.size, self.sent - 1)


async def test_a_publisher_is_stored(directory):
    """In order, with facts; a publisher that completes is not subscribed to again."""
    async with trio.open_nursery() as nursery:
        numbers = Numbers(5000)
        target = {"numbers?of=all": from_iterable(numbers.elements)}
        server = await nursery.start(rsio.serve, target, "rsio://127.0.0.1:0")
        name = f"{server.uris[0]}/numbers?of=all"
        async with running(directory, subscribe=[name]) as collector:
            await until(lambda: collector.statistics().subscriptions[0].state == "ended")
            [subscription] = collector.statistics().subscriptions
            shown = f"{server.uris[0]}/numbers?***"  # a query may have a secret
            assert (subscription.subscription, subscription.events) == (shown, 5000)
            assert subscription.trouble == "the publisher has completed its stream"
        nursery.cancel_scope.cancel()
    assert [int(each) for each in data(directory)] == list(range(5000))
    facts = stored(directory)[0].facts
    assert facts["source"] == "rsio"
    assert facts["route"] == "numbers?***"


async def test_a_full_spool_stops_the_publisher(directory):
    """Elements are requested only as others become durable."""
    numbers = Numbers(10**9, size=1000)
    ingest = IngestConfig(max_granted_events=50, max_granted_size=10**6)
    async with trio.open_nursery() as nursery:
        target = {"numbers": from_iterable(numbers.elements)}
        server = await nursery.start(rsio.serve, target, "rsio://127.0.0.1:0")
        async with running(
            directory, max_size=30_000, ingest=ingest, subscribe=[f"{server.uris[0]}/numbers"]
        ) as collector:
            await until(lambda: collector.spool.full)
            await trio.sleep(0.05)
            before = numbers.sent
            assert collector.spool.head < before <= collector.spool.head + 51
            await collector.spool.commit("q", collector.spool.head)
            await until(lambda: numbers.sent > before)
        nursery.cancel_scope.cancel()


async def test_a_publisher_that_fails_is_tried_again(directory, caplog):
    """The log says why, and that elements may be lost."""
    tries = 0

    def find(_name: str, _connection: rsio.Connection):
        nonlocal tries
        tries += 1
        return just(b"1") if tries == 3 else failed(rsio.PublisherError("the sensor is broken"))

    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsio.serve, find, "rsio://127.0.0.1:0")
        async with running(
            directory, retry=QUICK, subscribe=[f"{server.uris[0]}/numbers"]
        ) as collector:
            await until(lambda: collector.spool.head == 1)
        nursery.cancel_scope.cancel()
    assert "the sensor is broken" in caplog.text
    assert "may be lost" in caplog.text


@pytest.mark.parametrize(
    ("text", "uri", "name"),
    [
        ("rsio://host:1/ticks?every=0.1", "rsio://host:1", "ticks?every=0.1"),
        ("rsios://host:1#a/b", "rsios://host:1", "a/b"),
        ("rsio+unix:///run/x.sock#ticks", "rsio+unix:///run/x.sock", "ticks"),
        ("rsio+ws://host:1/path#ticks?a=1", "rsio+ws://host:1/path", "ticks?a=1"),
    ],
)
def test_addresses(text, uri, name):
    """The name is the path, or behind a #."""
    found = parse_subscription(text)
    assert (str(found.uri), found.route, found.is_rsio) == (uri, name, True)
    assert parse_subscription(f"{uri}#{name}") == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rsio://host:1", "names no route"),
        ("rsio://host:1/" + "x" * 1025, "the name of a publisher has at most 1024 bytes"),
        ("rsio+tcp://host:1/x", "the scheme 'rsio\\+tcp' is not one of"),
    ],
)
def test_addresses_that_are_wrong(text, reason):
    """The error says why."""
    with pytest.raises(ValueError, match=reason):
        parse_subscription(text)
