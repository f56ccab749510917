"""Streams of publishers into the spool: demand, reconnects, ends, addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from rsocket_trio import Payload, Retry, Router, serve
from rsocket_trio.collector import IngestConfig, Subscription, parse_subscription
from rsocket_trio.errors import ApplicationError
from rsocket_trio.frames import (
    KeepaliveFrame,
    PayloadFrame,
    RequestNFrame,
    RequestStreamFrame,
    SetupFrame,
)
from rsocket_trio.spool import SpoolFailed
from rsocket_trio.testing import FramePeer
from rsocket_trio.transports import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport
from rsocket_trio.uri import parse_uri
from tests.collector.running import data, running, stored
from tests.spool.helpers import fault, faulty
from tests.waiting import until

QUICK = Retry(initial_delay=0.01, max_delay=0.02)


class Publisher:
    """Publishes numbers; what it has sent does not come again."""

    def __init__(self, count=None, size=1, fail_at=()):
        self.sent = 0
        self.opened = 0
        self.router = Router()

        @self.router.request_stream("numbers")
        async def numbers() -> AsyncIterator[Payload]:
            self.opened += 1
            while count is None or self.sent < count:
                if self.sent in fail_at and self.opened <= len(fail_at):
                    self.sent += 1  # Lost: this publisher does not send it again.
                    raise ApplicationError("the sensor is broken")
                yield Payload(b"%0*d" % (size, self.sent))
                self.sent += 1
            await trio.sleep_forever()


async def published(nursery, publisher, uri="tcp://127.0.0.1:0"):
    return await nursery.start(serve, publisher.router, uri)


async def test_a_stream_is_stored(directory):
    """In order, with facts, and numbers about the subscription."""
    publisher = Publisher(5000)
    async with trio.open_nursery() as nursery:
        server = await published(nursery, publisher)
        async with running(directory, subscribe=[f"{server.uris[0]}/numbers"]) as collector:
            # The subscriber counts events when it has been told that they are stored.
            await until(lambda: collector.statistics().subscriptions[0].events == 5000)
            assert collector.spool.head == 5000
            [numbers] = collector.statistics().subscriptions
            assert (numbers.state, numbers.events, numbers.connections) == ("open", 5000, 1)
            assert numbers.trouble is None
            assert numbers.subscription == f"{server.uris[0]}/numbers"
        nursery.cancel_scope.cancel()
    assert [int(each) for each in data(directory)] == list(range(5000))
    batches = stored(directory)
    assert len(batches) < 100
    assert batches[0].facts == {
        "source": "rsocket",
        "peer": server.uris[0].removeprefix("tcp://"),
        "route": "numbers",
        "mime": "application/json",
    }


async def test_a_full_spool_stops_the_publisher(directory):
    """Credit is given only for what is durable, bounded in events and in bytes."""
    publisher = Publisher(size=1000)
    ingest = IngestConfig(max_granted_events=50, max_granted_size=10**6)
    async with trio.open_nursery() as nursery:
        server = await published(nursery, publisher)
        async with running(
            directory, max_size=30_000, ingest=ingest, subscribe=[f"{server.uris[0]}/numbers"]
        ) as collector:
            await until(lambda: collector.spool.full)
            await trio.sleep(0.05)
            before = publisher.sent
            assert collector.spool.head < before <= collector.spool.head + 51
            await trio.sleep(0.1)
            assert publisher.sent == before
            await collector.spool.commit("q", collector.spool.head)
            await until(lambda: publisher.sent > before)
        nursery.cancel_scope.cancel()


async def test_credit_comes_by_halves_of_the_window(directory):
    """Each grant is a frame: there is none for less than half a window, and at half there is."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    ingest = IngestConfig(max_granted_events=8, linger=0)
    subscribed = [f"tcp://127.0.0.1:{port}/numbers"]
    async with listener, running(directory, ingest=ingest, subscribe=subscribed) as collector:
        stream = await listener.accept()
        there = ByteStreamTransport(stream, info=TransportInfo(scheme="tcp"))
        async with FramePeer(there, cushion=0.05) as peer:
            await peer.receive(SetupFrame)
            await peer.receive(KeepaliveFrame)  # its answer shows that the SETUP is accepted
            await peer.send(KeepaliveFrame(respond=False, position=0, data=b""))
            request = await peer.receive(RequestStreamFrame)
            assert request.initial_request_n == 8

            async def publish(count):
                head = collector.spool.head
                event = PayloadFrame(stream_id=request.stream_id, next=True, data=b"1")
                await peer.send(*[event] * count)
                await until(lambda: collector.spool.head == head + count)

            await publish(3)
            await peer.expect_nothing()
            await publish(1)
            assert (await peer.receive(RequestNFrame)).n == 4


