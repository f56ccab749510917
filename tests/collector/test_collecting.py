"""A whole collector: senders and readers at once, restarts, a full spool, errors, cancellation."""

from __future__ import annotations

import json
import ssl
import stat
from functools import partial

import pytest
import trio
import trustme

from rsocket_trio import Payload, Rejected, connect
from rsocket_trio.collector import EVENTS, IngestConfig, collect, connect_collector
from rsocket_trio.errors import ConnectionClosed, RejectedSetup, StreamError
from rsocket_trio.lumberjack import LumberjackConfig, ShipperConfig, stored_events
from rsocket_trio.lumberjack import connect as connect_lumberjack
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import (
    NotASpool,
    SpoolError,
    SpoolFailed,
    SpoolLocked,
    open_spool,
)
from rsocket_trio.testing import assert_no_leaks, cancel_everywhere
from tests.collector.running import running, stored
from tests.spool.helpers import collect as everything
from tests.spool.helpers import fault, faulty
from tests.waiting import until

JSON = {"data_mime_type": "application/json"}
LUMBERJACK = "lumberjack://127.0.0.1:0"
RSOCKET = "tcp://127.0.0.1:0"


def uri_of(collector, scheme):
    [uri] = [each for each in collector.uris if each.startswith(f"{scheme}://")]
    return uri


async def ship(uri, events, **options):
    """Ship events by Lumberjack; returns when all are acknowledged."""
    config = ShipperConfig(retry=Retry(initial_delay=0.01, max_delay=0.05), **options)
    async with connect_lumberjack(uri, config=config) as shipper:
        await shipper.send(events)


async def test_everything_at_once(directory, tmp_path):
    """Lumberjack and RSocket in, over three kinds of sockets, and the ranges out."""
    socket = tmp_path / "socket"
    listen = (LUMBERJACK, RSOCKET, f"unix://{socket}", "ws://127.0.0.1:0/rsocket")
    async with running(directory, *listen) as collector:
        assert [each.partition(":")[0] for each in collector.uris] == [
            "lumberjack",
            "tcp",
            "unix",
            "ws",
        ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                ship, uri_of(collector, "lumberjack"), [{"n": number} for number in range(100)]
            )
            for number, scheme in enumerate(("tcp", "unix", "ws")):

                async def send(scheme=scheme, number=number):
                    async with connect(uri_of(collector, scheme), **JSON) as requester:
                        items = [Payload(b'{"n":%d}' % (100 + 10 * number + n)) for n in range(10)]
                        async with requester.request_channel(items, route=EVENTS) as replies:
                            async for _ in replies:
                                pass

                nursery.start_soon(send)
        async with connect_collector(uri_of(collector, "ws")) as client:
            info = await client.info()
            assert info.head == 130
            async with client.read(0, 130, spool_id=info.spool_id) as batches:
                found = [
                    json.loads(raw)["n"]
                    async for batch in batches
                    for raw in stored_events(batch).raw
                ]
        assert sorted(found) == list(range(130))
        numbers = collector.statistics()
        assert (numbers.stored, numbers.lumberjack_events) == (130, 100)
        await collector.aclose()
    assert not socket.exists()


async def test_tls(directory):
    """One certificate serves both protocols."""
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), None
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    listen = ("lumberjacks://127.0.0.1:0", "tls://127.0.0.1:0")
    async with running(directory, *listen, ssl_context=server) as collector:
        async with connect_lumberjack(uri_of(collector, "lumberjacks"), ssl_context=client) as out:
            await out.send([{"a": 1}])
        async with connect_collector(uri_of(collector, "tls"), ssl_context=client) as reader:
            assert (await reader.info()).head == 1


