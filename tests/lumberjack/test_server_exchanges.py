"""Every recorded exchange against the running server, over TCP and over TLS."""

from __future__ import annotations

import logging
import re
import ssl
from contextlib import suppress
from functools import partial

import attrs
import pytest
import trio
import trustme

from rsocket_trio.lumberjack import LumberjackConfig, serve
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, port_of, sender_to
from tests.lumberjack.test_exchanges import ACKS, ERRORS, FLUSHED, INSIDE, segments
from tests.lumberjack.vectors import EXCHANGES

CONFIG = LumberjackConfig(flush_delay=0.02, progress_timeout=0.1, close_timeout=1)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange["name"])
async def test_exchange(exchange, caplog):
    """The ACKs are the expected ones; an error closes the connection and has one line."""
    name = exchange["name"]
    events = []

    async def handler(batch):
        events.extend(batch.events)

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, ADDRESS, config=CONFIG))
        async with sender_to(server) as sender:
            for part in segments(exchange):
                await sender.send(part)
                await trio.sleep(0.01)
            expected = [] if name in ERRORS else ACKS[name] + FLUSHED.get(name, [])
            if name in ERRORS or name in INSIDE:
                assert await sender.acks_until_end() == expected
            else:
                assert [await sender.ack() for _ in expected] == expected
                await sender.no_ack_for(0.05)
        await server.aclose()
    statistics = server.statistics()
    assert (statistics.connections, statistics.held_batches, statistics.held_size) == (0, 0, 0)
    assert statistics.acknowledged == statistics.events == len(events)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    if name in ERRORS or name in INSIDE:
        (line,) = warnings
        assert re.search(ERRORS.get(name, "progress_timeout"), line.getMessage())
        assert "127.0.0.1:" in line.getMessage()
        assert "check that it ships by Lumberjack" in line.getMessage()
    else:
        assert not warnings


@attrs.frozen
class Certificates:
    server: ssl.SSLContext
    stranger: ssl.SSLContext
    known: ssl.SSLContext


@pytest.fixture(scope="module")
def certificates():
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(server)
    authority.configure_trust(server)
    stranger = ssl.create_default_context()
    authority.configure_trust(stranger)
    known = ssl.create_default_context()
    authority.configure_trust(known)
    authority.issue_cert("shipper@example.org").configure_cert(known)
    return Certificates(server, stranger, known)


def with_mode(context, mode):
    context.verify_mode = mode
    return context


SOME = [
    exchange
    for exchange in EXCHANGES
    if exchange["name"]
    in {
        "v2 W3 C(J1..3)",
        "v2 rollover inside a window",
        "v1 node style: W3 once, then 5 D",
        "HTTP GET on the port",
        "v2 J length 0",
    }
]


@pytest.mark.parametrize("exchange", SOME, ids=lambda exchange: exchange["name"])
async def test_exchange_over_tls(exchange, certificates):
    """TLS with a required client certificate: the same ACKs, and the handler sees who sends."""
    name = exchange["name"]
    seen = []

    async def handler(batch):
        seen.append(batch.transport)

    context = with_mode(certificates.server, ssl.CERT_REQUIRED)
    start = partial(serve, handler, "lumberjacks://127.0.0.1:0", config=CONFIG, ssl_context=context)
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(start)
        async with sender_to(server, certificates.known) as sender:
            for part in segments(exchange):
                await sender.send(part)
            expected = [] if name in ERRORS else ACKS[name] + FLUSHED.get(name, [])
            if name in ERRORS:
                assert await sender.acks_until_end() == []
            else:
                assert [await sender.ack() for _ in expected] == expected
        await server.aclose()
    for info in seen:
        assert info.scheme == "lumberjacks"
        names = dict(info.extra["peer_certificate"]["subjectAltName"])
        assert names["email"] == "shipper@example.org"
    assert bool(seen) is (name not in ERRORS)


async def test_optional_and_required_certificates(certificates, caplog):
    """A sender without a certificate is served only if certificates are optional."""
    seen = []

    async def handler(batch):
        seen.append(batch.transport.extra["peer_certificate"])

    for mode, served in ((ssl.CERT_OPTIONAL, True), (ssl.CERT_REQUIRED, False)):
        context = with_mode(certificates.server, mode)
        start = partial(serve, handler, "lumberjacks://127.0.0.1:0", ssl_context=context)
        async with trio.open_nursery() as nursery:
            server = await nursery.start(start)
            if served:
                async with sender_to(server, certificates.stranger) as sender:
                    await sender.send(full_window(1))
                    assert await sender.ack() == (2, 1)
            else:
                with pytest.raises(trio.BrokenResourceError):
                    async with sender_to(server, certificates.stranger) as sender:
                        await sender.send(full_window(1))
                        assert await sender.ack() is None
                        raise trio.BrokenResourceError
            await server.aclose()
    assert seen == [None]
    assert "the handshake with 127.0.0.1:" in caplog.text


async def test_a_reset_does_not_destroy_acks():
    """After an error the ACKs before it arrive, although further bytes are never read."""

    async def handler(batch):
        assert batch.events

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(full_window(2) + full_window(3) + b"junk" * 100_000)
            await trio.sleep(0.05)
            assert await sender.acks_until_end() == [(2, 2), (2, 3)]
        await server.aclose()


async def test_plain_senders_at_a_tls_address(certificates, caplog):
    """The handshake fails, which has a line, and the next sender is served."""

    async def handler(batch):
        pass

    context = with_mode(certificates.server, ssl.CERT_NONE)
    start = partial(serve, handler, "lumberjacks://127.0.0.1:0", ssl_context=context)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(start)
        stream = await trio.open_tcp_stream("127.0.0.1", port_of(server))
        async with stream:
            await stream.send_all(full_window(1))
            assert not (await stream.receive_some()).startswith(b"2A")
        async with sender_to(server, certificates.stranger) as sender:
            await sender.send(full_window(1))
            assert await sender.ack() == (2, 1)
        await server.aclose()
    assert "the handshake with 127.0.0.1:" in caplog.text


async def test_both_directions_over_tls(certificates):
    """Keep-alives and ACKs leave while the sender is in the middle of its next batch."""
    go, may_answer = trio.open_memory_channel[None](1)

    async def answer_when_told(_batch):
        with suppress(trio.EndOfChannel):
            await may_answer.receive()

    context = with_mode(certificates.server, ssl.CERT_NONE)
    config = LumberjackConfig(keepalive_interval=0.01)
    address = "lumberjacks://127.0.0.1:0"
    start = partial(serve, answer_when_told, address, config=config, ssl_context=context)
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(start)
        async with sender_to(server, certificates.stranger) as sender:
            await sender.send(full_window(2))
            data = full_window(2)
            for _ in range(5):
                await sender.send(data[:20])
                assert [await sender.ack() for _ in range(3)] == [(2, 0)] * 3
                go.send_nowait(None)
                while (ack := await sender.ack()) == (2, 0):
                    pass
                assert ack == (2, 2)
                await sender.send(data[20:])
            go.close()
        await server.aclose()


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
async def test_a_handshake_does_not_delay_a_stop(certificates, sent, caplog):
    """It ends at once, in place of the grace."""

    async def handler(_batch):
        raise AssertionError

    context = with_mode(certificates.server, ssl.CERT_NONE)
    start = partial(serve, handler, "lumberjacks://127.0.0.1:0", ssl_context=context)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(start)
        async with sender_to(server) as slow:
            await slow.send(sent)
            await trio.sleep(0.05)
            with trio.fail_after(30):
                await server.aclose(grace=60)
            assert await slow.ack() is None
    assert not caplog.records