async def test_large_events_get_less_credit(directory):
    """The window is bounded in bytes, as far as the sizes of earlier events tell."""
    publisher = Publisher(size=200_000)
    ingest = IngestConfig(max_granted_size=10**6)
    async with trio.open_nursery() as nursery:
        server = await published(nursery, publisher)
        async with running(
            directory, max_size=3_000_000, ingest=ingest, subscribe=[f"{server.uris[0]}/numbers"]
        ) as collector:
            await until(lambda: collector.spool.full)
            await trio.sleep(0.05)
            assert publisher.sent <= collector.spool.head + 6
        nursery.cancel_scope.cancel()


async def test_a_publisher_that_fails(directory, caplog):
    """The collector subscribes again; it says that events may be lost."""
    publisher = Publisher(100, fail_at=(10, 50))
    async with trio.open_nursery() as nursery:
        server = await published(nursery, publisher)
        async with running(
            directory, retry=QUICK, subscribe=[f"{server.uris[0]}/numbers"]
        ) as collector:
            await until(lambda: collector.spool.head == 98)
            [numbers] = collector.statistics().subscriptions
            assert numbers.connections == 3
        nursery.cancel_scope.cancel()
    assert [int(each) for each in data(directory)] == [n for n in range(100) if n not in (10, 50)]
    assert "the sensor is broken; the next attempt" in caplog.text
    assert "may be lost" in caplog.text


async def test_a_spool_that_fails(directory):
    """The subscription says why it has ended; the collector ends with the error, alone."""
    async with trio.open_nursery() as nursery:
        server = await published(nursery, Publisher())
        with pytest.RaisesGroup(SpoolFailed):
            async with running(directory, subscribe=[f"{server.uris[0]}/numbers"]) as collector:
                with faulty(collector.spool) as connection:
                    connection.fail = lambda statement: fault(11) if statement == "COMMIT" else None
                    with trio.CancelScope(shield=True):
                        await until(lambda: numbers_of(collector).state == "ended")
                    assert "injected" in numbers_of(collector).trouble
        nursery.cancel_scope.cancel()


def numbers_of(collector):
    return collector.statistics().subscriptions[0]


async def test_a_publisher_that_comes_back(directory):
    """At first there is none, then it is stopped and started again at the same address."""
    publisher = Publisher(30)
    async with trio.open_nursery() as nursery:
        server = await published(nursery, publisher)
        uri = server.uris[0]
        await server.aclose(grace=0)
        async with running(directory, retry=QUICK, subscribe=[f"{uri}/numbers"]) as collector:
            await until(lambda: collector.statistics().subscriptions[0].state == "waiting")
            assert "cannot" in collector.statistics().subscriptions[0].trouble
            server = await published(nursery, publisher, uri)
            await until(lambda: collector.spool.head == 30)
            await server.aclose(grace=0)
            publisher.sent = 0
            server = await published(nursery, publisher, uri)
            await until(lambda: collector.spool.head == 60)
        nursery.cancel_scope.cancel()


async def test_a_stream_that_ends(directory):
    """It is not opened again: that could store the same events for ever."""
    router = Router()
    opened = 0

    @router.request_stream("few")
    async def few() -> AsyncIterator[Payload]:
        nonlocal opened
        opened += 1
        for number in range(3):
            yield Payload(b"%d" % number)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, "tcp://127.0.0.1:0")
        async with running(
            directory, retry=QUICK, subscribe=[f"{server.uris[0]}/few"]
        ) as collector:
            await until(lambda: collector.statistics().subscriptions[0].state == "ended")
            await trio.sleep(0.1)
            [numbers] = collector.statistics().subscriptions
            assert "completed" in numbers.trouble
        nursery.cancel_scope.cancel()
    assert (opened, data(directory)) == (1, [b"0", b"1", b"2"])


async def test_attempts_that_are_limited(directory, caplog):
    """The subscription ends, which the log says, and the collector goes on."""
    retry = Retry(initial_delay=0.01, max_delay=0.01, max_attempts=2)
    async with running(
        directory, retry=retry, subscribe=["unix:///does/not/exist#numbers"]
    ) as collector:
        await until(lambda: collector.statistics().subscriptions[0].state == "ended")
        await collector.aclose()
    assert caplog.text.count("giving up") == 1


