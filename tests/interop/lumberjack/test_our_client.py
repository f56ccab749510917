"""Our client ships to the servers of go-lumber and of Logstash."""

from __future__ import annotations

import re
import socket
import ssl

import pytest
import trio

from rsocket_trio import lumberjack
from rsocket_trio.lumberjack import ShipperConfig
from rsocket_trio.protocol.retry import Retry

pytestmark = pytest.mark.interop

COUNT = 4000
RETRY = Retry(initial_delay=0.05, max_delay=0.2)


def some_events(count=COUNT, first=0):
    return [{"n": number, "line": "\u00e4 \t\n"} for number in range(first, first + count)]


def config(**settings):
    return ShipperConfig(**{"max_window": 300, "initial_window": 300, "retry": RETRY} | settings)


@pytest.fixture
def go_lumber(receivers, go_lumber_programs):
    """``async with go_lumber(**options) as server``: go-lumber's server for version 2."""
    return receivers.go_lumber


@pytest.fixture
def logstash(receivers, installed):
    """``async with logstash(delay) as server``: the Beats input of Logstash."""
    installed.require("logstash-input-beats")
    return receivers.logstash


@pytest.fixture(params=["go-lumber", "logstash-input-beats"])
def server_of(request, receivers, installed):
    """``async with server_of() as server``: the server of a peer."""
    installed.require(request.param)
    return {"go-lumber": receivers.go_lumber, "logstash-input-beats": receivers.logstash}[
        request.param
    ]


@pytest.mark.parametrize("pipelining", [1, 4])
@pytest.mark.parametrize("level", [0, 3])
async def test_everything_arrives(server_of, level, pipelining):
    """Plain and compressed, one window on the way and several: each event arrives once."""
    settings = config(compression_level=level, pipelining=pipelining)
    async with server_of() as server, lumberjack.connect(server.uri, config=settings) as shipper:
        await shipper.send(some_events())
        await shipper.send([b'{"n":"raw"}'])
        statistics = shipper.statistics()
        await server.wait_events(COUNT + 1)
    assert server.events == [*some_events(), {"n": "raw"}]
    assert statistics.acknowledged == statistics.sent == COUNT + 1
    assert statistics.reconnects == 0


async def test_slow_start(go_lumber):
    """The windows begin small and grow up to max_window."""
    settings = config(initial_window=16, max_window=512)
    async with go_lumber() as server, lumberjack.connect(server.uri, config=settings) as shipper:
        await shipper.send(some_events())
    assert server.events == some_events()
    sizes = [len(batch) for batch in server.batches]
    assert sizes[0] == 16
    assert max(sizes) == 512


