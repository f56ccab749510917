"""The client with our own server on real sockets: versions, compression, TLS, restarts."""

from __future__ import annotations

import random
import ssl
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trustme

from rsocket_trio.lumberjack import (
    LumberjackConfig,
    LumberjackLimits,
    ShipError,
    ShipperConfig,
    connect,
    encode_pairs,
    serve,
)
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS

FAST = Retry(initial_delay=0.01, max_delay=0.05)


@asynccontextmanager
async def serving(handler, address=ADDRESS, **settings):
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, address, **settings))
        yield server
        await server.aclose(grace=1)


@pytest.mark.parametrize("level", [0, 1, 3, 9])
@pytest.mark.parametrize("version", [1, 2])
async def test_versions_and_levels(version, level):
    """Every event arrives once, in order, in windows of one form."""
    received, forms = [], set()

    async def store(batch):
        received.extend(batch.events)
        forms.add((batch.version, batch.compressed is not None))

    config = ShipperConfig(version=version, compression_level=level)
    events = [{"n": str(n), "message": "grün"} for n in range(5000)]
    async with serving(store) as server, connect(server.uris, config=config) as shipper:
        await shipper.send(events)
        assert received == events
        assert shipper.statistics().acknowledged == shipper.statistics().sent == 5000
    assert forms == {(version, level > 0)}


async def test_bytes_and_mappings_in_one_call():
    """Each event may be of either kind, in both versions."""
    received = []

    async def store(batch):
        received.extend(batch.events)

    async with serving(store) as server:
        async with connect(server.uris[0]) as shipper:
            await shipper.send([b'{"n":1}', {"n": 2}, b"3"])
        async with connect(server.uris[0], config=ShipperConfig(version=1)) as shipper:
            await shipper.send(event for event in [encode_pairs([("n", "4")]), {"n": b"5"}])
    assert received == [{"n": 1}, {"n": 2}, 3, {"n": "4"}, {"n": "5"}]


async def test_large_events():
    """One of 16 MiB goes alone, and others around it."""
    sizes = []

    async def store(batch):
        sizes.append([len(raw) for raw in batch.raw])

    config = ShipperConfig(compression_level=1)
    async with serving(store) as server, connect(server.uris, config=config) as shipper:
        await shipper.send([b"{}", b"x" * 16 * 2**20, b"{}"])
    assert sizes == [[2], [16 * 2**20], [2]]


