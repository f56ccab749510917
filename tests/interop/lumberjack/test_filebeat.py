"""Filebeat 7.17 ships files to our server: every line arrives, and its registry says so."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from rsocket_trio.lumberjack import LumberjackConfig

pytestmark = pytest.mark.interop

SIZE = 500
"""Events per window at most."""

QUICK = LumberjackConfig(keepalive_interval=0.2)


def some_lines(count=3000, word="line"):
    """Different lines, with characters that JSON must escape."""
    return [f'{word} {number}: "\u00e4\u20ac\U0001f980" \\ \t<&>' for number in range(count)]


def assert_each_once(lines, *handlers):
    """Check that each line arrived once; each batch has its lines in the order of the file.

    Filebeat does not keep the order of batches: it puts one back while it connects.
    """
    places = {line: place for place, line in enumerate(lines)}
    arrived = Counter()
    for handler in handlers:
        arrived.update(handler.lines)
        for batch in handler.batches:
            order = [places[event["message"]] for event in batch.events]
            assert order == sorted(order)
    assert arrived == Counter(lines)


async def shipped(filebeat, received, lines):
    """Run Filebeat until all lines have arrived and its registry says that they have."""
    async with filebeat.running():
        await received.wait_lines(lines)
        await filebeat.wait_registered()


@pytest.mark.parametrize(
    ("pipelining", "level"), [(0, 0), (0, 3), (1, 0), (2, 3), (3, 9), (4, 0), (5, 3)]
)
async def test_every_line_arrives_once(received, receiving, filebeat, pipelining, level):
    """Plain and compressed, with any number of windows in flight."""
    handler = received()
    async with receiving(handler) as server:
        beat = filebeat(
            *server.uris, pipelining=pipelining, compression_level=level, bulk_max_size=SIZE
        )
        lines = some_lines()
        beat.write(lines)
        await shipped(beat, handler, lines)
        statistics = server.statistics()
    assert_each_once(lines, handler)
    assert len(handler.batches) >= len(lines) // SIZE
    assert {batch.compressed for batch in handler.batches} == {level > 0}
    assert statistics.accepted == 1
    assert statistics.acknowledged == len(lines)


async def test_default_settings(received, receiving, filebeat):
    """Filebeat as it is delivered sends windows of 2048 events; several files, one of them late."""
    handler = received()
    async with receiving(handler) as server:
        beat = filebeat(*server.uris)
        first, second, third = (some_lines(4000, word) for word in ("one", "two", "three"))
        beat.write(first, "first.log")
        beat.write(second, "second.log")
        async with beat.running():
            await handler.wait_lines(first + second)
            beat.write(third, "third.log")
            await handler.wait_lines(third)
            await beat.wait_registered()
    assert Counter(handler.lines) == Counter(first + second + third)
    assert max(len(batch.events) for batch in handler.batches) == 2048


async def test_slow_start(received, receiving, filebeat):
    """With slow_start windows begin with 10 events and grow."""
    handler = received()
    async with receiving(handler) as server:
        beat = filebeat(*server.uris, slow_start=True, bulk_max_size=SIZE)
        lines = some_lines()
        beat.write(lines)
        await shipped(beat, handler, lines)
    assert_each_once(lines, handler)
    sizes = [len(batch.events) for batch in handler.batches]
    assert sizes[0] == 10
    assert max(sizes) > 10


async def test_tls_with_certificates(received, receiving, filebeat, certificates):
    """Both ends have certificates; the handler gets the subject of Filebeat's."""
    handler = received()
    uri = "lumberjacks://127.0.0.1:0"
    async with receiving(handler, uri, ssl_context=certificates.server) as server:
        ssl = {
            "certificate_authorities": [str(certificates.authority)],
            "certificate": str(certificates.client),
            "key": str(certificates.client_key),
        }
        beat = filebeat(*server.uris, ssl=ssl, bulk_max_size=SIZE)
        lines = some_lines()
        beat.write(lines)
        await shipped(beat, handler, lines)
    assert_each_once(lines, handler)
    for batch in handler.batches:
        subject = {key: value for ((key, value),) in batch.certificate["subject"]}
        assert subject["commonName"] == "shipper"


async def test_tls_without_a_certificate(received, receiving, filebeat, certificates, caplog):
    """Filebeat without a certificate is refused: nothing arrives, and our log says why."""
    handler = received()
    uri = "lumberjacks://127.0.0.1:0"
    async with receiving(handler, uri, ssl_context=certificates.server) as server:
        beat = filebeat(
            *server.uris, ssl={"certificate_authorities": [str(certificates.authority)]}
        )
        beat.write(some_lines(10))
        async with beat.running():
            # It tries again, too.
            while caplog.text.count("did not return a certificate") < 2:
                await trio.sleep(0.02)
    assert not handler.batches
    assert not any(beat.registered().values())


async def test_two_servers_share_the_load(received, receiving, filebeat):
    """With loadbalance both servers get a part of the lines, and together all of them, once."""

    async def work(_):
        await trio.sleep(0.02)

    first, second = received(work), received(work)
    async with receiving(first) as one, receiving(second) as other:
        beat = filebeat(*one.uris, *other.uris, loadbalance=True, bulk_max_size=100)
        lines = some_lines()
        beat.write(lines)
        async with beat.running():
            with trio.fail_after(20):
                while len(first.lines) + len(second.lines) < len(lines):
                    await trio.sleep(0.02)
            await beat.wait_registered()
    assert first.lines
    assert second.lines
    assert_each_once(lines, first, second)


