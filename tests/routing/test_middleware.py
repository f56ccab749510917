"""Middleware: a block around the whole life of each request, of any interaction."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from rsocket_trio import Call, Caller, ConnectionConfig, Outcome, Router, errors
from rsocket_trio.metadata import BearerAuthentication, Metadata
from rsocket_trio.testing import connected_pair

INTERACTIONS = ["response", "stream", "channel"]
AT_MOST = contextvars.ContextVar("at_most", default=0)


def recorder(name, trace):
    """Middleware that says what it sees."""

    async def recorded(call):
        trace.append(f"+{name}")
        try:
            yield
        except BaseException as error:
            kind = type(error).__name__ if call.error is error else f"not {call.error!r}"
            trace.append(f"-{name} {call.outcome} {kind}")
            raise
        else:
            assert call.error is None
            trace.append(f"-{name} {call.outcome}")

    recorded.__qualname__ = name
    return recorded


def application(*middleware, handler_middleware=(), **options):
    """A router whose handlers do the same for all interactions."""
    router = Router(middleware=middleware, **options)

    def check(data):
        if data == "fail":
            raise errors.CustomError("refused", code=0x321)
        return f"{data} {AT_MOST.get()}"

    @router.request_response("response", middleware=handler_middleware)
    async def response(data: str) -> str:
        if data == "wait":
            await trio.sleep_forever()
        return check(data)

    @router.request_stream("stream", middleware=handler_middleware)
    async def stream(data: str) -> AsyncIterator[str]:
        yield f"first {data}"
        if data == "wait":
            await trio.sleep_forever()
        yield check(data)

    @router.request_channel("channel", middleware=handler_middleware)
    async def channel(items: AsyncIterator[str]) -> AsyncIterator[str]:
        async for data in items:
            yield f"first {data}"
            if data == "wait":
                await trio.sleep_forever()
            yield check(data)

    return router


async def ask(requester, interaction, data, **options):
    """Make one request; the result is a list for all interactions."""
    caller = Caller(requester)
    if interaction == "response":
        return [await caller.request_response("response", data, returns=str, **options)]
    if interaction == "stream":
        async with caller.request_stream("stream", data, returns=str, **options) as items:
            return [item async for item in items]

    async def source():
        yield data

    async with caller.request_channel("channel", source(), returns=str, **options) as items:
        return [item async for item in items]


@pytest.mark.parametrize("interaction", INTERACTIONS)
async def test_each_interaction_has_the_same_blocks(interaction):
    """In order, and left in reverse, once each, also where the handler fails."""
    trace = []
    one, two, own = (recorder(name, trace) for name in ("one", "two", "own"))
    async with connected_pair(application(one, two, handler_middleware=[own])) as requester:
        assert (await ask(requester, interaction, "hello"))[-1] == "hello 0"
        entered = ["+one", "+two", "+own"]
        assert trace == [*entered, "-own completed", "-two completed", "-one completed"]
        trace.clear()
        with pytest.raises(errors.CustomError):
            await ask(requester, interaction, "fail")
    left = [f"-{name} failed CustomError" for name in ("own", "two", "one")]
    assert trace == [*entered, *left]


@pytest.mark.parametrize("interaction", INTERACTIONS)
async def test_what_a_block_sets_is_around_the_handler(interaction):
    """A context variable, a nursery and a deadline hold in the handler, and end with the call."""
    tasks = []

    async def around(call):
        token = AT_MOST.set(7)
        task = trio.lowlevel.current_task()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                yield
            finally:
                tasks.append(trio.lowlevel.current_task() is task)
                nursery.cancel_scope.cancel()
        AT_MOST.reset(token)

    async with connected_pair(application(around)) as requester:
        for _ in range(3):
            assert (await ask(requester, interaction, "at"))[-1] == "at 7"
    assert tasks == [True] * 3


@pytest.mark.parametrize("interaction", INTERACTIONS)
async def test_errors_can_be_translated_and_requests_refused(interaction):
    """The peer gets what the outermost block makes of it."""
    trace = []

    async def translate(call):
        try:
            yield
        except errors.CustomError as error:
            raise errors.Rejected("not now") from error

    async def refuse(call):
        if call.metadata.auth is None:
            raise errors.Rejected("who are you?")
        yield

    router = application(recorder("outer", trace), translate, refuse)
    async with connected_pair(router) as requester:
        with pytest.raises(errors.Rejected, match="who are you"):
            await ask(requester, interaction, "hello")
        known = {"metadata": Metadata(auth=BearerAuthentication("me"))}
        with pytest.raises(errors.Rejected, match="not now"):
            await ask(requester, interaction, "fail", **known)
        assert await ask(requester, interaction, "hello", **known)
    assert [line for line in trace if line[0] == "-"] == [
        "-outer failed Rejected",
        "-outer failed Rejected",
        "-outer completed",
    ]


async def test_a_requester_that_stops_receiving_items_is_seen():
    """The handler waits for credit when the CANCEL comes; the blocks see a cancellation."""
    seen = []

    async def record(call):
        try:
            yield
        finally:
            seen.append((call.outcome, call.items))

    async with connected_pair(application(record)) as requester:
        caller = Caller(requester)
        async with caller.request_stream("stream", "wait", returns=str) as items:
            await anext(items)
        await trio.testing.wait_all_tasks_blocked()
    assert seen == [(Outcome.CANCELLED, 1)]


async def test_unknown_routes_refused_data_and_refused_logins_are_seen():
    """The middleware is outside of all of these; it sees whether there is a handler."""
    seen = []

    async def record(call):
        try:
            yield
        except errors.StreamError as error:
            seen.append((call.route.name, call.handler is None, type(error).__name__))
            raise

    async def authenticate(auth, facts):
        if auth is None:
            return None
        if auth.token != "right":
            raise errors.Rejected("no")
        return "me"

    router = Router(middleware=[record], authenticate=authenticate)

    @router.request_response("number")
    async def number(n: int) -> int:
        return n

    async with connected_pair(router) as requester:
        caller = Caller(requester)
        for route, value, token in (
            ("absent", 1, "right"),
            ("number", "text", "right"),
            ("number", 1, "wrong"),
        ):
            with pytest.raises(errors.StreamError):
                metadata = Metadata(auth=BearerAuthentication(token))
                await caller.request_response(route, value, returns=int, metadata=metadata)
    assert seen == [
        ("absent", True, "NoHandler"),
        ("number", False, "Invalid"),
        ("number", False, "Rejected"),
    ]


async def test_the_order_of_routers_within_each_other():
    """Each router's middleware, then its guard, then what is inside."""
    trace = []

    def guard(name):
        async def authenticate(auth, facts):
            if hasattr(facts, "route"):
                trace.append(f"?{name}")
            return name

        return authenticate

    inner = application(
        recorder("inner", trace),
        handler_middleware=[recorder("own", trace)],
        authenticate=guard("inner"),
    )
    outer = Router(middleware=[recorder("outer", trace)], authenticate=guard("outer"))
    outer.include(inner, "in.", middleware=[recorder("include", trace)])
    async with connected_pair(outer) as requester:
        await Caller(requester).request_response("in.response", "hi", returns=str)
        assert trace[:6] == ["+outer", "?outer", "+include", "+inner", "?inner", "+own"]
        trace.clear()
        for unknown, names in (
            ("in.x", ["+outer", "?outer", "+include", "+inner", "?inner"]),
            ("x", ["+outer", "?outer"]),
        ):
            with pytest.raises(errors.Invalid):
                await Caller(requester).request_response(unknown, returns=str)
            assert [line for line in trace if line[0] != "-"] == names
            trace.clear()


