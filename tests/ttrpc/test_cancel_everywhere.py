"""Every kind of call, cancelled at every point, on both sides: nothing is left behind."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionClosed
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.leaks import all_tasks, assert_no_leaks
from rsocket_trio.ttrpc import Service, TtrpcConfig, TtrpcLimits, connect, serve_stream
from tests.ttrpc.scenes import CHAT, COUNT, ECHO, JOIN, SERVICE, client_of, pair

SMALL = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=64))


class Waiting:
    """Handlers that wait at every step, and count the resources they have not released."""

    def __init__(self):
        self.open = 0
        self.service = Service(SERVICE)
        for method, handler in (
            (ECHO, self.echo),
            (COUNT, self.count),
            (JOIN, self.join),
            (CHAT, self.chat),
        ):
            self.service.add(method, handler)

    async def echo(self, request):
        self.open += 1
        try:
            await trio.lowlevel.checkpoint()
            return request
        finally:
            self.open -= 1

    async def count(self, request):
        self.open += 1
        try:
            for number in range(int(request)):
                await trio.lowlevel.checkpoint()
                yield b"%d" % number
        finally:
            self.open -= 1

    async def join(self, messages):
        self.open += 1
        try:
            return b"".join([each async for each in messages])
        finally:
            self.open -= 1

    async def chat(self, messages):
        self.open += 1
        try:
            async for each in messages:
                await trio.lowlevel.checkpoint()
                yield each
        finally:
            self.open -= 1


async def unary(client):
    assert await client.unary(ECHO, b"x" * 100) == b"x" * 100


async def server_stream(client):
    async with client.server_stream(COUNT, b"20") as replies:
        assert len([each async for each in replies]) == 20


async def client_stream(client):
    async with client.client_stream(JOIN) as call:
        for _ in range(5):
            await call.send(b"x" * 40)
        assert await call.reply() == b"x" * 200


async def bidi_stream(client):
    async with client.bidi_stream(CHAT) as call:
        for number in range(5):
            await call.send(b"%d" % number)
        await call.end()
        assert [each async for each in call] == [b"%d" % number for number in range(5)]


CALLS = [unary, server_stream, client_stream, bidi_stream]


@pytest.mark.parametrize("over", ["memory", "socket"])
@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
@pytest.mark.parametrize("call", CALLS)
async def test_a_call_may_be_cancelled_at_any_point(call, every_task, over):
    """No call, handler or task is left, and the next call works.

    A handler learns nothing of a caller that leaves: the protocol has no frame for that. It ends as
    those of a stream do here, because no more messages come.
    """
    waiting = Waiting()
    async with client_of(waiting.service, over=over, config=SMALL, server_config=SMALL) as client:
        await call(client)
        await trio.testing.wait_all_tasks_blocked()
        tasks = len(all_tasks())

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert waiting.open == 0
            statistics = client.statistics()
            assert statistics.open_calls == 0
            assert statistics.unread_size == 0
            assert statistics.queued_size == 0
            # A few workers may be idle; they belong to the connection, and end with it.
            assert len(all_tasks()) <= tasks + 8
            await call(client)
            await trio.testing.wait_all_tasks_blocked()

        places = await cancel_everywhere(partial(call, client), check, every_task=every_task)
        assert places >= 1


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
@pytest.mark.parametrize("call", CALLS)
async def test_connecting_may_be_cancelled_at_any_point(call, every_task):
    """Set-up, use and close of a connection, on both sides, leave nothing behind."""
    waiting = Waiting()

    async def connect_and_call():
        async with client_of(waiting.service, over="socket", config=SMALL) as client:
            await call(client)

    async def check():
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.open == 0

    async with assert_no_leaks():
        await cancel_everywhere(connect_and_call, check, every_task=every_task)


@pytest.mark.parametrize("call", CALLS)
async def test_a_server_may_be_cancelled_at_any_point(call):
    """Its client gets an error or its answer; handlers are cancelled."""
    waiting = Waiting()
    failures = []

    async def use(stream):
        with trio.CancelScope(shield=True):
            try:
                async with connect(stream) as client:
                    await call(client)
            except ConnectionClosed as error:
                failures.append(error)

    async def serve():
        here, there = pair("socket")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use, here)
            await serve_stream(waiting.service, there, config=SMALL)

    async def check():
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.open == 0

    async with assert_no_leaks():
        await cancel_everywhere(serve, check, every_task=True)
    assert failures
