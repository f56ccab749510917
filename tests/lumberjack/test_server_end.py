"""How a server and its connections end: gracefully, by cancellation at any step, by a reset."""

from __future__ import annotations

import logging
import socket
import struct
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionLost
from rsocket_trio.lumberjack import LumberjackConfig, LumberjackServer, serve
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.lumberjack.receiving import ADDRESS, full_window, port_of, sender_to, served, shared


def test_servers_are_sealed():
    with pytest.raises(TypeError, match="serve gives one to task_status"):
        LumberjackServer()


async def test_a_graceful_stop():
    """Batches that have been read are handled and acknowledged; nothing more is read."""
    gate, begun = trio.Event(), trio.Event()
    handled = []

    async def handler(batch):
        begun.set()
        await gate.wait()
        handled.append(batch.events[0]["n"])

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as busy, sender_to(server) as idle, sender_to(server) as half:
            await busy.send(full_window(1, 1) + full_window(1, 2))
            await half.send(full_window(2)[:-1])
            await begun.wait()
            while server.statistics().held_batches < 2:
                await trio.sleep(0.01)
            server.stop(grace=60)
            assert await idle.ack() is None
            assert await half.ack() is None
            await busy.send(full_window(1, 3))
            with pytest.raises(OSError):
                await trio.open_tcp_stream("127.0.0.1", port_of(server))
            gate.set()
            assert await busy.acks_until_end() == [(2, 1), (2, 2)]
        await server.aclose()
    assert handled == [1, 2]


async def test_grace_runs_out():
    """Handlers are cancelled then; a second stop may shorten the grace."""
    for graces in ([0.05], [60, 0]):
        ended = []

        async def handler(_batch, ended=ended):
            try:
                await trio.sleep_forever()
            finally:
                ended.append(trio.current_effective_deadline())

        async with assert_no_leaks(), trio.open_nursery() as nursery:
            server = await nursery.start(serve, handler, ADDRESS)
            async with sender_to(server) as sender:
                await sender.send(full_window(1))
                while not server.statistics().held_batches:
                    await trio.sleep(0.01)
                for grace in graces:
                    server.stop(grace=grace)
                await server.aclose()
                assert await sender.ack() is None
        assert ended == [-float("inf")]


async def test_a_stop_while_batches_wait_for_room(autojump_clock):
    """Also those that found no room before the stop are handled and acknowledged."""
    gate = trio.Event()
    config = LumberjackConfig(max_batches=1, max_waiting_batches=1, keepalive_interval=1000)

    async def handler(_batch):
        await gate.wait()

    async with served(shared(handler, config)) as one:
        await one.sender.send(full_window(1) * 7)
        await trio.testing.wait_all_tasks_blocked()
        one.receiver.stop()
        await trio.testing.wait_all_tasks_blocked()
        await one.sender.send(full_window(1))
        gate.set()
        assert await one.sender.acks_until_end() == [(2, 1)] * 7


async def test_a_stop_in_a_handler():
    """A handler may stop its server, and its own batch is acknowledged."""

    async def handler(_batch):
        server.stop()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(full_window(1))
            assert await sender.acks_until_end() == [(2, 1)]


async def test_a_promised_ack_leaves_although_all_is_cancelled():
    """An ACK that the handler has handed over leaves, also if its wait is cancelled."""

    async def handler(batch):
        with trio.CancelScope(deadline=-1):
            await batch.ack(2)
        assert batch.acknowledged == 2
        serving.cancel()
        await trio.sleep_forever()

    serving = trio.CancelScope()

    async def run(task_status):
        with serving:
            await serve(handler, ADDRESS, task_status=task_status)

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(run)
        async with sender_to(server) as sender:
            await sender.send(full_window(3))
            assert await sender.acks_until_end() == [(2, 2)]


async def test_a_reset_by_the_sender(caplog):
    """It ends its own connection; others are served, and there is no error in the log."""

    async def handler(batch):
        if batch.events[0]["n"] == 1:
            await trio.sleep_forever()

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as good:
            async with sender_to(server) as bad:
                await bad.send(full_window(1, 1))
                while not server.statistics().held_batches:
                    await trio.sleep(0.01)
                linger = struct.pack("ii", 1, 0)
                bad.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            await good.send(full_window(1, 7))
            assert await good.ack() == (2, 7)
            while server.statistics().connections > 1:
                await trio.sleep(0.01)
        await server.aclose()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_sender_that_never_closes(autojump_clock):
    """After an error we wait for the end of the sender, but not for long."""

    async def accept(_batch):
        pass

    async with served(shared(accept)) as one:
        await one.sender.send(b"junk")
        assert await one.sender.ack() is None
        began = trio.current_time()
        await one.over.wait()
        assert trio.current_time() - began == pytest.approx(2)


