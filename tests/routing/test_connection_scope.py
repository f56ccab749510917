"""The connection as a scope: `Router.connection`, and providers with the scope "connection"."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import (
    Caller,
    ClientResume,
    ClosedByPeer,
    ConnectionClosed,
    ConnectionConfig,
    Forbidden,
    Invalid,
    Payload,
    Principal,
    Provided,
    Reconnect,
    RejectedSetup,
    Requester,
    Responder,
    Router,
    ServerResume,
    Setup,
    SetupError,
    Stopping,
    connect,
    lumberjack,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame
from rsocket_trio.reactive_streams import iterate
from rsocket_trio.testing import connected_pair, frame_peer_client
from rsocket_trio.transports.dial import open_transport

TCP = "tcp://127.0.0.1:0"


@attrs.define(eq=False)
class Client:
    setup: Setup
    peer: Requester
    tasks: trio.Nursery
    seen: list[str] = attrs.field(factory=list)


def application(trace: list[str], **options: Any) -> Router:
    router = Router(**options)

    @router.connection
    async def client(setup: Setup, peer: Requester) -> AsyncIterator[Client]:
        trace.append(f"+client {setup.data.decode()}")
        try:
            async with trio.open_nursery() as tasks:
                yield Client(setup, peer, tasks)
                tasks.cancel_scope.cancel()
        finally:
            trace.append("-client")

    @router.request_response("see")
    async def see(what: str, client: Annotated[Client, Provided]) -> list[str]:
        client.seen.append(what)
        return client.seen

    @router.request_response("wait")
    async def wait(_client: Annotated[Client, Provided]) -> None:
        trace.append("waits")
        try:
            await trio.sleep_forever()
        finally:
            trace.append("waited")

    @router.request_response("fail")
    async def fail(client: Annotated[Client, Provided]) -> None:
        async def crash() -> None:
            raise ValueError("its task")

        client.tasks.start_soon(crash)
        try:
            await trio.sleep_forever()
        finally:
            trace.append("cut")

    return router


async def see(requester: Requester, what: str) -> list[str]:
    return await Caller(requester).request_response("see", what, returns=list[str])


async def test_state_of_a_connection() -> None:
    """One object for all requests of a connection, and none for two connections."""
    trace: list[str] = []
    router = application(trace)
    async with connected_pair(router, setup=Payload(b"one")) as one:
        assert await see(one, "a") == ["a"]
        async with connected_pair(router, setup=Payload(b"two")) as two:
            assert await see(one, "b") == ["a", "b"]
            assert await see(two, "c") == ["c"]
    assert trace == ["+client one", "+client two", "-client", "-client"]


async def test_left_behind_the_last_handler() -> None:
    """Handlers that are cancelled because the client has gone end before the block."""
    trace: list[str] = []

    async def ask(requester: Requester) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await Caller(requester).request_response("wait", returns=None)

    async with trio.open_nursery() as nursery:
        async with connected_pair(application(trace)) as requester:
            nursery.start_soon(ask, requester)
            await trio.testing.wait_all_tasks_blocked()
    assert trace == ["+client ", "waits", "waited", "-client"]


async def test_a_server_that_is_cancelled() -> None:
    """The handlers end before the block also then."""
    trace: list[str] = []
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, application(trace), TCP)
        async with connect(server.uris[0]) as requester:
            async with trio.open_nursery() as asking:

                async def ask() -> None:
                    with pytest.raises(ConnectionClosed):
                        await Caller(requester).request_response("wait", returns=None)

                asking.start_soon(ask)
                while "waits" not in trace:
                    await trio.sleep(0.01)
                server.stop(grace=0)
    assert trace == ["+client ", "waits", "waited", "-client"]


async def test_its_failure_ends_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    """A task of its nursery fails: the handlers are cut first, the log has the reason.

    And the peer is told that it is not its fault.
    """
    trace: list[str] = []
    router = application(trace)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, TCP)
        async with connect(server.uris[0]) as one, connect(server.uris[0]) as two:
            told = "CONNECTION_ERROR: the application has ended the connection"
            with pytest.raises(ClosedByPeer, match=told):
                await Caller(one).request_response("fail", returns=None)
            assert await see(two, "x") == ["x"]
        await server.aclose()
    assert trace[2:] == ["cut", "-client", "-client"]
    assert "block of the connection from 127.0.0.1" in caplog.text
    assert "failed, which ended it" in caplog.text
    assert "its task" in caplog.text


class TestEntering:
    async def refused(self, router: Router, **options: Any) -> str:
        with pytest.raises(RejectedSetup) as caught:
            async with connected_pair(router, **options):
                raise AssertionError
        return str(caught.value)

    async def test_it_may_refuse(self) -> None:
        router = Router()

        @router.connection
        async def full() -> AsyncIterator[None]:
            raise RejectedSetup("too many of you")
            yield

        assert "too many of you" in await self.refused(router)

    async def test_for_good(self, caplog: pytest.LogCaptureFixture) -> None:
        """As guards do: a client learns that trying again does not help, and nothing has failed.

        An acceptor function may refuse in the same way.
        """
        router = Router()

        @router.connection
        async def banned() -> AsyncIterator[None]:
            raise Forbidden("you are banned")
            yield

        async def accept(_setup: Setup, _requester: Requester) -> Responder:
            raise Forbidden("you are banned")

        for responder in (router, accept):
            with pytest.raises(SetupError, match="you are banned") as caught:
                async with connected_pair(responder):
                    raise AssertionError
            assert caught.value.code == Forbidden.default_code
        assert not [each for each in caplog.records if each.levelname == "ERROR"]

    async def test_it_is_over_when_it_is_entered(self, caplog: pytest.LogCaptureFixture) -> None:
        """No handler is called behind a block whose deadline has passed, as of an old token."""
        router = Router()

        @router.connection
        async def old() -> AsyncIterator[None]:
            with trio.CancelScope(deadline=trio.current_time() - 1):
                yield

        assert "not admitted" in await self.refused(router)
        assert "a deadline of it has passed" in caplog.text

    async def test_it_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        """The peer does not learn the text."""
        router = Router()

        @router.connection
        async def fails() -> AsyncIterator[None]:
            raise ValueError("secret")
            yield

        assert "secret" not in await self.refused(router)
        assert "secret" in caplog.text

    async def test_it_takes_too_long(self, autojump_clock: trio.testing.MockClock) -> None:
        trace: list[str] = []
        router = Router()

        @router.connection
        async def slow() -> AsyncIterator[None]:
            try:
                await trio.sleep_forever()
                yield
            finally:
                trace.append("left")

        began = trio.current_time()
        config = ConnectionConfig(setup_timeout=3)
        async with frame_peer_client(router, setup=False, config=config) as peer:
            await peer.setup()
            error = await peer.receive(ErrorFrame)
        assert error.code == ErrorCode.REJECTED_SETUP
        assert trio.current_time() - began == pytest.approx(3)
        assert trace == ["left"]

    async def test_behind_the_guards(self) -> None:
        """A refused SETUP never enters it."""
        trace: list[str] = []

        async def refuse(_setup: Setup, _requester: Requester) -> None:
            raise RejectedSetup("not you")

        assert "not you" in await self.refused(application(trace, on_setup=refuse))
        assert trace == []

    async def test_an_included_router_that_refuses(self) -> None:
        """Its block is not entered, and those of others are."""
        trace: list[str] = []

        async def refuse(_setup: Setup, _requester: Requester) -> None:
            raise RejectedSetup("not you")

        outer = application(trace)
        inner_trace: list[str] = []
        outer.include(application(inner_trace, on_setup=refuse), "inner.")
        async with connected_pair(outer) as requester:
            assert await see(requester, "x") == ["x"]
        assert len(trace) == 2
        assert inner_trace == []


async def test_facts_and_scopes() -> None:
    """It gets facts about the connection, the principal of the SETUP, and what is provided."""

    async def authenticate(_auth: object, _facts: object) -> str:
        return "me"

    router = Router(authenticate=authenticate)
    router.provide(int, 7)

    async def size(setup: Setup, factor: Annotated[int, Provided]) -> float:
        return float(len(setup.data) * factor)

    router.provide(float, size, scope="connection")

    @router.connection
    async def facts(
        stopping: Stopping,
        user: Annotated[str, Principal],
        size: Annotated[float, Provided],
    ) -> AsyncIterator[str]:
        assert not stopping.is_set()
        yield f"{user} {size}"

    @router.request_response("x")
    async def x(text: Annotated[str, Provided]) -> str:
        return text

    async with connected_pair(router, setup=Payload(b"123")) as requester:
        assert await Caller(requester).request_response("x", returns=str) == "me 21.0"


async def test_an_absorbed_end_ends_the_connection() -> None:
    """A block whose own deadline has passed ends its connection."""
    router = Router()

    @router.connection
    async def short() -> AsyncIterator[None]:
        with trio.move_on_after(0.05):
            yield

    async with connected_pair(router) as requester:
        with trio.fail_after(5):
            await requester.wait_closed()


async def test_an_absorbed_end_is_no_crash(caplog: pytest.LogCaptureFixture) -> None:
    """The tasks of the connection are cancelled, which is no error of it: over rsio, it was."""
    router = Router()

    @router.connection
    async def short() -> AsyncIterator[None]:
        with trio.move_on_after(0.05):
            yield

    @router.request_response("wait")
    async def wait() -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsio.serve, router, "rsio://127.0.0.1:0")
        with pytest.raises(Exception, match="closed"):
            async with rsio.connect(server.uris[0]) as connection:
                async for _ in iterate(connection.publisher("wait")):
                    raise AssertionError
        await server.aclose()
    assert "crashed" not in caplog.text


async def test_it_may_be_overridden() -> None:
    """A fake object stands for the whole block."""
    trace: list[str] = []
    router = application(trace)
    fake: Any = Client.__new__(Client)
    fake.seen = ["fake"]
    with router.override(Client, fake):
        async with connected_pair(router) as requester:
            assert await see(requester, "x") == ["fake", "x"]
    assert trace == []


async def test_the_session_has_it() -> None:
    """With resumption it outlives a lost connection."""
    trace: list[str] = []
    router = application(trace)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            lambda task_status: serve(router, TCP, resume=ServerResume(), task_status=task_status)
        )
        dialled: list[Any] = []

        @asynccontextmanager
        async def dial() -> AsyncIterator[Any]:
            async with open_transport(server.uris[0]) as transport:
                dialled.append(transport)
                yield transport

        async with connect(dial, resume=ClientResume()) as requester:
            assert await see(requester, "a") == ["a"]
            await dialled[-1].aclose()
            assert await see(requester, "b") == ["a", "b"]
            assert len(dialled) == 2
        await server.aclose()
    assert trace == ["+client ", "-client"]


def simple(trace: list[str]) -> Router:
    router = Router()

    @router.connection
    async def block() -> AsyncIterator[int]:
        trace.append("+")
        yield 7
        trace.append("-")

    @router.request_response("a.B/seven")
    async def seven(number: Annotated[int, Provided]) -> bytes:
        return b"%d" % number

    @router.request_response("seven")
    async def text(number: Annotated[int, Provided]) -> str:
        return f"{number}"

    @router.events
    async def take(_events: list[Any], number: Annotated[int, Provided]) -> None:
        trace.append(f"{number}")

    return router


class TestOtherWires:
    async def test_ttrpc(self, tmp_path: Any) -> None:
        trace: list[str] = []
        uri = f"unix://{tmp_path}/x.sock"
        async with trio.open_nursery() as nursery:
            server = await nursery.start(ttrpc.serve, simple(trace), uri)
            async with ttrpc.connect(uri) as client:
                method = ttrpc.Method(
                    "a.B", "seven", ttrpc.MethodKind.UNARY, ttrpc.BYTES, ttrpc.BYTES
                )
                assert await client.unary(method, b"") == b"7"
            await server.aclose()
        assert trace == ["+", "-"]

    async def test_rsio(self) -> None:
        trace: list[str] = []
        async with trio.open_nursery() as nursery:
            server = await nursery.start(rsio.serve, simple(trace), "rsio://127.0.0.1:0")
            async with rsio.connect(server.uris[0]) as connection:
                items = iterate(connection.publisher("seven"))
                assert [bytes(item) async for item in items] == [b'"7"']
            await server.aclose()
        assert trace == ["+", "-"]

    async def test_one_that_ends_before_its_connection(self, tmp_path: Any) -> None:
        """It ends it in the way of each wire; rsio has words for it."""

        def short() -> Router:
            router = simple([])

            @router.connection
            async def ends() -> AsyncIterator[None]:
                with trio.move_on_after(0.05):
                    yield

            return router

        async with trio.open_nursery() as nursery:
            server = await nursery.start(rsio.serve, short(), "rsio://127.0.0.1:0")
            async with rsio.connect(server.uris[0]) as connection:
                ended = await connection.wait_closed()
                assert "the application has ended the connection" in str(ended)
            await server.aclose()
            server = await nursery.start(ttrpc.serve, short(), f"unix://{tmp_path}/x.sock")
            async with ttrpc.connect(server.uris[0]) as client:
                assert isinstance(await client.wait_closed(), ConnectionClosed)
            await server.aclose()

    async def test_lumberjack(self) -> None:
        trace: list[str] = []
        async with trio.open_nursery() as nursery:
            server = await nursery.start(
                lumberjack.serve, simple(trace), "lumberjack://127.0.0.1:0"
            )
            async with lumberjack.connect(server.uris[0]) as client:
                await client.send([{"a": 1}])
            await server.aclose()
        assert trace == ["+", "7", "-"]

    async def test_lumberjack_asks_only_some_guards(self) -> None:
        """The block behind a guard that is not asked about a sender of events is not entered."""
        trace: list[str] = []

        async def nobody(_setup: Setup, _requester: Requester) -> None:
            raise AssertionError

        router = simple(trace)
        router.include(application(trace, on_setup=nobody), "inner.")
        async with trio.open_nursery() as nursery:
            server = await nursery.start(lumberjack.serve, router, "lumberjack://127.0.0.1:0")
            async with lumberjack.connect(server.uris[0]) as client:
                await client.send([{"a": 1}])
            await server.aclose()
        assert trace == ["+", "7", "-"]


class TestClients:
    async def test_a_client(self) -> None:
        """The router of a client has the block for its connection."""
        trace: list[str] = []
        requesters: list[Requester] = []

        async def accept(_setup: Setup, requester: Requester) -> Responder:
            requesters.append(requester)
            return Responder()

        async with connected_pair(accept, client_responder=application(trace)):
            assert await see(requesters[0], "x") == ["x"]
        assert trace == ["+client ", "-client"]

    async def test_a_block_that_fails_at_a_client(self) -> None:
        router = Router()

        @router.connection
        async def fails() -> AsyncIterator[None]:
            raise ValueError("mine")
            yield

        with pytest.raises(ValueError, match="mine"):
            async with connected_pair(Responder(), client_responder=router):
                raise AssertionError

    async def test_each_session_of_a_client_has_its_own(self) -> None:
        """A client that connects again leaves the block of one session, and enters another."""
        trace: list[str] = []
        async with trio.open_nursery() as nursery:
            first = await nursery.start(serve, Router(), TCP)
            uri = first.uris[0]
            reconnect = Reconnect(spread=0)
            async with connect(uri, responder=application(trace), reconnect=reconnect) as requester:
                await first.aclose()
                second = await nursery.start(serve, Router(), uri)
                with pytest.raises(Invalid):  # it has no such route
                    await requester.request_response(route="nothing", idempotent=True)
                assert trace == ["+client ", "-client", "+client "]
            await second.aclose()
        assert trace == ["+client ", "-client"] * 2


def test_mistakes() -> None:
    router = Router()
    with pytest.raises(TypeError, match=r"has no `yield`: @router\.connection takes"):

        @router.connection
        async def nothing() -> None:
            raise AssertionError

    with pytest.raises(ValueError, match="int is provided by this router already"):
        for _ in range(2):

            @router.connection
            async def number() -> AsyncIterator[int]:
                yield 7
