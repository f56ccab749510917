"""A thousand connections that end at once, ten thousand routes, and clients that are banned.

What is bounded is counted: steps of tasks, calls of functions and objects, not seconds.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator

import pytest
import trio

from rsocket_trio import (
    Admitted,
    BearerAuthentication,
    Caller,
    Forbidden,
    Metadata,
    Payload,
    Peer,
    Router,
    RSocketError,
    Setup,
    Unauthenticated,
    connect,
    serve_transport,
)
from rsocket_trio.testing import served
from rsocket_trio.transports.memory import memory_transport_pair

TOKEN = Payload(metadata=Metadata(auth=BearerAuthentication("ada")).encode())


class Steps(trio.abc.Instrument):
    """Counts the steps of tasks."""

    def __init__(self):
        self.count = 0

    def before_task_step(self, task):
        self.count += 1


def application(peers):
    router = Router()

    @router.connection
    async def connected(peer: Peer) -> AsyncIterator[None]:
        peers.add(peer)
        yield
        peers.discard(peer)

    @router.request_stream("ticks")
    async def ticks() -> AsyncIterator[int]:
        yield 1
        await trio.sleep_forever()

    return router


async def steps_of_the_end(count, way):
    """Open connections with a stream each, end them, and return the steps and what is left."""
    peers, over = set(), []
    opened = trio.Event()
    waiting = count
    router = application(peers)

    async def serve_one(transport):
        with trio.CancelScope() as scope:
            scopes.append(scope)
            await serve_transport(router, transport)

    async def client(transport):
        nonlocal waiting
        try:
            async with connect(transport) as requester:
                async with Caller(requester).request_stream("ticks", returns=int) as items:
                    assert await items.receive() == 1
                    waiting -= 1
                    if not waiting:
                        opened.set()
                    await items.receive()
        except RSocketError as error:
            over.append(error)

    scopes = []
    gc.collect()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            ours, theirs = memory_transport_pair()
            nursery.start_soon(serve_one, theirs)
            nursery.start_soon(client, ours)
        await opened.wait()
        gc.collect()
        held = len(gc.get_objects())
        assert len(peers) == count
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        if way == "stop":
            for scope in scopes:
                scope.cancel()
        else:
            for peer in list(peers):
                peer.end("banned", grace=0 if way == "ban" else 5)
    trio.lowlevel.remove_instrument(steps)
    assert len(over) == count
    assert not peers
    return steps.count, held


@pytest.mark.parametrize("way", ["ban", "end", "stop"])
async def test_a_thousand_end_at_once(way, autojump_clock):
    """Each costs what one of fifty costs: no step of one looks at all others."""
    few, held_by_few = await steps_of_the_end(50, way)
    many, held_by_many = await steps_of_the_end(1000, way)
    assert many / 1000 < 1.5 * few / 50
    assert held_by_many - held_by_few < 950 * 1000  # objects that the collector knows


def calls_of_describe(count):
    router = Router()

    async def handler(number: int) -> int:
        return number

    for n in range(count):
        router.request_response(f"service{n // 20}.method{n}")(handler)
    calls = 0

    def counts(_frame, event, _arg):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counts)
    try:
        described = router.describe()
    finally:
        sys.setprofile(None)
    assert len(described) == count
    return calls


def test_ten_thousand_routes_are_described():
    """Twenty times as many take twenty times as many calls."""
    assert calls_of_describe(10_000) < 22 * calls_of_describe(500)


async def test_banned_while_its_setup_is_authenticated(autojump_clock):
    """Who was admitted a moment too late gets in only to be told; no handler is asked."""
    asked = trio.Event()
    peers = []

    async def authenticate(auth, facts):
        if isinstance(facts, Setup):
            peers.append(facts.peer)
            asked.set()
            await trio.sleep(1)
        return auth.token

    router = Router(authenticate=authenticate)
    calls = []

    @router.request_response("call")
    async def call() -> None:
        calls.append(1)

    async def ban():
        await asked.wait()
        peers[0].end("banned", grace=0)

    async with trio.open_nursery() as nursery, served(router) as dial:
        nursery.start_soon(ban)
        with pytest.raises(RSocketError, match=r"banned|closed"):
            async with connect(dial, setup=TOKEN) as requester:
                await Caller(requester).request_response("call")
    assert not calls


async def test_banned_and_back_in_a_loop(autojump_clock):
    """A thousand attempts leave nothing behind, and the others are served."""
    banned = set()

    async def authenticate(auth, facts):
        if auth is not None and auth.token in banned:
            raise Forbidden("banned")
        return None if auth is None else auth.token

    peers = set()
    router = application(peers)
    outer = Router(authenticate=authenticate)
    outer.include(router)
    async with served(outer) as dial, connect(dial) as other:
        async with connect(dial, setup=TOKEN):
            banned.add("ada")
        for _ in range(3):
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(100):
                with pytest.raises(RSocketError, match="banned"):
                    async with connect(dial, setup=TOKEN):
                        pass
            gc.collect()
            grown = len(gc.get_objects()) - before
        assert grown < 100
        async with Caller(other).request_stream("ticks", returns=int) as items:
            assert await items.receive() == 1


async def test_renewed_at_the_last_moment(autojump_clock):
    """The stream goes on over the first end, and ends at the second one."""

    async def authenticate(auth, facts):
        if auth is None:
            return facts.principal
        return Admitted("ada", until=trio.current_time() + 5)

    router = Router(authenticate=authenticate)

    @router.request_stream("ticks")
    async def ticks(peer: Peer) -> AsyncIterator[float]:
        began = trio.current_time()
        yield 0.0
        await trio.sleep(5 - 1e-9)
        await peer.renew(BearerAuthentication("ada"))
        while True:
            yield trio.current_time() - began
            await trio.sleep(1)

    got = []
    async with served(router) as dial, connect(dial, setup=TOKEN) as requester:
        with pytest.raises(Unauthenticated):
            async with Caller(requester).request_stream("ticks", returns=float) as items:
                async for each in items:
                    got.append(each)
    assert len(got) == 6
    assert got[-1] == pytest.approx(9)