async def test_cancelled_at_every_step(autojump_clock):
    """Cancelled between any two steps: nothing is left, no promise is broken."""
    handled, acked, promised = [], [], 0
    of_all = None

    async def handler(batch):
        nonlocal promised
        await batch.ack(1)
        promised = 1
        await trio.lowlevel.checkpoint()
        handled.append(batch.events)

    async def operation():
        nonlocal of_all, promised
        promised = 0
        handled.clear()
        acked.clear()
        of_all = shared(handler, LumberjackConfig(max_batches=1))
        async with served(of_all) as one:
            with trio.CancelScope(shield=True), trio.move_on_after(0.05):
                await one.sender.send(full_window(2) + full_window(2))
                try:
                    for _ in range(4):
                        acked.append((await one.sender.ack())[1])
                except TypeError:  # The end.
                    pass

    async def check():
        if of_all is not None:
            assert (of_all.room.batches, of_all.room.size, of_all.room.waiting) == (0, 0, 0)
        if promised:
            assert acked[0] == 1

    async with assert_no_leaks():
        places = await cancel_everywhere(operation, check, every_task=True)
    assert places > 10


async def test_the_receiver_is_cancelled_at_every_step(autojump_clock):
    """The same for the task of the connection alone, while its sender goes on."""
    config = LumberjackConfig(max_batches=1)
    found = []

    for steps in range(60):
        promised = []

        async def handler(batch, promised=promised):
            with trio.CancelScope() as scope:
                scope.cancel()
                await batch.ack(1)
            promised.append(batch.events[0]["n"])
            await trio.lowlevel.checkpoint()

        of_all = shared(handler, config)
        async with served(of_all) as one:
            await one.sender.send(full_window(2, 1) + full_window(2, 3) + full_window(2, 5))
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            one.scope.cancel()
            acks = [sequence for _, sequence in await one.sender.acks_until_end()]
        assert set(promised) <= set(acks)
        assert acks == sorted(acks)
        assert (of_all.room.batches, of_all.room.size) == (0, 0)
        found.append(len(acks))
    assert found[0] == 0
    assert found[-1] == 6


async def test_stopping_at_every_step(autojump_clock):
    """Whatever has been read when `stop` comes is acknowledged as a whole."""
    seen = set()
    for steps in range(40):
        handled = []

        async def handler(batch, handled=handled):
            await trio.lowlevel.checkpoint()
            handled.append(batch.events[0]["n"])

        of_all = shared(handler)
        async with served(of_all) as one:
            await one.sender.send(full_window(2, 1) + full_window(2, 3))
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            one.receiver.stop()
            acks = [sequence for _, sequence in await one.sender.acks_until_end()]
        assert acks == [n + 1 for n in handled]
        seen.add(len(acks))
    assert seen == {0, 2}


async def test_bad_senders_harm_no_others(caplog):
    """Many kinds of bad senders at once; a good one notices nothing."""

    async def handler(batch):
        assert batch.events[0]["n"] != 13, "bad luck"

    config = LumberjackConfig(progress_timeout=0.2, first_byte_timeout=0.2, close_timeout=0.1)
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, handler, ADDRESS, config=config))

        async def bad(data):
            async with sender_to(server) as sender:
                await sender.send(data)
                assert await sender.acks_until_end() == []

        kinds = [b"", b"2", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", full_window(2)[:20]]
        async with trio.open_nursery() as sending, sender_to(server) as good:
            for data in [*kinds, full_window(1, 13)] * 10:
                sending.start_soon(bad, data)
            for n in range(100, 150):
                await good.send(full_window(1, n))
                assert await good.ack() == (2, n)
                await trio.sleep(0.005)
        await server.aclose()
    assert server.statistics().accepted == 61
    assert "bad luck" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_errors_that_end_the_program(error):
    """These are no failures of a handler: they leave `serve`."""

    async def handler(_batch):
        raise error

    with pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, handler, ADDRESS)
            async with sender_to(server) as sender:
                await sender.send(full_window(1))
                await trio.sleep(5)
    assert caught.value.split(error)[1] is None


async def test_a_fault_of_ours(monkeypatch, caplog):
    """A bug in the serving of one connection is logged, and the others go on."""

    async def accept(_batch):
        pass

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, accept, ADDRESS)
        async with sender_to(server) as good:
            async with sender_to(server) as bad:
                with monkeypatch.context() as patch:
                    patch.setattr("rsocket_trio.lumberjack.server.receiver.held_size", None)
                    await bad.send(full_window(1))
                    assert await bad.acks_until_end() == []
            await good.send(full_window(1))
            assert await good.ack() == (2, 1)
        assert server.statistics().held_batches == 0
        await server.aclose()
    assert "crashed; please report this" in caplog.text


async def test_a_handler_that_loses_its_connection(caplog):
    """An ACK that cannot leave any more is no failure of the handler."""
    lost = []

    async def handler(batch):
        begun.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:  # The sender has reset the connection.
            with trio.CancelScope(shield=True):
                for n in range(1, 4):
                    try:
                        await batch.ack(n)
                    except ConnectionLost as error:
                        lost.append(n)
                        if n == 3:
                            raise error

    begun = trio.Event()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, handler, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(full_window(3))
            await begun.wait()
        while server.statistics().connections:
            await trio.sleep(0.01)
        await server.aclose()
    assert lost[-1] == 3  # The system may still take the first one.
    assert "the handler failed" not in caplog.text