async def test_many_tasks(server_of):
    """Many calls at once share windows; the order within each call is kept."""
    async with server_of() as server:
        async with (
            lumberjack.connect(server.uri, config=config()) as shipper,
            trio.open_nursery() as nursery,
        ):
            for task in range(100):
                nursery.start_soon(shipper.send, some_events(30, 1000 * task))
        await server.wait_events(3000)
    numbers = [event["n"] for event in server.events]
    assert sorted(numbers) == [1000 * task + n for task in range(100) for n in range(30)]
    for task in range(100):
        own = [number for number in numbers if number // 1000 == task]
        assert own == sorted(own)


@pytest.mark.parametrize("level", [3, 9])
async def test_logstash_takes_version_1(logstash, level):
    """Version 1, compressed: the pairs of each event arrive once."""
    events = [{"n": str(number), "line": "\u00e4"} for number in range(COUNT)]
    settings = config(version=1, compression_level=level)
    async with logstash() as server, lumberjack.connect(server.uri, config=settings) as shipper:
        await shipper.send(events)
        assert shipper.statistics().reconnects == 0
        await server.wait_events(COUNT)
    assert server.events == events


async def test_keepalives_of_go_lumber(go_lumber):
    """While it needs longer than ack_timeout, its keep-alives prevent a second sending."""
    settings = config(ack_timeout=2.0, max_window=COUNT, initial_window=COUNT)
    async with (
        go_lumber(delay="3s", keepalive="200ms") as server,
        lumberjack.connect(server.uri, config=settings) as shipper,
    ):
        await shipper.send(some_events())
        assert shipper.statistics().resent == 0
    assert server.batches == [some_events()]


async def test_silent_server(go_lumber):
    """Without keep-alives the client takes the connection as lost, and sends again."""
    settings = config(ack_timeout=1.0, max_window=COUNT, initial_window=COUNT)
    async with (
        go_lumber(delay="1500ms", slow=1, keepalive="60s") as server,
        lumberjack.connect(server.uri, config=settings) as shipper,
    ):
        await shipper.send(some_events())
        assert shipper.statistics().resent == COUNT
        assert shipper.statistics().reconnects == 1
    assert server.batches[0] == some_events()
    assert server.events == some_events() * 2


async def test_tls_with_certificates(go_lumber, certificates):
    """Both ends have certificates. Without ours the server refuses, and `send` says so."""
    options = {"certificate": certificates.pair, "authority": certificates.authority}
    async with go_lumber(**options) as server:
        assert server.uri.startswith("lumberjacks://")
        trust = ssl.create_default_context(cafile=str(certificates.authority))
        few = config(retry=Retry(initial_delay=0.05, max_attempts=2))
        async with lumberjack.connect(server.uri, config=few, ssl_context=trust) as shipper:
            # The reason is the server's alert, or a broken pipe if writing fails first.
            with pytest.raises(lumberjack.ShipError, match=r"is lost: \S"):
                await shipper.send(some_events())
        assert not server.events
        async with lumberjack.connect(
            server.uri, config=config(), ssl_context=certificates.shipper
        ) as shipper:
            await shipper.send(some_events())
    assert server.events == some_events()


@pytest.mark.parametrize("pipelining", [1, 3])
async def test_server_is_killed(go_lumber, pipelining):
    """The server is killed in the middle and starts again: no acknowledged event is lost."""
    settings = config(max_window=100, initial_window=100, pipelining=pipelining)
    bind = "127.0.0.2:0"
    events = []
    async with trio.open_nursery() as nursery:
        done = trio.Event()

        async def ship(uri):
            async with lumberjack.connect(uri, config=settings) as shipper:
                await shipper.send(some_events())
                assert shipper.statistics().reconnects == 2
                done.set()

        for stop in (500, 1500, None):
            async with go_lumber(bind=bind, delay="10ms") as server:
                if not events:
                    nursery.start_soon(ship, server.uri)
                bind = server.uri.partition("://")[2]
                if stop is None:
                    await done.wait()
                else:
                    await server.wait_events(stop - len(events))
                    await server.kill()
            events += server.events
    numbers = [event["n"] for event in events]
    assert sorted(set(numbers)) == list(range(COUNT))
    # Only what was on the way is sent again, after each kill.
    assert len(numbers) <= COUNT + 2 * 100 * pipelining


async def test_load_balance(go_lumber):
    """Two servers get a part each, and together everything once."""
    settings = config(load_balance=True, max_window=100, initial_window=100)
    async with (
        go_lumber(delay="10ms") as one,
        go_lumber(delay="10ms") as other,
        lumberjack.connect([one.uri, other.uri], config=settings) as shipper,
    ):
        await shipper.send(some_events())
        assert shipper.statistics().connections == 2
    numbers = [[event["n"] for event in server.events] for server in (one, other)]
    assert all(numbers)
    assert sorted(numbers[0] + numbers[1]) == list(range(COUNT))


@pytest.mark.parametrize("load_balance", [False, True])
async def test_one_of_two_servers_is_killed(go_lumber, load_balance):
    """The other server gets what the killed one has not acknowledged."""
    settings = config(load_balance=load_balance, max_window=100, initial_window=100)
    async with (
        go_lumber(delay="10ms") as one,
        go_lumber(delay="10ms") as other,
        lumberjack.connect([one.uri, other.uri], config=settings) as shipper,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(shipper.send, some_events())
        while len(one.events) < 500 and len(other.events) < 500:
            await trio.sleep(0.01)
        first = one if len(one.events) >= 500 else other
        await first.kill()
    numbers = [event["n"] for server in (one, other) for event in server.events]
    assert sorted(set(numbers)) == list(range(COUNT))
    assert len(numbers) <= COUNT + 200


@pytest.mark.parametrize("level", [0, 3])
async def test_tst_lj(programs, go_lumber_programs, level):
    """go-lumber's own test server, with version 2 only, counts what we send."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.2", 0))
        address = "{}:{}".format(*reserved.getsockname())
    argv = [str(go_lumber_programs / "tst-lj"), "-bind", address, "-v1=false", "-v2=true"]
    async with programs.running(programs.ends_with_stdin(argv)) as peer:
        while "server up" not in peer.errors():
            await trio.sleep(0.01)
        settings = config(compression_level=level)
        async with lumberjack.connect(f"lumberjack://{address}", config=settings) as shipper:
            await shipper.send(some_events())
        sizes = re.findall(r"Received batch of (\d+) events", peer.errors())
    assert sum(map(int, sizes)) == COUNT
    assert len(sizes) > 3