async def test_a_graceful_stop(directory):
    """Events that have arrived are stored, and the publisher is left at once."""
    publisher = Publisher(20)
    async with trio.open_nursery() as nursery:
        server = await published(nursery, publisher)
        async with running(
            directory, ingest=IngestConfig(linger=100), subscribe=[f"{server.uris[0]}/numbers"]
        ) as collector:
            await until(lambda: publisher.sent == 20)
            await trio.sleep(0.05)
            with trio.fail_after(30):
                await collector.aclose()
            [numbers] = collector.statistics().subscriptions
            assert (numbers.state, numbers.events) == ("ended", 20)
        nursery.cancel_scope.cancel()
    assert len(data(directory)) == 20


@pytest.mark.parametrize(
    ("text", "uri", "route"),
    [
        ("tcp://host:7878/a.b", "tcp://host:7878", "a.b"),
        ("tcp://[::1]:7878/a/b", "tcp://[::1]:7878", "a/b"),
        ("tls://host:1#a", "tls://host:1", "a"),
        ("ws://host/rsocket#a#b", "ws://host/rsocket", "a#b"),
        ("unix:///run/app.sock#a", "unix:///run/app.sock", "a"),
    ],
)
def test_addresses(text, uri, route):
    """The route is the path, or behind a #; the text reads back as the same."""
    found = parse_subscription(text)
    assert found == Subscription(parse_uri(uri), route)
    assert parse_subscription(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["tcp://host:1", "tcp://host:1/", "ws://host/a", "unix:///a", "host", "tcp://host/a", "x://h:1/a",
     "tcp://host:1/" + "a" * 256],
)  # fmt: skip
def test_wrong_addresses(text):
    """The message says what is wrong."""
    with pytest.raises(ValueError, match=r"route|address"):
        parse_subscription(text)


@pytest.mark.parametrize(
    ("text", "example"),
    [("tcp://host:1", "tcp://host:1/events"), ("ws://host:1/a", "ws://host:1/a#events")],
)
def test_an_address_without_a_route(text, example):
    """The example in the message is an address that is right, with the route where it belongs."""
    with pytest.raises(ValueError, match=f"as in '{example}'"):
        parse_subscription(text)
    assert parse_subscription(example).route == "events"


def test_the_longest_routes():
    """Bytes count, and not characters."""
    assert len(parse_subscription("tcp://host:1/" + "é" * 127 + "a").route) == 128
    with pytest.raises(ValueError, match="at most 255 bytes"):
        parse_subscription("tcp://host:1/" + "é" * 128)
    assert len(parse_subscription("rsio://host:1/" + "é" * 512).route) == 512
    with pytest.raises(ValueError, match="at most 1024 bytes"):
        parse_subscription("rsio://host:1/" + "é" * 512 + "a")


async def test_a_long_error_of_a_publisher(directory):
    """The status does not keep it whole."""
    router = Router()

    @router.request_stream("numbers")
    async def numbers() -> AsyncIterator[Payload]:
        raise ApplicationError("x" * 1_000_000)
        yield Payload(b"")

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, "tcp://127.0.0.1:0")
        async with running(directory, subscribe=[f"{server.uris[0]}/numbers"]) as collector:
            await until(lambda: collector.statistics().subscriptions[0].trouble)
            assert len(collector.statistics().subscriptions[0].trouble) < 1000
        nursery.cancel_scope.cancel()


async def test_a_publisher_that_repeats_the_query(directory, caplog):
    """A query may be a secret: it is neither in the status nor in the log, whoever names it."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Router(), "tcp://127.0.0.1:0")
        wanted = f"{server.uris[0]}/numbers?key=secret"
        async with running(directory, subscribe=[wanted], retry=QUICK) as collector:
            await until(lambda: collector.statistics().subscriptions[0].trouble)
            [numbers] = collector.statistics().subscriptions
            assert "no request_stream handler for route 'numbers?***'" in numbers.trouble
        nursery.cancel_scope.cancel()
    assert "numbers?***" in caplog.text
    assert "secret" not in caplog.text


async def test_a_stop_while_a_publisher_does_not_answer(directory):
    """The collector does not wait for the handshake."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with (
        listener,
        running(directory, subscribe=[f"ws://127.0.0.1:{port}/rsocket#numbers"]) as collector,
    ):
        mute = await listener.accept()
        async with mute:
            await mute.receive_some()  # The request of the handshake.
            with trio.fail_after(30):
                await collector.aclose(grace=60)
        [numbers] = collector.statistics().subscriptions
        assert (numbers.state, numbers.connections) == ("ended", 0)
