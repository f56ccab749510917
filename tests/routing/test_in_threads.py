"""Handlers that block run in worker threads: ``thread=True``."""

from __future__ import annotations

import contextvars
import threading
from functools import partial

import pytest
import trio

from rsocket_trio import Interaction, Router
from rsocket_trio.errors import Invalid, StreamError
from rsocket_trio.routing import Caller
from rsocket_trio.testing import connected_pair


def double(n: int) -> int:
    return 2 * n


async def test_it_runs_in_another_thread_and_the_loop_goes_on():
    """Two blocking handlers are at work at once: a barrier in the loop's own thread would hang."""
    router = Router()
    barrier = threading.Barrier(2)

    @router.request_response("meet", thread=True)
    def meet(n: int) -> int:
        barrier.wait(20)
        return n + (threading.current_thread() is threading.main_thread())

    got = []
    async with connected_pair(router) as requester, trio.open_nursery() as nursery:
        caller = Caller(requester)

        async def call(n):
            got.append(await caller.request_response("meet", n, returns=int))

        nursery.start_soon(call, 10)
        nursery.start_soon(call, 20)
    assert sorted(got) == [10, 20]


async def test_a_limiter_bounds_the_threads():
    """With one token the second request waits for the first."""
    limiter = trio.CapacityLimiter(1)
    router = Router()
    at_once, most = 0, 0

    @router.fire_and_forget("count", thread=limiter)
    def count(n: int) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        trio.from_thread.run(trio.lowlevel.checkpoint)
        at_once -= 1
        if n == 9:
            trio.from_thread.run_sync(done.set)

    done = trio.Event()
    async with connected_pair(router) as requester:
        for n in range(10):
            await Caller(requester).fire_and_forget("count", n)
        await done.wait()
    assert most == 1


async def test_errors_and_context_and_partials():
    """As with an async handler: a typed error reaches the peer, and variables are inherited."""
    router = Router()
    context = contextvars.ContextVar("context", default="none")

    @router.request_response("refuse", thread=True)
    def refuse(n: int) -> int:
        raise Invalid(f"not {n} in {context.get()}")

    router.request_response("twice", thread=True)(partial(double, n=4))
    context.set("a request")
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        with pytest.raises(StreamError, match="not 3 in a request"):
            await caller.request_response("refuse", 3, returns=int)
        assert await caller.request_response("twice", returns=int) == 8
    assert router.describe()[1].handler.endswith("test_in_threads.double")
    assert router.describe()[1].interaction is Interaction.REQUEST_RESPONSE


async def test_a_cancelled_request_waits_for_its_thread():
    """The thread finds out, and the connection ends after it: nothing runs on unseen."""
    router = Router()
    begun, ended = trio.Event(), threading.Event()

    @router.request_response("long", thread=True)
    def long() -> None:
        trio.from_thread.run_sync(begun.set)
        try:
            while True:
                trio.from_thread.check_cancelled()
                ended.wait(0.001)
        finally:
            ended.set()

    async with connected_pair(router) as requester, trio.open_nursery() as nursery:
        nursery.start_soon(partial(Caller(requester).request_response, "long", returns=type(None)))
        await begun.wait()
        nursery.cancel_scope.cancel()
    assert ended.is_set()


@pytest.mark.parametrize(
    ("decorate", "function", "text"),
    [
        (lambda r: r.request_response("a"), double, "not async: .*in a worker thread with thread="),
        (
            lambda r: r.request_response("a", thread=True),
            trio.sleep_forever,
            "it is async, so it needs no thread",
        ),
        (lambda r: r.request_response("a", thread=4), double, "True or a trio.CapacityLimiter"),
        (lambda r: r.request_stream("a"), double, "write `async def`$"),
    ],
)
def test_mistakes_are_found_at_registration(decorate, function, text):
    """The text says what to change."""
    router = Router()
    with pytest.raises(TypeError, match=text):
        decorate(router)(function)
    assert router.describe() == ()


def test_a_generator_does_not_run_in_a_thread():
    """Its items would each need a thread, and its `finally` another one."""

    def items(n: int):
        yield n

    with pytest.raises(TypeError, match="a stream does not run in a thread"):
        Router().request_response("a", thread=True)(items)
