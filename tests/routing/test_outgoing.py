"""Middleware around requests that are made here: of `connect`, and of a `Caller`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import (
    AnyCall,
    Call,
    Caller,
    Canceled,
    OutgoingCall,
    Payload,
    Router,
    connect,
    errors,
)
from rsocket_trio.metadata import BearerAuthentication, Metadata
from rsocket_trio.testing import connected_pair
from tests.routing.requests import client_of

ROUTES = ["response", "stream", "channel", "drop"]


def application():
    """Handlers that answer with the token of the request, or fail."""
    router = Router()
    dropped = []

    def token(call: Call) -> str:
        auth = call.metadata.auth
        if auth is None:
            raise errors.CustomError("no token", code=0x321)
        return auth.token

    @router.request_response("response")
    async def response(call: Call) -> str:
        return token(call)

    @router.request_stream("stream")
    async def stream(call: Call) -> AsyncIterator[str]:
        yield token(call)

    @router.request_channel("channel")
    async def channel(items: AsyncIterator[str], call: Call) -> AsyncIterator[str]:
        yield token(call)

    @router.fire_and_forget("drop")
    async def drop(call: Call) -> None:
        dropped.append(token(call))

    router.dropped = dropped
    return router


async def with_token(call: OutgoingCall) -> AsyncIterator[None]:
    """Middleware that signs requests."""
    call.metadata = attrs.evolve(call.metadata, auth=BearerAuthentication("me"))
    yield


def recorder(trace):
    """Middleware for both directions that says what it sees."""

    async def recorded(call: AnyCall) -> AsyncIterator[None]:
        line = f"{call.interaction} {call.route.name}"
        try:
            yield
        finally:
            error = type(call.error).__name__ if call.error is not None else ""
            trace.append(f"{line} {call.outcome} {call.items} {error}".strip())

    return recorded


async def by_caller(caller, route):
    """One request; its answers."""
    if route == "response":
        return [await caller.request_response(route, returns=str)]
    if route == "drop":
        await caller.fire_and_forget(route)
        return []
    if route == "stream":
        opened = caller.request_stream(route, returns=str)
    else:
        opened = caller.request_channel(route, ["x"], returns=str)
    async with opened as items:
        return [item async for item in items]


@pytest.mark.parametrize("route", ROUTES)
async def test_metadata_that_middleware_adds_are_sent(route):
    """For each interaction, by `connect` and by a `Caller`; the outer one's come first."""
    for options, more in (({"middleware": [with_token]}, {}), ({}, {"middleware": [with_token]})):
        router = application()
        async with client_of(router, **options) as requester:
            answers = await by_caller(Caller(requester, **more), route)
            await trio.testing.wait_all_tasks_blocked()
        assert [*answers, *router.dropped] == ["me"]


@pytest.mark.parametrize("route", ROUTES)
async def test_each_interaction_is_seen_with_its_outcome(route):
    """The block of a stream is left with it, and knows how many items came."""
    trace = []
    interaction = {
        "response": "request_response",
        "stream": "request_stream",
        "channel": "request_channel",
        "drop": "fire_and_forget",
    }[route]
    async with client_of(application(), middleware=[recorder(trace)]) as requester:
        count = 1 if route in ("stream", "channel") else 0
        await by_caller(Caller(requester, middleware=[with_token]), route)
        assert trace == [f"{interaction} {route} completed {count}"]
        trace.clear()
        if route == "drop":
            return
        with pytest.raises(errors.CustomError):
            await by_caller(Caller(requester), route)
    assert trace == [f"{interaction} {route} failed 0 CustomError"]


async def test_the_caller_is_around_the_requester():
    """In a list the first one is the outermost."""
    trace = []

    def named(name):
        async def noted(call):
            trace.append(name)
            yield
            trace.append(f"-{name}")

        return noted

    async with client_of(application(), middleware=[named("c"), with_token]) as requester:
        await by_caller(Caller(requester, middleware=[named("a"), named("b")]), "response")
    assert trace == ["a", "b", "c", "-c", "-b", "-a"]


async def test_requests_by_the_requester_and_bodies():
    """A route in bytes is not known; the metadata of a payload stay, and more are added."""
    trace = []
    async with client_of(application(), middleware=[recorder(trace), with_token]) as requester:
        ready = Payload(b"", Metadata(route="response").encode())
        reply = await requester.request_response(ready)
        assert reply.data == b"bme" or reply.data.endswith(b"me")
        async with requester.request_response_streamed(route="response") as body:
            assert (b"".join([chunk async for chunk in body])).endswith(b"me")
    assert trace == ["request_response  completed 0", "request_response response completed 0"]


@pytest.mark.parametrize("route", ["response", "stream", "channel"])
async def test_an_absorbed_error_is_no_answer(route):
    """The caller gets an error; it never goes on with nothing."""

    async def absorb(call):
        with suppress(errors.CustomError):
            yield

    async with connected_pair(application()) as requester:
        with pytest.raises(Canceled):
            await by_caller(Caller(requester, middleware=[absorb]), route)


async def test_a_cancelled_caller_is_seen(autojump_clock):
    """As cancelled, and the cancellation goes on."""
    trace = []
    router = Router()

    @router.request_response("wait")
    async def wait() -> None:
        await trio.sleep_forever()

    async with connected_pair(router) as requester:
        caller = Caller(requester, middleware=[recorder(trace)])
        with trio.move_on_after(1) as scope:
            await caller.request_response("wait")
        assert scope.cancelled_caught
    assert trace == ["request_response wait cancelled 0 Cancelled"]


async def test_what_can_never_run_is_refused():
    """Before anything is dialled."""
    async with connected_pair(application()) as requester:
        with pytest.raises(TypeError, match="middleware= takes functions"):
            Caller(requester, middleware=[5])
        with pytest.raises(TypeError, match="middleware= takes a list"):
            async with connect("tcp://127.0.0.1:1", middleware=with_token):
                pass
        with pytest.raises(TypeError, match="metadata must be"):
            await by_caller(Caller(requester, middleware=[wrong]), "response")


async def wrong(call):
    call.metadata = b""
    yield
