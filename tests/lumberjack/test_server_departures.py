"""Senders that leave while the server does not read from them."""

from __future__ import annotations

import logging
import socket
import ssl
import struct
from functools import partial

import pytest
import trio
import trustme

from rsocket_trio import os_support
from rsocket_trio.lumberjack import LumberjackConfig, serve
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to
from tests.lumberjack.vectors import compressed, event, window
from tests.waiting import until

CONFIG = LumberjackConfig(keepalive_interval=0.05, max_waiting_batches=1)
MUCH = 100_000
"""Bytes of which one read of ours leaves some. The buffers of the system take all of them."""

TOO_MUCH = 20_000_000
"""Bytes that these buffers do not take. The end of the connection cannot arrive before we read, as
the system of the sender sends it behind them. Only a write shows that the sender is gone."""


class Stuck:
    """A handler that does not return, and a note of its end."""

    def __init__(self):
        self.begun = trio.Event()
        self.ended = trio.Event()

    async def __call__(self, _batch):
        self.begun.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.set()


def close(_stream):
    pass  # The end of the block does it.


def reset(stream):
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.fixture(scope="module")
def contexts():
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


async def leave(server, stuck, version, how, client_context=None, size=MUCH):
    """Send more than the server reads, and leave; wait until the handler is cancelled."""
    one = full_window(1, 1, version)
    async with sender_to(server, client_context) as sender:
        async with trio.open_nursery() as sending:
            sending.start_soon(sender.send, one * (size // len(one)))
            await stuck.begun.wait()
            sending.cancel_scope.deadline = trio.current_time() + 0.3
        carrier = sender.stream.transport_stream if client_context else sender.stream
        how(carrier)
        if client_context:
            await trio.aclose_forcefully(sender.stream)
    with trio.fail_after(30):
        await stuck.ended.wait()
    with trio.fail_after(30):
        while server.statistics().connections:
            await trio.sleep(0.01)
    assert server.statistics().held_batches == server.statistics().incoming_size == 0


@pytest.mark.parametrize("how", [close, reset])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_sender_leaves_behind_unread_bytes(version, how, caplog):
    """Its handler is cancelled after an interval, although version 1 gets no keep-alives."""
    caplog.set_level(logging.INFO)
    stuck = Stuck()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, stuck, ADDRESS, config=CONFIG))
        await leave(server, stuck, version, how)
        await server.aclose()
    assert "is gone, with" in caplog.text


async def test_keepalives_find_out_behind_full_buffers():
    """The answer to a write is a reset, as the sender has closed. Version 1 allows no write."""
    stuck = Stuck()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, stuck, ADDRESS, config=CONFIG))
        await leave(server, stuck, 2, close, size=TOO_MUCH)
        await server.aclose()


async def test_over_tls(contexts):
    stuck = Stuck()
    start = partial(
        serve, stuck, "lumberjacks://127.0.0.1:0", config=CONFIG, ssl_context=contexts[0]
    )
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(start)
        await leave(server, stuck, 1, close, contexts[1])
        await server.aclose()


async def test_a_sender_leaves_during_a_graceful_stop():
    """Nothing is read any more then, and the handler need not use up the grace."""
    stuck = Stuck()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, stuck, ADDRESS, config=CONFIG))
        async with sender_to(server) as sender:
            await sender.send(full_window(1, version=1))
            await stuck.begun.wait()
            server.stop(grace=60)
        with trio.fail_after(30):
            await server.aclose(grace=60)


async def test_a_sender_leaves_while_it_waits_for_memory():
    """It owes the rest of a batch and no ACK is owed to it, so nothing else looks after it.

    The memory that it holds is given back although its turn has not come.
    """
    config = LumberjackConfig(keepalive_interval=0.05, max_batches=1, max_incoming_size=300_000)
    stuck = Stuck()
    part = window(2) + event(1, b" " * 70_000)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, stuck, ADDRESS, config=config))
        async with (
            sender_to(server) as handled,
            sender_to(server) as without_room,
            sender_to(server) as with_turn,
        ):
            await handled.send(full_window(1))
            await stuck.begun.wait()
            await without_room.send(window(1) + compressed(event(1, b" " * 400_000)))
            await until(lambda: server.statistics().waiting == 1)
            before = incoming(server)
            await with_turn.send(part)
            await until(lambda: incoming(server) > before + 70_000)
            async with sender_to(server) as waiting:
                await waiting.send(part)
                await until(lambda: server.statistics().waiting == 2)
                full = incoming(server)
            await until(lambda: server.statistics().connections == 3)
            assert server.statistics().waiting == 1
            assert incoming(server) < full - 30_000
        nursery.cancel_scope.cancel()


def incoming(server):
    return server.statistics().incoming_size


async def test_a_system_that_does_not_tell(monkeypatch):
    """Then keep-alives show that the sender is gone, and version 1 has none."""
    monkeypatch.setattr(os_support, "POLL_HANGUP", 0)
    stuck = Stuck()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, stuck, ADDRESS, config=CONFIG))
        await leave(server, stuck, 2, reset)
        await server.aclose()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_sender_that_stays(version, caplog):
    """Unread bytes are no reason to end a connection."""
    gate = trio.Event()

    async def slow(_batch):
        await gate.wait()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, slow, ADDRESS, config=CONFIG))
        async with sender_to(server) as sender:
            await sender.send(full_window(1, 1, version) * 200)
            await until(lambda: server.statistics().held_batches == 2)
            await trio.sleep(0.3)
            assert server.statistics().held_batches == 2
            gate.set()
            found = []
            while len(found) < 200:
                if (ack := await sender.ack()) != (2, 0):
                    found.append(ack)
            assert found == [(version, 1)] * 200
        await server.aclose()
    assert not caplog.records
