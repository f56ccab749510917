"""go-lumber's clients, which are those of Beats, ship to our server."""

from __future__ import annotations

import json

import pytest
import trio

from rsocket_trio.lumberjack import LumberjackConfig

pytestmark = pytest.mark.interop

WINDOWS = 5
SIZE = 100
EVERYTHING = [{"n": number} for number in range(WINDOWS * SIZE)]


@pytest.fixture
def send(go_lumber_programs, programs):
    """``await send(uri, **options)``: run the Go client; return its lines of output."""

    async def run(uri, **options):
        flags = [f"-{name}={value}" for name, value in options.items()]
        address = uri.partition("://")[2]
        argv = [str(go_lumber_programs / "lumber"), "send", f"-c={address}", *flags]
        async with programs.running(argv) as peer:
            lines = []
            try:
                while True:
                    lines.append(json.loads(await peer.line()))
            except EOFError:
                return lines

    return run


@pytest.mark.parametrize("compress", [0, 3])
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_windows_are_acknowledged(received, receiving, send, how, compress):
    """Each window completes with its own count, one at a time and several in flight."""
    handler = received()
    async with receiving(handler) as server:
        lines = await send(server.uris[0], how=how, compress=compress, windows=WINDOWS, size=SIZE)
    assert lines == [{"acked": SIZE, "error": ""}] * WINDOWS
    assert handler.events == EVERYTHING
    assert {batch.compressed for batch in handler.batches} == {compress > 0}


async def test_every_ack_that_it_gets(received, receiving, send):
    """Partial ACKs and keep-alives arrive as such; each window ends with its last sequence."""

    async def in_parts(batch):
        await batch.ack(30)
        await batch.ack(60)
        await trio.sleep(0.35)

    handler = received(in_parts)
    config = LumberjackConfig(keepalive_interval=0.1)
    async with receiving(handler, config=config) as server:
        lines = await send(server.uris[0], how="raw", windows=WINDOWS, size=SIZE)
    acks = [line["acked"] for line in lines]
    assert 0 in acks
    assert [ack for ack in acks if ack] == [30, 60, SIZE] * WINDOWS
    assert handler.events == EVERYTHING


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_partial_acks_and_keepalives_are_taken(received, receiving, send, how):
    """Its AwaitACK passes over partial ACKs and keep-alives, also for longer than its timeout."""

    async def in_parts(batch):
        await batch.ack(30)
        if not handler.batches:
            await trio.sleep(3)

    handler = received(in_parts)
    config = LumberjackConfig(keepalive_interval=0.2)
    async with receiving(handler, config=config) as server:
        lines = await send(server.uris[0], how=how, windows=WINDOWS, size=SIZE, timeout="2s")
    assert lines == [{"acked": SIZE, "error": ""}] * WINDOWS
    assert handler.events == EVERYTHING


@pytest.mark.parametrize("options", [("-compress=0",), ("-pipeline=5",)], ids=" ".join)
async def test_tst_send(received, receiving, go_lumber_programs, programs, options):
    """go-lumber's own test client ships until it is stopped, by windows of 2048."""
    handler = received()
    async with receiving(handler) as server:
        address = server.uris[0].partition("://")[2]
        program = [str(go_lumber_programs / "tst-send"), "-c", address, "-httpprof", "127.0.0.1:0"]
        async with programs.running(programs.ends_with_stdin([*program, *options])):
            await handler.wait_events(5 * 2048)
        assert server.statistics().accepted == 1
    assert {len(batch.events) for batch in handler.batches} == {2048}
    assert {event["type"] for event in handler.events} == {"filebeat"}
