"""The block around the whole time in which a router is served: `Router(lifespan=...)`."""

import contextlib
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import (
    Caller,
    Provided,
    RejectedSetup,
    Requester,
    Responder,
    Router,
    Setup,
    connect,
    lumberjack,
    rsio,
    serve,
    serve_transport,
    ttrpc,
)
from rsocket_trio.reactive_streams import collect
from rsocket_trio.testing import connected_pair, frame_peer_client
from rsocket_trio.transports.memory import memory_transport_pair

TCP = "tcp://127.0.0.1:0"
NAME = contextvars.ContextVar("NAME", default="unset")


@attrs.define(eq=False)
class Run:
    name: str = "run"


def recorded(trace: list[str], name: str = "lifespan") -> Any:
    async def lifespan() -> AsyncIterator[None]:
        trace.append(f"+{name}")
        try:
            yield
        except BaseException as error:
            trace.append(f"-{name} {type(error).__name__}")
            raise
        else:
            trace.append(f"-{name}")

    return lifespan


async def test_order() -> None:
    """Before the address is announced, and after the last handler; other objects are inside."""
    trace: list[str] = []
    router = Router(lifespan=recorded(trace))

    async def opened() -> AsyncIterator[Run]:
        trace.append("+run")
        yield Run()
        trace.append("-run")

    router.provide(Run, opened, scope="application")

    @router.request_response("slow")
    async def slow(run: Annotated[Run, Provided]) -> str:
        trace.append("handler begins")
        await begun.aclose()
        await trio.sleep(0.05)
        trace.append("handler ends")
        return run.name

    begun, has_begun = trio.open_memory_channel[None](0)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, TCP)
        trace.append("listens")
        async with connect(server.uris[0]) as requester:

            async def ask() -> None:
                assert await Caller(requester).request_response("slow", returns=str) == "run"

            async with trio.open_nursery() as asking:
                asking.start_soon(ask)
                with pytest.raises(trio.EndOfChannel):
                    await has_begun.receive()
                await server.aclose()
                trace.append("closed")
    assert trace == [
        "+lifespan",
        "+run",
        "listens",
        "handler begins",
        "handler ends",
        "-run",
        "-lifespan",
        "closed",
    ]


async def test_included_routers() -> None:
    """The outermost first; each once, in however many ways it is included."""
    trace: list[str] = []
    outer, middle, inner = (Router(lifespan=recorded(trace, n)) for n in ("o", "m", "i"))
    middle.include(inner, "a.")
    middle.include(inner, "b.")
    outer.include(middle)
    outer.include(inner, "c.")
    async with connected_pair(outer):
        assert trace == ["+o", "+m", "+i"]
    assert trace[3:] == ["-i", "-m", "-o"]


async def test_what_it_yields_is_provided() -> None:
    """By the type in its annotation; it may be a method that takes the router, and a manager."""

    class Application:
        @asynccontextmanager
        async def lifespan(self, router: Router) -> AsyncIterator[Run]:
            assert isinstance(router, Router)
            yield Run("mine")

    router = Router(lifespan=Application().lifespan)

    @router.request_response("x")
    async def x(run: Annotated[Run, Provided]) -> str:
        return run.name

    async with connected_pair(router) as requester:
        assert await Caller(requester).request_response("x", returns=str) == "mine"
    with router.override(Run, Run("fake")):
        async with connected_pair(router) as requester:
            assert await Caller(requester).request_response("x", returns=str) == "fake"


async def test_two_runs_at_once() -> None:
    """Each run has objects of its own."""
    runs: list[Run] = []

    async def lifespan() -> AsyncIterator[Run]:
        runs.append(Run(f"run {len(runs)}"))
        yield runs[-1]

    router = Router(lifespan=lifespan)

    @router.request_response("x")
    async def x(run: Annotated[Run, Provided]) -> str:
        return run.name

    async with connected_pair(router) as one, connected_pair(router) as two:
        for requester, name in ((one, "run 0"), (two, "run 1")):
            assert await Caller(requester).request_response("x", returns=str) == name


async def test_context_variables_are_seen_by_handlers() -> None:
    async def lifespan() -> AsyncIterator[None]:
        NAME.set("set")
        yield

    router = Router(lifespan=lifespan)

    @router.request_response("x")
    async def x() -> str:
        return NAME.get()

    async with connected_pair(router) as requester:
        assert await Caller(requester).request_response("x", returns=str) == "set"


