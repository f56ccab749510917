"""Other senders ship to our server: pylogbeat, and lumberjack-protocol for Node."""

from __future__ import annotations

import json

import pytest
import trio

from rsocket_trio.lumberjack import LumberjackConfig

pytestmark = pytest.mark.interop

QUICK = LumberjackConfig(keepalive_interval=0.1)


def port_of(server):
    return int(server.uris[0].rpartition(":")[2])


@pytest.fixture
def send_by_pylogbeat(installed):
    """``await send(server, windows, **settings)``: send over one connection of pylogbeat."""
    installed.require("pylogbeat")

    def run(port, windows, settings):
        import pylogbeat

        # Its timeout is for each read, so a test that fails ends.
        with pylogbeat.PyLogBeatClient("127.0.0.1", port, timeout=20, **settings) as client:
            for window in windows:
                client.send(window)

    async def send(server, windows, **settings):
        await trio.to_thread.run_sync(run, port_of(server), windows, settings)

    return send


WINDOWS = [[{"n": 1000 * window + n} for n in range(250)] for window in range(6)]


async def test_pylogbeat(received, receiving, send_by_pylogbeat):
    """pylogbeat counts its sequence on over windows; each of six windows gets its ACK."""
    handler = received()
    async with receiving(handler) as server:
        await send_by_pylogbeat(server, WINDOWS)
        assert server.statistics().accepted == 1
    assert [batch.events for batch in handler.batches] == WINDOWS


async def test_pylogbeat_waits_for_a_slow_handler(received, receiving, send_by_pylogbeat):
    """Keep-alives and partial ACKs do not confuse it: it waits for the last sequence."""

    async def in_parts(batch):
        await batch.ack(100)
        await trio.sleep(0.25)

    handler = received(in_parts)
    async with receiving(handler, config=QUICK) as server:
        await send_by_pylogbeat(server, WINDOWS)
    assert [batch.events for batch in handler.batches] == WINDOWS


async def test_pylogbeat_with_tls(received, receiving, send_by_pylogbeat, certificates):
    """Both ends have certificates."""
    handler = received()
    uri = "lumberjacks://127.0.0.1:0"
    async with receiving(handler, uri, ssl_context=certificates.server) as server:
        await send_by_pylogbeat(
            server,
            WINDOWS,
            ssl_enable=True,
            ca_certs=str(certificates.authority),
            certfile=str(certificates.client),
            keyfile=str(certificates.client_key),
        )
    assert [batch.events for batch in handler.batches] == WINDOWS
    assert handler.batches[0].certificate


@pytest.fixture
def node_client(installed):
    """The command for the client of lumberjack-protocol, without its arguments."""
    installed.require("lumberjack-protocol")
    return ["node", str(installed.JS / "lumberjack_client.js")]


@pytest.mark.parametrize("count", [40, 43])
async def test_node(received, receiving, node_client, programs, certificates, count):
    """Node's client announces one window of 10 and sends events without end; it gets ACKs.

    Its events come in version 1 over TLS, uncompressed. The last ones do not fill a window. It
    gets no keep-alives, because they would make it close the connection.
    """

    async def work(_):
        await trio.sleep(0.15)

    handler = received(work)
    settings = {"config": QUICK, "ssl_context": certificates.server_only}
    async with receiving(handler, "lumberjacks://127.0.0.1:0", **settings) as server:
        argv = [*node_client, str(port_of(server)), str(certificates.authority), "10", str(count)]
        async with programs.running(argv) as peer:
            assert json.loads(await peer.line()) == {"connected": True}
            acked = [0]
            while acked[-1] < count:
                line = json.loads(await peer.line())
                assert list(line) == ["acked"], line
                acked.append(line["acked"])
        assert server.statistics().accepted == 1
    assert acked == sorted(acked)
    assert len(acked) >= 1 + count // 10
    assert [event["n"] for event in handler.events] == [str(n) for n in range(count)]
    assert handler.events[-1]["line"] == f"event {count - 1} \u00e4"
    assert {batch.version for batch in handler.batches} == {1}
