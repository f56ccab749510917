"""Code around every call of a client."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from rsocket_trio.ttrpc import CallError, ClientInterceptor, Method, NotFound, connect
from tests.ttrpc.scenes import CHAT, COUNT, ECHO, JOIN, client_of, pair, things


class Notes(ClientInterceptor):
    """Notes each call, and adds metadata to it."""

    def __init__(self, name, notes):
        self.name = name
        self.notes = notes

    def changed(self, call):
        return attrs.evolve(call, metadata=(*call.metadata, (self.name, "1")))

    async def unary(self, call, request, proceed):
        self.notes.append((self.name, call.method.name, call.metadata))
        answer = await proceed(self.changed(call), request + self.name.encode())
        return answer + b"<" + self.name.encode()

    @asynccontextmanager
    async def stream(self, call, request, proceed):
        self.notes.append((self.name, call.method.name, request))
        async with proceed(self.changed(call), request) as stream:
            yield stream
        self.notes.append((self.name, "left"))


async def test_the_first_is_the_outermost():
    notes = []
    both = (Notes("a", notes), Notes("b", notes))
    async with client_of(things(), interceptors=both) as client:
        assert await client.unary(ECHO, b"x", metadata={"k": "v"}) == b"xab<b<a"
    assert notes == [
        ("a", "Echo", (("k", "v"),)),
        ("b", "Echo", (("k", "v"), ("a", "1"))),
    ]


async def test_streams():
    notes = []
    both = (Notes("a", notes), Notes("b", notes))
    async with client_of(things(), interceptors=both) as client:
        async with client.server_stream(COUNT, b"2") as replies:
            assert [each async for each in replies] == [b"0", b"1"]
        async with client.client_stream(JOIN) as call:
            await call.send(b"x")
            assert await call.reply() == b"x"
        async with client.bidi_stream(CHAT) as call:
            await call.end()
    for name, request in (("Count", b"2"), ("Join", None), ("Chat", None)):
        assert notes[:4] == [
            ("a", name, request),
            ("b", name, request),
            ("b", "left"),
            ("a", "left"),
        ]
        del notes[:4]


async def test_an_interceptor_may_answer_itself_or_call_again():
    class Retries(ClientInterceptor):
        async def unary(self, call, request, proceed):
            if request == b"cached":
                return b"at once"
            for _ in range(3):
                try:
                    return await proceed(call, request)
                except NotFound:
                    await trio.lowlevel.checkpoint()
            raise CallError("three times", code=10)

    service = things()
    asked = []

    @service.method("Flaky")
    async def flaky(request: bytes) -> bytes:
        asked.append(request)
        if len(asked) < 3 or request == b"never":
            raise NotFound
        return request

    method = Method.raw(service.name, "Flaky")
    async with client_of(service, interceptors=(Retries(),)) as client:
        assert await client.unary(method, b"cached") == b"at once"
        assert await client.unary(method, b"x") == b"x"
        with pytest.raises(CallError, match="ABORTED: three times"):
            await client.unary(method, b"never")
        async with client.server_stream(COUNT, b"1") as replies:  # the default goes on
            assert await replies.receive() == b"0"


@pytest.mark.parametrize("wrong", [Notes, object(), lambda call: call])
async def test_something_that_is_no_interceptor(wrong):
    here, there = pair()
    async with here, there:
        with pytest.raises(TypeError, match="an interceptor must be an object of"):
            async with connect(here, interceptors=(wrong,)):
                pass


@pytest.mark.parametrize("wrong", [Notes("a", []), "ab", {1}, iter(())])
async def test_interceptors_are_a_list(wrong):
    here, there = pair()
    async with here, there:
        with pytest.raises(TypeError, match=r"interceptors? must be (a list|an object)"):
            async with connect(here, interceptors=wrong):
                pass