def starts(router: Router, path: Path) -> list[Callable[..., Awaitable[None]]]:
    """All that serves a router at an address."""
    return [
        partial(serve, router, TCP),
        partial(ttrpc.serve, router, f"unix://{path}/x.sock"),
        partial(rsio.serve, router, "rsio://127.0.0.1:0"),
        partial(lumberjack.serve, router, "lumberjack://127.0.0.1:0"),
        partial(serve, router, "rsio://127.0.0.1:0"),
    ]


def with_events(**options: Any) -> Router:
    router = Router(**options)

    @router.events
    async def take(_events: list[Any]) -> None:
        raise AssertionError

    return router


@pytest.mark.parametrize("n", range(5))
async def test_every_server(n: int, tmp_path: Path) -> None:
    """The same block on every wire: a failure before the `yield` comes out, and nothing listens."""
    trace: list[str] = []
    router = with_events(lifespan=recorded(trace))
    async with trio.open_nursery() as nursery:
        server = await nursery.start(starts(router, tmp_path)[n])
        assert trace == ["+lifespan"]
        await server.aclose()
        assert trace == ["+lifespan", "-lifespan"]

    async def fails() -> AsyncIterator[None]:
        raise ValueError("no database")
        yield

    listening: list[object] = []

    class Status:
        def started(self, value: object = None) -> None:
            listening.append(value)

    with pytest.raises(ValueError, match="no database"):
        await starts(with_events(lifespan=fails), tmp_path)[n](task_status=Status())
    assert not listening
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n", range(5))
async def test_a_task_in_the_background_fails(n: int, tmp_path: Path) -> None:
    """The server ends with its error, without a group around it."""
    may_fail = trio.Event()

    async def background() -> None:
        await may_fail.wait()
        raise ValueError("the cache is gone")

    async def lifespan() -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(background)
            yield
            nursery.cancel_scope.cancel()

    class Status:
        def started(self, _value: object = None) -> None:
            may_fail.set()

    with pytest.raises(ValueError, match="the cache is gone"):
        await starts(with_events(lifespan=lifespan), tmp_path)[n](task_status=Status())


async def told_by(wire: str, uri: str, fail: trio.Event) -> str:
    """Fail when a client is there, and return what it is told."""
    ended: object
    if wire == "rsio":
        async with rsio.connect(uri) as connection:
            fail.set()
            ended = await connection.wait_closed()
    elif wire == "ttrpc":
        async with ttrpc.connect(uri) as client:
            fail.set()
            ended = await client.wait_closed()
    else:
        async with connect(uri) as requester:
            fail.set()
            ended = await requester.wait_closed()
    return str(ended)


@pytest.mark.parametrize("wire", ["rsocket", "rsio", "ttrpc"])
async def test_clients_learn_that_it_has_failed(wire: str, tmp_path: Path) -> None:
    """They get a goodbye, as from a server that stops, and not the end of a stream of bytes.

    A cancelled server gives them none. The block is open until the last handler has ended.
    """
    may_fail = trio.Event()
    trace: list[str] = []

    async def fail() -> None:
        await may_fail.wait()
        raise ValueError("the cache is gone")

    async def lifespan() -> AsyncIterator[None]:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)
                yield
        finally:
            trace.append("closed")

    router = with_events(lifespan=lifespan)

    @router.connection
    async def connected() -> AsyncIterator[None]:
        yield
        trace.append("left")

    serving = starts(router, tmp_path)[["rsocket", "ttrpc", "rsio"].index(wire)]
    failed: list[Exception] = []

    async def run(*, task_status: trio.TaskStatus[Any]) -> None:
        try:
            await serving(task_status=task_status)
        except ValueError as error:
            failed.append(error)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(run)
        told = await told_by(wire, server.uris[0], may_fail)
    assert wire == "ttrpc" or "the server is being stopped" in told
    assert trace == ["left", "closed"]
    assert [str(each) for each in failed] == ["the cache is gone"]