@attrs.frozen
class Certificates:
    server: ssl.SSLContext
    client: ssl.SSLContext
    unknown: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates():
    """A server that wants certificates, a client that has one, and a client that has none."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    clients = []
    for _ in range(2):
        client = ssl.create_default_context()
        authority.configure_trust(client)
        clients.append(client)
    authority.issue_cert("shipper@example.org").configure_cert(clients[0])
    return Certificates(server, *clients)


async def test_tls_with_a_client_certificate(certificates):
    """The server sees who ships."""
    names = []

    async def store(batch):
        certificate = batch.transport.extra["peer_certificate"]
        names.append(dict(certificate["subjectAltName"])["email"])

    secure = {"address": "lumberjacks://127.0.0.1:0", "ssl_context": certificates.server}
    async with (
        serving(store, **secure) as server,
        connect(server.uris, ssl_context=certificates.client) as shipper,
    ):
        await shipper.send([{"n": n} for n in range(200)])
    assert set(names) == {"shipper@example.org"}


@pytest.mark.parametrize("trusted", [True, False])
async def test_tls_that_fails(certificates, trusted):
    """A server without trust, or a client without a certificate: the error says so."""

    async def store(batch):
        raise AssertionError

    retry = Retry(initial_delay=0.01, max_attempts=2)
    config = ShipperConfig(retry=retry)
    context = certificates.unknown if trusted else None
    secure = {"address": "lumberjacks://127.0.0.1:0", "ssl_context": certificates.server}
    async with serving(store, **secure) as server:
        async with connect(server.uris, ssl_context=context, config=config) as shipper:
            with pytest.raises(ShipError) as info:
                await shipper.send([b"{}"])
    assert ("TLS alert certificate required" if trusted else "CERTIFICATE_VERIFY") in str(
        info.value
    )


async def test_a_server_that_fails_at_random():
    """Acknowledged events are not sent again; all arrive; each failure doubles only a tail."""
    chance = random.Random(7)
    received, doubled = [], 0

    async def store(batch):
        nonlocal doubled
        for number, event in batch.numbered():
            received.append(event["n"])
            if chance.random() < 0.05:
                await batch.ack(number)
            if chance.random() < 0.02:
                doubled += number - batch.acknowledged
                raise OSError("the disk is full")

    config = ShipperConfig(retry=FAST, initial_window=20, max_window=50)
    async with serving(store) as server, connect(server.uris, config=config) as shipper:
        async with trio.open_nursery() as nursery:
            for start in range(0, 1000, 100):
                events = [{"n": n} for n in range(start, start + 100)]
                nursery.start_soon(shipper.send, events)
        statistics = shipper.statistics()
    assert statistics.acknowledged == 1000
    assert statistics.reconnects >= 5
    assert set(received) == set(range(1000))
    assert len(received) == 1000 + doubled
    assert doubled


async def test_a_server_that_restarts():
    """The client waits for it, and goes on at the same address."""
    received = []

    async def store(batch):
        received.extend(event["n"] for event in batch.events)

    config = ShipperConfig(retry=FAST, initial_window=10, max_window=10)
    async with serving(store) as server:
        address = server.uris[0]
        async with connect(address, config=config) as shipper, trio.open_nursery() as nursery:
            await shipper.send([{"n": n} for n in range(15)])
            await server.aclose()
            nursery.start_soon(shipper.send, [{"n": n} for n in range(15, 40)])
            await trio.sleep(0.1)
            async with serving(store, address):
                with trio.fail_after(30):
                    while len(received) < 40:
                        await trio.sleep(0.01)
            nursery.cancel_scope.deadline = trio.current_time() + 30
    assert received == list(range(40))


async def test_keep_alives_of_a_slow_server():
    """A handler that takes longer than `ack_timeout` is waited for."""

    async def store(batch):
        await trio.sleep(1.5)

    quick = LumberjackConfig(keepalive_interval=0.1)
    config = ShipperConfig(ack_timeout=1.2)
    async with serving(store, config=quick) as server, connect(server.uris, config=config) as it:
        await it.send([b"{}"])
        assert it.statistics().sent == 1


async def test_many_callers():
    """Small calls share windows, so they do not wait for each other's ACKs."""
    batches = 0

    async def store(batch):
        nonlocal batches
        batches += 1
        await trio.sleep(0.01)

    async with serving(store) as server, connect(server.uris) as shipper:
        async with trio.open_nursery() as nursery:
            for n in range(500):
                nursery.start_soon(shipper.send, [{"n": n}])
    assert batches < 20


async def test_limits_of_the_server_are_kept():
    """With the same limits on both sides, every call that is accepted arrives."""
    limits = LumberjackLimits(
        max_window=7, max_event_size=500, max_batch_size=900, max_compressed_size=700,
        max_inflated_size=800, max_compressed_frames=5,
    )  # fmt: skip
    received = []

    async def store(batch):
        received.extend(batch.raw)

    quick = LumberjackConfig(limits=limits)
    chance = random.Random(1)
    events = [chance.randbytes(chance.randrange(1, 500)) for _ in range(200)]
    for level in (0, 3):
        received.clear()
        config = ShipperConfig(limits=limits, compression_level=level, retry=FAST)
        async with serving(store, config=quick) as server:
            async with connect(server.uris, config=config) as shipper:
                await shipper.send(events)
                assert shipper.statistics().connections == 1
        assert received == events
