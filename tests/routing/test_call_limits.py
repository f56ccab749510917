"""Middleware that limits how often handlers are called, and how many calls are open."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from rsocket_trio import Caller, Invalid, Rejected, Router, concurrency_limit, rate_limit, ttrpc
from rsocket_trio.metadata import BearerAuthentication, Metadata
from rsocket_trio.testing import connected_pair
from rsocket_trio.ttrpc import Method
from tests.ttrpc.scenes import client_of, things


def token(call):
    auth = call.metadata.auth
    return None if auth is None else auth.token


def application(limit):
    router = Router(middleware=[limit])

    @router.request_response("ask")
    async def ask() -> None: ...

    @router.request_response("fail")
    async def fail() -> None:
        raise ValueError

    @router.request_stream("stream")
    async def stream() -> AsyncIterator[int]:
        yield 1
        await trio.sleep_forever()

    @router.request_channel("channel")
    async def channel(items: AsyncIterator[int]) -> AsyncIterator[int]:
        async for item in items:
            yield item

    return router


async def ask(requester, who=None, route="ask"):
    metadata = None if who is None else Metadata(auth=BearerAuthentication(who))
    return await Caller(requester).request_response(route, metadata=metadata)


async def test_a_rate_with_bursts(autojump_clock):
    """A pause fills the bucket, never past its size; the text says when to try again."""
    async with connected_pair(application(rate_limit(2, burst=3))) as requester:
        for _ in range(2):
            for _ in range(3):
                await ask(requester)
            with pytest.raises(Rejected, match=r"too many requests: retry after 0\.5 s$"):
                await ask(requester)
            await trio.sleep(0.5)
            await ask(requester)
            await trio.sleep(100)


async def test_refused_calls_take_no_token(autojump_clock):
    """One that goes on asking is let in when it is its turn."""
    async with connected_pair(application(rate_limit(1))) as requester:
        await ask(requester)
        for _ in range(9):
            with pytest.raises(Rejected):
                await ask(requester)
            await trio.sleep(0.1)
        await trio.sleep(0.1)
        await ask(requester)


async def test_each_key_has_a_rate_of_its_own(autojump_clock):
    """One that floods takes nothing from another one."""
    async with connected_pair(application(rate_limit(1, by=token))) as requester:
        await ask(requester, "a")
        for _ in range(5):
            with pytest.raises(Rejected):
                await ask(requester, "a")
        await ask(requester, "b")


def test_each_run_of_trio_has_buckets_of_its_own():
    """The clock of another run begins elsewhere: a router of a module would stay shut for days."""
    router = application(rate_limit(1000, burst=1))

    async def once() -> None:
        async with connected_pair(router) as requester:
            await ask(requester)

    for _ in range(10):
        trio.run(once)


async def test_the_keys_are_bounded(autojump_clock):
    """A key that is made up neither costs memory nor frees one that is limited."""
    async with connected_pair(application(rate_limit(1, by=token, max_keys=3))) as requester:
        for who in "abc":
            await ask(requester, who)
            await trio.sleep(0.1)
        with pytest.raises(Rejected, match=r"retry after 0\.7 s"):
            await ask(requester, "d")
        with pytest.raises(Rejected):
            await ask(requester, "a")
        await trio.sleep(0.7)  # the bucket of a is full
        await ask(requester, "d")
        with pytest.raises(Rejected):
            await ask(requester, "b")


async def test_one_that_has_used_all_of_its_burst_keeps_no_new_ones_out(autojump_clock):
    """Any key whose bucket is full makes room, and not only the one that came first of all.

    The text names the time until the first one is full, also of a key that has called meanwhile.
    """
    limit = rate_limit(1, burst=5, by=token, max_keys=3)
    async with connected_pair(application(limit)) as requester:
        for who in "aaaaabcc":
            await ask(requester, who)
        await trio.sleep(1.5)  # b is full
        await ask(requester, "d")
        with pytest.raises(Rejected, match=r"retry after 0\.5 s"):  # c is
            await ask(requester, "e")
        await ask(requester, "c")
        with pytest.raises(Rejected, match=r"retry after 1 s"):  # d is
            await ask(requester, "e")
        await trio.sleep(1)
        await ask(requester, "e")
        with pytest.raises(Rejected):
            await ask(requester, "d")


@pytest.mark.parametrize("end", ["completes", "fails", "is cancelled", "is left"])
async def test_the_place_of_a_call_is_free_after_it(end):
    """However it ends."""
    async with connected_pair(application(concurrency_limit(1))) as requester:
        caller = Caller(requester)
        for _ in range(3):
            if end == "completes":
                await ask(requester)
            elif end == "fails":
                with pytest.raises(Exception, match=r"failed|ValueError|error"):
                    await ask(requester, route="fail")
            elif end == "is left":
                async with caller.request_stream("stream", returns=int) as items:
                    await anext(items)
            else:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(hold, caller)
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.cancel_scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
        await ask(requester)


async def hold(caller):
    async with caller.request_stream("stream", returns=int):
        await trio.sleep_forever()


async def test_open_streams_are_counted_for_each_key():
    """A stream is open until it ends."""

    def kind(call):
        return call.interaction

    limit = concurrency_limit(2, by=kind)
    async with connected_pair(application(limit)) as requester, trio.open_nursery() as nursery:
        caller = Caller(requester)
        for _ in range(2):
            nursery.start_soon(hold, caller)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Rejected, match="2 requests are open: retry after one of them"):
            async with caller.request_stream("stream", returns=int) as items:
                await anext(items)
        await ask(requester)
        nursery.cancel_scope.cancel()


async def test_ttrpc_and_requests_of_ones_own(autojump_clock):
    """The code of ttrpc says that a resource is exhausted; a client may limit itself."""
    service = things()
    method = Method.raw(service.name, "Echo")
    async with client_of(service, middleware=[rate_limit(1)]) as client:
        await client.unary(method, b"")
        with pytest.raises(Rejected, match="retry after 1 s"):
            await client.unary(method, b"")
    async with trio.open_nursery() as nursery:
        here, there = trio.testing.memory_stream_pair()

        async def serve():
            await ttrpc.serve_stream(
                service, there, middleware=[concurrency_limit(1), rate_limit(1)]
            )

        nursery.start_soon(serve)
        async with ttrpc.connect(here) as client:
            await client.unary(method, b"")
            with pytest.raises(ttrpc.ResourceExhausted, match="retry after 1 s"):
                await client.unary(method, b"")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: rate_limit(0), "rate"),
        (lambda: rate_limit(float("inf")), "rate"),
        (lambda: rate_limit("1"), "rate"),
        (lambda: rate_limit(1, burst=0), "burst"),
        (lambda: rate_limit(1, max_keys=0), "max_keys"),
        (lambda: rate_limit(1, by=5), "by="),
        (lambda: concurrency_limit(0), "at_most"),
        (lambda: concurrency_limit(1, by=ask), "by="),
    ],
)
def test_arguments_are_checked(make, text):
    """Where they are given, and not at the first call."""
    with pytest.raises((TypeError, ValueError), match=text):
        make()


@pytest.mark.parametrize("limit", [rate_limit, concurrency_limit])
async def test_names_of_what_has_a_limit(limit):
    """Another principal, or another route, has a limit of its own; unknown routes share one."""

    async def authenticate(auth, facts):
        return None if auth is None else auth.token

    async def ask(router, *asked):
        """Make requests, each as (route, principal); the result says which ones were rejected."""
        rejected = []

        async def one(number, route, name):
            metadata = Metadata(auth=BearerAuthentication(name))
            try:
                await Caller(requester).request_response(route, metadata=metadata, returns=None)
            except Rejected:
                rejected.append(number)
            except Invalid:
                pass

        async with connected_pair(router) as requester, trio.open_nursery() as nursery:
            for number, (route, name) in enumerate(asked):
                nursery.start_soon(one, number, route, name)
                await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        return rejected

    async def wait() -> None:
        await trio.sleep_forever()

    def router(by, **options):
        inner = Router(middleware=[limit(1, by=by)])
        inner.request_response("a")(wait)
        inner.request_response("b")(wait)
        outer = Router(authenticate=authenticate)
        outer.include(inner)
        return outer

    asked = [("a", "ann"), ("b", "ann"), ("a", "ben"), ("b", "ben")]
    assert await ask(router("principal"), *asked) == [1, 3]
    assert await ask(router("route"), *asked) == [2, 3]
    assert await ask(router("peer"), *asked) == [1, 2, 3]
    with pytest.raises(ValueError, match="by= is 'principal', 'peer', 'route' or a function"):
        limit(1, by="user")
