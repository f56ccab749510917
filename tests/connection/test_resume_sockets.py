"""Sessions over real sockets of every kind."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trustme

from rsocket_trio import (
    ClientResume,
    Payload,
    Reconnect,
    Responder,
    Retry,
    ServerResume,
    connect,
    serve,
)
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import open_transport

ITEMS = 3000


@pytest.fixture(scope="module")
def contexts():
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@pytest.mark.parametrize("scheme", ["tcp", "tls", "unix", "ws", "wss"])
async def test_a_stream_goes_on_after_cuts(scheme, contexts, tmp_path):
    """Cut many times, by both ways to end a connection: each item arrives once."""
    server_context, client_context = contexts if scheme in {"tls", "wss"} else (None, None)
    uri = f"unix://{tmp_path}/socket" if scheme == "unix" else f"{scheme}://127.0.0.1:0"
    transports = []
    options = ServerResume()

    async with trio.open_nursery() as nursery:
        start = partial(serve, KnownAnswers(), uri, ssl_context=server_context, resume=options)
        server = await nursery.start(start)

        @asynccontextmanager
        async def dial():
            opened = open_transport(server.uris[0], ssl_context=client_context)
            async with opened as transport:
                transports.append(transport)
                yield transport

        async with connect(dial, resume=ClientResume()) as requester:
            count = Payload(b"%d" % ITEMS)
            got = []
            async with requester.request_stream(count, prefetch=32) as stream:
                async for item in stream:
                    got.append(int(item.data))
                    if len(got) % 500 == 0 and len(got) < ITEMS:
                        if len(got) % 1000:
                            await transports[-1].aclose()
                        else:
                            await trio.aclose_forcefully(transports[-1])
            assert got == list(range(ITEMS))
            assert len(transports) == 6
        await server.aclose()
    assert len(options.store) == 0


class Echo(Responder):
    async def request_response(self, payload):
        return payload


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_large_payloads_go_on_after_cuts(scheme):
    """Cuts while sockets are full tear frames apart: each request is answered once."""
    sizes = [37 * number % 250 * 1000 for number in range(80)]
    transports = []
    answered = []

    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(serve, Echo(), f"{scheme}://127.0.0.1:0", resume=ServerResume())
        )

        @asynccontextmanager
        async def dial():
            async with open_transport(server.uris[0]) as transport:
                assert transport.sends_nowait
                transports.append(transport)
                yield transport

        async with connect(dial, resume=ClientResume()) as requester:

            async def ask(size):
                response = await requester.request_response(Payload(bytes(size)))
                assert response.data == bytes(size)
                answered.append(size)
                if len(answered) % 16 == 0 and len(answered) < len(sizes):
                    await trio.aclose_forcefully(transports[-1])

            async with trio.open_nursery() as asking:
                for size in sizes:
                    asking.start_soon(ask, size)
        await server.aclose()
    assert sorted(answered) == sorted(sizes)
    assert len(transports) == 5


async def test_a_transport_that_is_closed_before_it_is_used():
    """A dialler may close its transport again: that is one more failed attempt."""
    transports = []
    async with trio.open_nursery() as nursery:
        start = partial(serve, Echo(), "tcp://127.0.0.1:0", resume=ServerResume())
        server = await nursery.start(start)

        @asynccontextmanager
        async def dial():
            async with open_transport(server.uris[0]) as transport:
                transports.append(transport)
                if len(transports) == 2:
                    await transport.aclose()
                yield transport

        async with connect(dial, resume=ClientResume()) as requester:
            await transports[0].aclose()
            assert await requester.request_response(Payload(b"x")) == Payload(b"x")
        await server.aclose()
    assert len(transports) == 3


@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_a_client_goes_on_at_the_next_server(ending):
    """A deploy and a crash look alike to the same requester: it goes on at the next process."""
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run(task_status):
            with scope:
                uri = "tcp://127.0.0.1:0"
                await serve(Echo(), uri, resume=ServerResume(), task_status=task_status)

        server = await nursery.start(run)
        uri = server.uris[0]
        retry = Retry(initial_delay=0.01, max_delay=0.1)
        resume, reconnect = ClientResume(retry=retry), Reconnect(retry=retry, spread=0.01)
        async with connect(uri, resume=resume, reconnect=reconnect) as requester:
            if ending == "stopped":
                await server.aclose()
            else:
                scope.cancel()
            again = await nursery.start(partial(serve, Echo(), uri, resume=ServerResume()))
            with trio.fail_after(30):
                answer = await requester.request_response(Payload(b"x"), idempotent=True)
            assert answer == Payload(b"x")
        await again.aclose()
