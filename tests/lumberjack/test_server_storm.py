"""Many senders of all kinds at once, at small limits: whatever they do, nothing is left of them."""

from __future__ import annotations

import random
import socket
import struct
from functools import partial

import pytest
import trio

from rsocket_trio.lumberjack import LumberjackConfig, LumberjackLimits, encode_batch, serve
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to
from tests.lumberjack.vectors import compressed, event, window

LIMITS = LumberjackLimits(max_batch_size=200_000, max_inflated_size=200_000)
CONFIG = LumberjackConfig(
    limits=LIMITS,
    max_batches=8,
    max_held_size=200_000,
    max_incoming_size=300_000,
    first_byte_timeout=0.3,
    progress_timeout=0.3,
    batch_timeout=1,
    idle_timeout=0.5,
    flush_delay=0.02,
    keepalive_interval=0.03,
    send_timeout=0.5,
    close_timeout=0.1,
)
LARGE = b'"%s"' % (b"x" * 90_000)


def pieces(rng):
    """What a sender sends, by and by."""
    version = rng.choice([1, 2])
    for _ in range(rng.randint(1, 12)):
        yield rng.choice(
            [
                window(0, version) * rng.randint(1, 3000),
                full_window(rng.randint(1, 20), rng.randint(0, 2**32 - 21), version),
                full_window(3, 1, version)[: rng.randint(0, 60)],
                window(2, version) + event(1, LARGE, version) + event(2, LARGE, version),
                window(2, version) + event(1, LARGE, version),
                encode_batch([LARGE, LARGE], compression_level=9),
                compressed((window(1) + event(1, b"12")) * 300),
                compressed(event(1, b"1") * 300),
                compressed(window(0) * 5000),
                b"".join(event(n, b"1", version) for n in range(1, 50)),
                bytes(rng.randrange(256) for _ in range(5)),
                b"2A\0\0\0\1",
            ]
        )


async def bad_sender(server, seed):
    rng = random.Random(seed)
    with trio.move_on_after(rng.choice([0.05, 0.5, 5])):
        async with sender_to(server) as sender, trio.open_nursery() as nursery:
            if rng.random() < 0.3:
                linger = struct.pack("ii", 1, 0)
                sender.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            try:
                if rng.random() < 0.7:
                    nursery.start_soon(drain, sender)
                for piece in pieces(rng):
                    await sender.send(piece)
                    await trio.sleep(rng.choice([0, 0, 0.01, 0.1]))
            except trio.BrokenResourceError:
                pass
            await trio.sleep(rng.choice([0, 0.2]))
            nursery.cancel_scope.cancel()


async def drain(sender):
    try:
        while await sender.stream.receive_some():
            pass
    except trio.BrokenResourceError:
        pass


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm(seed, caplog):
    """A good sender gets all its ACKs meanwhile; the bounds hold, and at the end all is free."""
    rng = random.Random(seed)
    most = 0

    async def handler(batch):
        nonlocal most
        statistics = server.statistics()
        most = max(most, statistics.incoming_size)
        assert statistics.held_batches <= CONFIG.max_batches
        await trio.sleep(rng.choice([0, 0, 0.01]))
        if batch.raw[0] == b'{"n":13}':
            raise ValueError("bad luck")

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, ADDRESS, config=CONFIG))
        async with trio.open_nursery() as sending:
            for number in range(60):
                sending.start_soon(bad_sender, server, 1000 * seed + number)
            rounds = 0
            while len(sending.child_tasks) or rounds < 20:
                rounds += 1
                async with sender_to(server) as good:
                    await good.send(full_window(7))
                    with trio.fail_after(20):
                        while (ack := await good.ack()) == (2, 0):
                            pass
                    assert ack == (2, 7)
        with trio.fail_after(30):
            while server.statistics().connections:
                await trio.sleep(0.01)
        statistics = server.statistics()
        assert statistics.held_batches == statistics.held_size == 0
        assert statistics.incoming_size == statistics.waiting == 0
        await server.aclose()
    # Two connections more, each with a batch and one step of decoding, and a little for all.
    assert most < 300_000 + 2 * 2 * 300_000 + 60 * 65536
    assert "crashed" not in caplog.text