async def test_one_application_on_two_wires() -> None:
    """Within its block, servers are given `accept`, and have no block of their own."""
    trace: list[str] = []
    router = Router(lifespan=recorded(trace))

    @router.request_response("x")
    async def x() -> str:
        return "x"

    async with router.lifespan(), trio.open_nursery() as nursery:
        one = await nursery.start(serve, router.accept, TCP)
        two = await nursery.start(rsio.serve, router.accept, "rsio://127.0.0.1:0")
        async with connect(one.uris[0]) as requester:
            assert await Caller(requester).request_response("x", returns=str) == "x"
        async with rsio.connect(two.uris[0]) as connection:
            assert await collect(connection.publisher("x")) == [b'"x"']
        for each in (one, two):
            await each.aclose(grace=0)
    assert trace == ["+lifespan", "-lifespan"]


async def test_one_connection() -> None:
    """`serve_transport`, `serve_stream` and clients with a router have the block, too."""
    trace: list[str] = []
    router = Router(lifespan=recorded(trace))
    async with frame_peer_client(router):
        assert trace == ["+lifespan"]
    async with connected_pair(Responder(), client_responder=router):
        assert trace[2:] == ["+lifespan"]
    assert len(trace) == 4
    one, other = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ttrpc.serve_stream, router, one)
        await trio.testing.wait_all_tasks_blocked()
        assert trace[4:] == ["+lifespan"]
        await other.aclose()
    one, other = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, router, one)
        async with rsio.connect(other, publish=router):
            assert trace[6:] == ["+lifespan", "+lifespan"]
    assert trace[8:] == ["-lifespan", "-lifespan"]


async def test_cancelled() -> None:
    """A server that is cancelled leaves the block as cancelled."""
    trace: list[str] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, Router(lifespan=recorded(trace)), TCP)
        nursery.cancel_scope.cancel()
    assert trace == ["+lifespan", "-lifespan Cancelled"]


async def test_an_address_in_use() -> None:
    """An address that cannot be listened on is seen by the block, and comes out as it is."""
    trace: list[str] = []
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Router(), TCP)
        with pytest.raises(OSError, match="cannot listen on"):
            await serve(Router(lifespan=recorded(trace)), server.uris[0])
        await server.aclose()
    assert trace == ["+lifespan", "-lifespan OSError"]


async def test_returned_by_an_acceptor(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody runs the block of a router that an acceptor returns: the connection is refused."""
    router = Router(lifespan=recorded([]))

    async def accept(_setup: Setup, _requester: Requester) -> Responder:
        return router

    with pytest.raises(RejectedSetup):
        async with connected_pair(accept):
            raise AssertionError
    assert "has not been called: that happens when its router is given to `serve`" in caplog.text


async def test_an_error_of_the_block_is_not_changed() -> None:
    """A group that the code within a helper for tests raises goes out as it is."""
    group = ExceptionGroup("mine", [ValueError()])
    with pytest.raises(ExceptionGroup) as caught:
        async with connected_pair(Router()):
            raise group
    assert caught.value is group


async def no_yield() -> None:
    raise AssertionError


async def ends_early() -> AsyncIterator[None]:
    return
    yield


async def yields_twice() -> AsyncIterator[None]:
    yield
    yield


def test_it_must_yield() -> None:
    with pytest.raises(TypeError, match="no_yield has no `yield`: lifespan= takes an async gener"):
        Router(lifespan=no_yield)
    with pytest.raises(TypeError, match="lifespan= takes an async context manager function, not"):
        Router(lifespan=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lifespan", "said"), [(ends_early, "ended before its `yield`"), (yields_twice, "yields twice")]
)
async def test_it_yields_once(lifespan: Any, said: str) -> None:
    client, server = memory_transport_pair()
    client.close()
    with pytest.raises(RuntimeError, match=said):
        await serve_transport(Router(lifespan=lifespan), server)


async def test_a_block_that_absorbs_the_error_of_another_one() -> None:
    """Nothing is served without what could not be opened, and the error has its cause."""

    async def absorbs() -> AsyncIterator[None]:
        with contextlib.suppress(ValueError):
            yield

    async def fails() -> AsyncIterator[None]:
        raise ValueError("no database")
        yield

    router = Router(lifespan=absorbs)
    router.include(Router(lifespan=fails))
    with pytest.raises(RuntimeError, match="a block ended before all was open") as caught:
        async with router.lifespan():
            raise AssertionError
    assert repr(caught.value.__cause__) == "ValueError('no database')"
