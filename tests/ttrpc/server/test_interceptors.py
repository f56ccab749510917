"""Code around every handler of a server."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import Router
from rsocket_trio.ttrpc import (
    MethodKind,
    PermissionDenied,
    ServerInterceptor,
    StatusCode,
    serve_stream,
)
from tests.ttrpc.scenes import data, end, one, opening, request, stranger_to, things


class Notes(ServerInterceptor):
    def __init__(self, name, notes):
        self.name = name
        self.notes = notes

    async def reply(self, call, request, proceed):
        self.notes.append((self.name, call.method.name, call.metadata))
        call.attributes[self.name] = True
        answer = await proceed(call, request)
        return answer + self.name.encode()

    async def stream(self, call, request, proceed):
        self.notes.append((self.name, call.method.name, call.metadata))
        async for item in proceed(call, request):
            yield item + self.name.encode()
        self.notes.append((self.name, "done"))


async def test_the_first_is_the_outermost():
    """For each kind, with the facts about the call."""
    notes = []
    both = (Notes("a", notes), Notes("b", notes))
    async with stranger_to(things(), interceptors=both) as stranger:
        pairs = (("k", "v"),)
        await stranger.send(request(1, payload=b"x", metadata=pairs))
        assert (await stranger.frame()).payload == b"xba"
        assert notes == [("a", "Echo", pairs), ("b", "Echo", pairs)]
        notes.clear()
        await stranger.send(request(3, "Count", b"2"))
        assert [each.body for each in await stranger.drain()] == [b"0ba", b"1ba", b""]
        assert notes == [("a", "Count", ()), ("b", "Count", ()), ("b", "done"), ("a", "done")]
        await stranger.send(opening(5), data(5, b"x"), end(5))
        assert (await stranger.frame()).payload == b"xba"
        await stranger.send(opening(7, "Chat"), data(7, b"x"), end(7))
        assert [each.body for each in await stranger.drain()] == [b"Xba", b""]


async def test_attributes_reach_the_handler():
    seen = []

    async def handler(_request, call):
        seen.append(dict(call.attributes))
        return b""

    interceptors = (Notes("a", []),)
    service = one(MethodKind.UNARY, handler)
    async with stranger_to(service, interceptors=interceptors) as stranger:
        await stranger.send(request(1))
        await stranger.frame()
    assert seen == [{"a": True}]


class Guard(ServerInterceptor):
    async def reply(self, call, request, proceed):
        if not call.values("key"):
            raise PermissionDenied("no key")
        return await proceed(call, request)

    def stream(self, call, request, proceed):
        if not call.values("key"):
            raise PermissionDenied("no key")
        return proceed(call, request)


async def test_an_interceptor_may_refuse():
    """The default of the base class goes on."""
    async with stranger_to(things(), interceptors=(ServerInterceptor(), Guard())) as stranger:
        key = (("key", "1"),)
        await stranger.send(request(1), request(3, "Count", b"1"), opening(5), opening(7, "Chat"))
        assert [each.code for each in await stranger.drain()] == [StatusCode.PERMISSION_DENIED] * 4
        await stranger.send(
            request(11, payload=b"x", metadata=key),
            request(13, "Count", b"1", metadata=key),
            opening(15, metadata=key),
            end(15),
            opening(17, "Chat", metadata=key),
            end(17),
        )
        last = {each.stream_id for each in await stranger.drain() if each.is_last}
        assert last == {11, 13, 15, 17}


async def test_it_runs_under_the_deadline(autojump_clock):
    class Slow(ServerInterceptor):
        async def reply(self, call, request, proceed):
            await trio.sleep(5)
            return await proceed(call, request)

    async with stranger_to(things(), interceptors=(Slow(),)) as stranger:
        await stranger.send(request(1, timeout=10**9))
        assert (await stranger.frame()).code == StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("wrong", [Guard, object(), lambda call: call])
async def test_something_that_is_no_interceptor(wrong):
    with pytest.raises(TypeError, match="an interceptor must be an object of"):
        await serve_stream(things(), None, interceptors=(wrong,))


async def test_a_router_has_guards_of_its_own():
    with pytest.raises(TypeError, match="a Router has no use for interceptors="):
        await serve_stream(Router(), None, interceptors=(Guard(),))
    with pytest.raises(TypeError, match="data_mime_type= is for a Router only"):
        await serve_stream(things(), None, data_mime_type="application/json")