async def test_fragmented_requests_pass_it_before_they_are_whole():
    """It is the client who chooses fragments, so they are no way around a limit."""
    seen = []

    async def refuse(call):
        seen.append(call.route.name)
        raise errors.Rejected("full")
        yield

    config = ConnectionConfig(fragment_size=1000)
    async with connected_pair(application(refuse), config=config) as requester:
        for _ in range(2):
            with pytest.raises(errors.Rejected):
                await ask(requester, "response", "x" * 100_000)
    assert seen == ["response"] * 2


async def test_the_handler_reads_what_middleware_has_put_on_the_call():
    """By a parameter `Call`; each call has attributes of its own."""

    async def number(call):
        call.attributes["n"] = call.attributes.get("n", 0) + 1
        yield

    router = Router(middleware=[number, number])

    @router.request_response("n")
    async def n(call: Call) -> int:
        assert call.handler.endswith("n")
        assert call.deadline == float("inf")
        assert call.setup.transport is call.transport
        return call.attributes["n"]

    async with connected_pair(router) as requester:
        assert [await Caller(requester).request_response("n", returns=int) for _ in "ab"] == [2, 2]


def test_what_can_never_run_is_refused_where_it_is_given():
    """For a router, an inclusion and a handler alike; the text says what to change."""

    async def no_yield(call): ...

    def not_async(call):
        yield

    @contextmanager
    def not_async_either(call):
        yield

    async def too_many(call, other):
        yield

    router = Router()
    for middleware, text in (
        ([no_yield], "no_yield has no `yield`"),
        ([not_async], "not_async is not async: write `async def`"),
        ([not_async_either], "not_async_either is not async"),
        ([too_many], "too_many does not take one argument, the Call"),
        ([5], "takes functions, not int"),
        (too_many, "takes a list of functions, not"),
        (5, "takes a list of functions, not int"),
    ):
        for give in (
            lambda given: Router(middleware=given),
            lambda given: router.include(Router(), middleware=given),
            lambda given: router.request_response("a", middleware=given),
            lambda given: router.events(middleware=given),
        ):
            with pytest.raises(TypeError, match=text):
                give(middleware)
