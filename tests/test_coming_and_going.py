"""Peers that connect, leave and vanish, over real sockets, leave nothing behind."""

from __future__ import annotations

import logging

import pytest
import trio

from rsocket_trio import ConnectionClosed, ConnectionLost, Payload, Responder, connect, serve
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports import open_transport
from tests.waiting import until


@pytest.fixture(params=["tcp://127.0.0.1:0", "ws://127.0.0.1:0/path"], ids=["tcp", "ws"])
def address(request):
    return request.param


class Waiting(Responder):
    """Its handlers never answer; counts those that have begun and those that have ended."""

    def __init__(self):
        self.begun = 0
        self.ended = 0

    async def request_response(self, payload):
        if payload.data:
            return payload
        self.begun += 1
        try:
            await trio.sleep_forever()
        finally:
            self.ended += 1

    async def request_stream(self, payload):
        yield payload
        await self.request_response(Payload())


@pytest.mark.parametrize("how", ["leaves", "closes the socket", "is cancelled"])
async def test_clients_that_come_and_go_leave_nothing(address, how, nursery):
    """Of twenty clients with open requests no handler, task or descriptor is left."""
    waiting = Waiting()
    server = await nursery.start(serve, waiting, address)

    async def come_and_go():
        with trio.CancelScope() as scope:
            async with open_transport(server.uris[0]) as transport:
                async with connect(transport) as requester, trio.open_nursery() as asking:
                    asking.start_soon(ask_in_vain, requester)
                    async with requester.request_stream(Payload(b"x")) as items:
                        await items.receive()
                        if how == "closes the socket":
                            await trio.aclose_forcefully(transport)
                        elif how == "is cancelled":
                            scope.cancel()
                    asking.cancel_scope.cancel()

    async def ask_in_vain(requester):
        with pytest.raises(ConnectionLost):
            await requester.request_response()

    async with assert_no_leaks():
        async with trio.open_nursery() as clients:
            for _ in range(20):
                clients.start_soon(come_and_go)
        await until(lambda: not server.statistics().connections)
        await until(lambda: waiting.ended == waiting.begun)
    assert waiting.begun >= 20
    assert server.statistics().accepted == 20
    await server.aclose(grace=0)


async def test_a_server_that_vanishes(address):
    """Waiting callers get ConnectionClosed, and so do later ones."""
    outcomes = []

    async def wait(opened):
        with pytest.raises(ConnectionClosed) as caught:
            await opened
        outcomes.append(type(caught.value))

    waiting = Waiting()
    gone = trio.CancelScope()

    async def server_process(*, task_status):
        with gone:
            await serve(waiting, address, task_status=task_status)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(server_process)
        async with connect(server.uris[0]) as requester:
            async with requester.request_stream(Payload(b"x")) as items:
                await items.receive()
                async with trio.open_nursery() as waiters:
                    waiters.start_soon(wait, requester.request_response())
                    waiters.start_soon(wait, items.receive())
                    await until(lambda: waiting.begun == 2)
                    gone.cancel()
            await wait(requester.request_response(Payload(b"late")))
    assert waiting.ended == 2
    assert len(outcomes) == 3


async def test_a_clean_end_is_not_logged(address, caplog):
    """A client that leaves cleanly causes no log line above DEBUG."""
    caplog.set_level(logging.DEBUG)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Waiting(), address)
        async with connect(server.uris[0]) as requester:
            await requester.request_response(Payload(b"x"))
            async with requester.request_stream(Payload(b"x")) as items:
                await items.receive()
        await until(lambda: not server.statistics().connections)
        await server.aclose()
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
