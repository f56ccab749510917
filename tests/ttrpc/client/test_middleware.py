"""The middleware of a client: a block around each call, of any kind."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rsocket_trio import Canceled
from rsocket_trio.ttrpc import Call, Method, NotFound, OutgoingCall, connect
from tests.ttrpc.scenes import CHAT, COUNT, ECHO, JOIN, client_of, pair, things


def recorder(name, trace):
    """Middleware that says what it sees."""

    async def recorded(call: OutgoingCall):
        trace.append(f"+{name} {call.method.name} {call.route.name}")
        try:
            yield
        finally:
            trace.append(f"-{name} {call.outcome} {type(call.error).__name__}")

    return recorded


async def test_each_kind_has_the_same_blocks():
    """For streams they are left with the block of the stream."""
    trace = []
    service = things()
    both = [recorder("a", trace), recorder("b", trace)]
    async with client_of(service, middleware=both) as client:
        assert await client.unary(ECHO, b"x") == b"x"
        async with client.server_stream(COUNT, b"2") as replies:
            assert [each async for each in replies] == [b"0", b"1"]
            assert trace[-1] == f"+b Count {service.name}/Count"
        async with client.client_stream(JOIN) as call:
            await call.send(b"x")
            assert await call.reply() == b"x"
        async with client.bidi_stream(CHAT) as call:
            await call.end()
    for method in ("Echo", "Count", "Join", "Chat"):
        path = f"{method} {service.name}/{method}"
        assert trace[:4] == [
            f"+a {path}",
            f"+b {path}",
            "-b completed NoneType",
            "-a completed NoneType",
        ]
        del trace[:4]


async def test_pairs_of_middleware_are_sent():
    """Behind those of the caller, on each call anew."""
    service = things()

    @service.method("Pairs")
    async def pairs(_request: bytes, call: Call) -> bytes:
        return repr(call.pairs).encode()

    async def signed(call: OutgoingCall):
        call.pairs = [*call.pairs, ("signed", "1")]
        yield

    async with client_of(service, middleware=[signed, signed]) as client:
        for _ in range(2):
            answer = await client.unary(method_of(service), b"", metadata={"k": "v"})
            assert answer == b"(('k', 'v'), ('signed', '1'), ('signed', '1'))"

    async def wrong(call: OutgoingCall):
        call.pairs = [1]
        yield

    async with client_of(service, middleware=[wrong]) as client:
        with pytest.raises(TypeError, match="pairs of text"):
            await client.unary(ECHO, b"")


def method_of(service):
    return Method.raw(service.name, "Pairs")


@pytest.mark.parametrize("absorbs", [False, True])
async def test_errors_pass_and_are_not_absorbed(absorbs):
    """A caller never goes on without the answer it waits for."""
    trace = []

    async def absorb(_call):
        with suppress(NotFound if absorbs else KeyError):
            yield

    service = things()

    @service.method("Pairs")
    async def fails(_request: bytes) -> bytes:
        raise NotFound("no")

    async with client_of(service, middleware=[recorder("a", trace), absorb]) as client:
        with pytest.raises(Canceled if absorbs else NotFound):
            await client.unary(method_of(service), b"")
    assert trace[1:] == [f"-a failed {'Canceled' if absorbs else 'NotFound'}"]


@pytest.mark.parametrize("wrong", [5, [5], [lambda: None], recorder("a", [])])
async def test_what_can_never_run_is_refused(wrong):
    """Before anything is opened."""
    here, there = pair()
    async with here, there:
        with pytest.raises(TypeError, match="middleware"):
            async with connect(here, middleware=wrong):
                pass