async def test_the_other_server_takes_over(received, receiving, filebeat):
    """Without loadbalance one server gets everything; when it stops, the other one does."""
    first, second = received(), received()
    async with receiving(first) as one, receiving(second) as other:
        beat = filebeat(*one.uris, *other.uris, bulk_max_size=SIZE)
        before, after = some_lines(2000, "before"), some_lines(2000, "after")
        beat.write(before)
        async with beat.running():
            await beat.wait_registered()
            used, spare, server = (first, second, one) if first.batches else (second, first, other)
            assert not spare.batches
            await server.aclose()
            beat.write(after)
            await spare.wait_lines(after)
            await beat.wait_registered()
    assert_each_once(before, used)
    assert_each_once(after, spare)


async def test_graceful_restart_doubles_nothing(received, receiving, filebeat, kept_address):
    """A server that stops gracefully in the middle, and starts again, gets each line once."""
    handler = received()

    async def work(_):
        await trio.sleep(0.05)

    handler.before = work
    lines = some_lines()
    async with receiving(handler, kept_address) as server:
        beat = filebeat(*server.uris, bulk_max_size=100, pipelining=3)
        beat.write(lines)
        async with beat.running():
            await handler.wait_events(500)
            await server.aclose()
            assert len(handler.lines) < len(lines)
            async with receiving(handler, server.uris[0]):
                await handler.wait_lines(lines)
                await beat.wait_registered()
    assert_each_once(lines, handler)


async def test_handler_that_fails(received, receiving, filebeat, caplog):
    """Filebeat sends the batch of a failed handler again; later ones are not lost either."""
    failures = 0

    async def fail_twice(batch):
        nonlocal failures
        found = any(event["message"].startswith("line 600:") for event in batch.events)
        if found and failures < 2:
            failures += 1
            raise OSError("the disk is full")

    handler = received(fail_twice)
    async with receiving(handler) as server:
        beat = filebeat(*server.uris, bulk_max_size=SIZE, pipelining=1)
        lines = some_lines()
        beat.write(lines)
        await shipped(beat, handler, lines)
        assert server.statistics().accepted == 3
    assert failures == 2
    assert_each_once(lines, handler)
    assert "the disk is full" in caplog.text


async def test_partial_acks(received, receiving, filebeat):
    """Filebeat takes ACKs of parts of a window and still waits for the whole."""

    async def in_parts(batch):
        for number in range(100, len(batch), 100):
            await batch.ack(number)

    handler = received(in_parts)
    async with receiving(handler) as server:
        beat = filebeat(*server.uris, bulk_max_size=SIZE, pipelining=2)
        lines = some_lines()
        beat.write(lines)
        await shipped(beat, handler, lines)
        assert server.statistics().accepted == 1
    assert_each_once(lines, handler)


@pytest.mark.parametrize("pipelining", [0, 2])
async def test_keepalives_hold_a_sender(received, receiving, filebeat, pipelining):
    """A handler needs longer than Filebeat's timeout: keep-alives prevent that it sends again."""

    async def work(_):
        if not handler.batches:
            await trio.sleep(3)

    handler = received(work)
    async with receiving(handler, config=QUICK) as server:
        beat = filebeat(*server.uris, bulk_max_size=SIZE, pipelining=pipelining, timeout="2s")
        lines = some_lines()
        beat.write(lines)
        await shipped(beat, handler, lines)
        assert server.statistics().accepted == 1
    assert_each_once(lines, handler)


async def test_without_keepalives_it_sends_again(received, receiving, filebeat):
    """Without keep-alives Filebeat leaves at its timeout, and sends the same lines again."""
    hung = cancelled = 0

    async def hang_once(_):
        nonlocal hung, cancelled
        if not hung:
            hung += 1
            try:
                await trio.sleep_forever()
            finally:
                cancelled += 1

    handler = received(hang_once)
    async with receiving(handler, config=LumberjackConfig(keepalive_interval=60)) as server:
        beat = filebeat(*server.uris, bulk_max_size=SIZE, pipelining=1, timeout="1s")
        lines = some_lines()
        beat.write(lines)
        await shipped(beat, handler, lines)
        assert server.statistics().accepted == 2
        assert cancelled == 1
    assert_each_once(lines, handler)


@pytest.mark.parametrize("pipelining", [0, 5])
async def test_handler_is_cancelled_when_filebeat_dies(receiving, filebeat, pipelining):
    """The end of a Filebeat is noticed while a handler hangs, also if its windows wait unread."""
    waiting, cancelled = trio.Event(), trio.Event()

    async def hang(_):
        waiting.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with receiving(hang, config=QUICK) as server:
        beat = filebeat(*server.uris, bulk_max_size=100, pipelining=pipelining)
        beat.write(some_lines())
        async with beat.running() as peer:
            await waiting.wait()
            if pipelining:
                while server.statistics().held_batches < 3:
                    await trio.sleep(0.02)
            await peer.kill()
        with trio.fail_after(10):
            await cancelled.wait()
            while server.statistics().held_batches or server.statistics().connections:
                await trio.sleep(0.02)


async def test_filebeat_is_killed(received, receiving, filebeat):
    """Filebeat is killed in the middle; the next one goes on where the registry says."""

    async def work(_):
        await trio.sleep(0.02)

    handler = received(work)
    async with receiving(handler) as server:
        beat = filebeat(*server.uris, bulk_max_size=100)
        lines = some_lines()
        beat.write(lines)
        async with beat.running() as peer:
            await handler.wait_events(1000)
            await peer.kill()
        assert len(handler.lines) < len(lines)
        acknowledged = (beat.logs / "a.log").read_bytes()[: beat.registered().get("a.log", 0)]
        assert set(acknowledged.decode().splitlines()) <= set(handler.lines)
        await shipped(beat, handler, lines)
    assert set(handler.lines) == set(lines)