async def test_a_second_start_goes_on(directory):
    """Offsets, positions and events are those of the first one."""
    for start in range(3):
        async with running(directory, LUMBERJACK, RSOCKET) as collector:
            await ship(uri_of(collector, "lumberjack"), [{"n": start}] * 10)
            async with connect_collector(uri_of(collector, "tcp")) as client:
                info = await client.info()
                assert info.head == 10 * (start + 1)
                assert info.positions == ({} if start == 0 else {"q": 5})
                await client.commit("q", 5, instance=str(start), spool_id=info.spool_id)
            assert collector.statistics().stored == 10
            await collector.aclose()
            await collector.aclose()
    assert sum(each.count for each in stored(directory)) == 30


async def test_a_full_spool(directory):
    """Senders of Lumberjack get keep-alives, wait longer than their timeout, and stay connected."""
    config = LumberjackConfig(keepalive_interval=0.1)
    async with running(
        directory, LUMBERJACK, RSOCKET, max_size=20_000, lumberjack=config
    ) as collector:
        events = [{"n": number, "text": "x" * 100} for number in range(1000)]
        uri = uri_of(collector, "lumberjack")
        async with (
            connect_lumberjack(
                uri, config=ShipperConfig(max_window=20, ack_timeout=2, compression_level=0)
            ) as shipper,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(shipper.send, events)
            await until(lambda: collector.spool.full)
            await trio.sleep(2.5)
            assert collector.spool.head < 500
            numbers = shipper.statistics()
            assert (numbers.resent, numbers.reconnects, numbers.connections) == (0, 0, 1)
            found = []
            async with connect_collector(uri_of(collector, "tcp")) as client:
                info = await client.info()
                assert info.full
                at = info.oldest
                while at < 1000:
                    info = await client.info()
                    async with client.read(at, info.head, spool_id=info.spool_id) as batches:
                        for batch in await everything(batches):
                            found += [json.loads(raw)["n"] for raw in stored_events(batch).raw]
                    at = info.head
                    await client.commit("q", at, instance="a", spool_id=info.spool_id)
            assert found == list(range(1000))
            assert shipper.statistics().resent == 0


async def test_a_reader_that_leaves_in_the_middle(directory):
    """Its connection breaks; others and the collector go on."""
    async with running(directory) as collector:
        await collector.spool.commit("q", 0)
        async with connect(collector.uris[0], **JSON) as requester:
            items = [Payload(b"%01000d" % n) for n in range(3000)]
            async with requester.request_channel(items, route=EVENTS) as replies:
                async for _ in replies:
                    pass
        for _ in range(3):
            async with connect_collector(collector.uris[0]) as client:
                async with client.read(0, 3000, spool_id=collector.spool.spool_id) as batches:
                    await anext(batches)
        async with connect_collector(collector.uris[0]) as client:
            async with client.read(0, 3000, spool_id=collector.spool.spool_id) as batches:
                assert sum([each.wanted async for each in batches]) == 3000


async def test_connections_are_counted(directory):
    """Those of all protocols, while they are open."""
    async with running(directory, LUMBERJACK, RSOCKET) as collector:
        assert collector.statistics().connections == 0
        async with connect_lumberjack(uri_of(collector, "lumberjack")) as shipper:
            await shipper.send([{"message": "a"}])
            assert collector.statistics().connections == 1
            async with connect_collector(uri_of(collector, "tcp")) as client:
                assert (await client.statistics()).connections == 2
        await until(lambda: collector.statistics().connections == 0)


async def test_guards(directory):
    """An authenticator admits connections, for sending and for reading."""

    async def authenticate(auth, facts):
        raise Rejected("not you")

    async with running(directory, authenticate=authenticate) as collector:
        with pytest.raises((RejectedSetup, StreamError, ConnectionClosed), match="not you"):
            async with connect_collector(collector.uris[0]) as client:
                await client.info()


async def test_errors_at_the_start(directory, tmp_path):
    """They are raised as they are, not in groups, and nothing stays open."""
    for listen, options, error in (
        ((), {}, ValueError),
        (("http://127.0.0.1:0",), {}, ValueError),
        ((RSOCKET,), {"ssl_context": ssl.create_default_context()}, ValueError),
        (("tls://127.0.0.1:0",), {}, ValueError),
        ((RSOCKET,), {"subscribe": ["tcp://127.0.0.1:1"]}, ValueError),
        ((RSOCKET,), {"max_size": 0}, ValueError),
        (("tcp://192.0.2.1:1",), {}, OSError),
        ((LUMBERJACK, f"unix://{tmp_path}/no/socket"), {}, OSError),
    ):
        with pytest.raises(error):
            await collect(directory, *listen, **options)
        async with open_spool(directory):
            pass
    (tmp_path / "other").write_text("text")
    with pytest.raises(NotASpool):
        await collect(tmp_path, RSOCKET)
    async with running(directory):
        with pytest.raises(SpoolLocked):
            await collect(directory, RSOCKET)


@pytest.mark.parametrize("waited_for", [True, False])
async def test_a_spool_that_fails_for_good(directory, waited_for, caplog):
    """The collector ends with the error, alone. Events nobody waits for are said to be lost."""
    ended = []

    async def run(task_status):
        try:
            ingest = IngestConfig(max_batch_events=1)
            await collect(directory, RSOCKET, ingest=ingest, task_status=task_status)
        except SpoolError as error:
            ended.append(error)

    async with trio.open_nursery() as nursery:
        collector = await nursery.start(run)
        with faulty(collector.spool) as connection:
            connection.fail = lambda statement: fault(11) if statement == "COMMIT" else None
            async with connect(collector.uris[0], **JSON) as requester:
                if waited_for:
                    async with requester.request_channel([Payload(b"1")], route=EVENTS) as replies:
                        with pytest.raises((StreamError, ConnectionClosed)):
                            await replies.receive()
                else:
                    for _ in range(3):
                        await requester.fire_and_forget(Payload(b"1"), route=EVENTS)
            await until(lambda: bool(ended))
    assert isinstance(ended[0], SpoolFailed)
    assert ("events of fire_and_forget are lost: " in caplog.text) is not waited_for
    assert collector.statistics().dropped == (0 if waited_for else 3)
    assert collector.statistics().pending_size == 0


async def test_a_disk_that_is_full_for_a_while(directory):
    """Nothing is acknowledged meanwhile; then it goes on, and nothing is lost."""
    async with running(directory, LUMBERJACK, RSOCKET) as collector:
        with faulty(collector.spool) as connection:
            connection.fail = lambda statement: fault(13) if statement == "COMMIT" else None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ship, uri_of(collector, "lumberjack"), [{"n": 1}] * 5)
                async with connect_collector(uri_of(collector, "tcp")) as client:
                    with trio.fail_after(30):
                        while (await client.info()).trouble != "injected":
                            await trio.sleep(0.01)
                    assert collector.spool.head == 0
                    connection.fail = lambda statement: None
        assert collector.spool.head == 5


async def test_a_socket_file_is_for_its_owner(directory, tmp_path):
    """As all servers of this package make it; another file is not overwritten."""
    socket = tmp_path / "socket"
    async with running(directory, f"unix://{socket}"):
        assert stat.S_ISSOCK(socket.stat().st_mode)
    other = tmp_path / "file"
    other.write_text("text")
    with pytest.raises(OSError, match="file"):
        await collect(directory, f"unix://{other}")
    assert other.read_text() == "text"


async def test_web_pages_are_not_let_in_by_default(directory):
    """A page that a user of this host visits must not read the events."""
    async with running(directory, "ws://127.0.0.1:0/a") as collector:
        with pytest.raises(Exception, match="403"):
            async with connect(collector.uris[0], headers=[("Origin", "https://example.org")]):
                pass


async def test_cancelled_everywhere(directory):
    """A collector that is cancelled at any moment leaves nothing open."""

    async def operation():
        async with trio.open_nursery() as nursery:
            collector = await nursery.start(partial(collect, directory, LUMBERJACK, RSOCKET))
            await collector.aclose(grace=0)

    async def check():
        async with open_spool(directory):
            pass

    async with assert_no_leaks():
        await cancel_everywhere(operation, check)
