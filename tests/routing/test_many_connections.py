"""A router costs its connections little."""

import tracemalloc

import pytest

from rsocket_trio import Payload, Router
from rsocket_trio.codecs import Codecs
from rsocket_trio.errors import Invalid
from rsocket_trio.routing import table as tables

from .conftest import make_setup


async def one() -> int:
    return 1


def router_of(count):
    router = Router()
    for number in range(count):
        router.request_response(f"r{number}")(one)
    return router


async def test_connections_share_the_routes():
    """A connection of a router with 1000 routes takes no more memory than one with 10."""
    sizes = []
    for count in (10, 1000):
        router = router_of(count)
        await router.accept(make_setup(), None)
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            kept = [await router.accept(make_setup(), None) for _ in range(10)]
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        sizes.append((after - before) / len(kept))
    assert sizes[1] < 1.5 * sizes[0]


async def test_a_connection_keeps_its_routes(bind):
    """A handler that is registered later serves later connections only."""
    inner, router = Router(), router_of(1)
    router.include(inner, "in.")
    first = await bind(router)
    inner.request_response("one")(one)
    second = await bind(router)
    assert first is not second
    asked = Payload(b"", bytes([0xFE, 0, 0, 7]) + b"\x06in.one")
    with pytest.raises(Invalid, match=r"no request_response handler for route .in\.one"):
        await first.request_response(asked)
    assert (await second.request_response(asked)).data == b"1"


def test_conversions_are_checked_once_for_the_same_codecs(monkeypatch):
    """An acceptor may include a large router for each connection."""
    checked = []
    monkeypatch.setattr(tables, "check_conversions", lambda *_: checked.append(1))
    inner = router_of(3)
    assert len(checked) == 3
    Router().include(inner)
    assert len(checked) == 3
    Router(codecs=Codecs()).include(inner)
    assert len(checked) == 6
