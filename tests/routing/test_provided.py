"""Objects that handlers get from providers: `Router.provide`, over a connection."""

import contextvars
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, NewType, Protocol

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import (
    Call,
    Caller,
    Metadata,
    Outcome,
    Payload,
    PayloadBody,
    Principal,
    Provided,
    Requester,
    Router,
    Setup,
    Stopping,
    TransportInfo,
    errors,
    injected,
    lumberjack,
    rsio,
    ttrpc,
)
from rsocket_trio.frames import PayloadFrame, RequestResponseFrame
from rsocket_trio.metadata import BearerAuthentication
from rsocket_trio.testing import connected_pair, frame_peer_client

Trace = list[str]
Url = NewType("Url", str)
HELD = contextvars.ContextVar("HELD", default="nothing")


@attrs.define
class Database:
    name: str = "real"


@attrs.define
class Session:
    database: Database


@attrs.define
class Repository:
    session: Session


class Clock(Protocol):
    def now(self) -> float: ...


class Stopped:
    def now(self) -> float:
        return 12.0


def application(trace: Trace, *, held: Any = "call", **options: Any) -> Router:
    """Handlers of all kinds that need a repository, which needs a session, which needs a database.

    The repository comes from a class, the session from a block, the database from an async function
    of the application's scope.
    """
    router = Router(**options)

    async def open_database() -> AsyncIterator[Database]:
        trace.append("+database")
        yield Database()
        trace.append("-database")

    async def session(
        call: Call, database: Annotated[Database, Provided]
    ) -> AsyncIterator[Session]:
        trace.append(f"+session of {call.route.name}")
        try:
            yield Session(database)
        except BaseException as error:
            trace.append(f"-session {type(error).__name__} {call.outcome}")
            raise
        else:
            trace.append(f"-session {call.outcome}")

    def repository(*, session: Annotated[Session, Provided]) -> Repository:
        trace.append("repository")
        return Repository(session)

    router.provide(Database, open_database, scope="application")
    router.provide(Session, session, held=held)
    router.provide(Repository, repository)
    return router


def add_handlers(router: Router, trace: Trace) -> None:
    @router.request_response("response")
    async def response(
        data: str, items: Annotated[Repository, Provided], session: Annotated[Session, Provided]
    ) -> str:
        assert items.session is session
        trace.append("handler")
        await act(data)
        return items.session.database.name

    @router.fire_and_forget("event")
    async def event(data: str, items: Annotated[Repository, Provided]) -> None:
        trace.append(f"handler {items.session.database.name}")
        await act(data)

    @router.request_stream("stream")
    async def stream(data: str, items: Annotated[Repository, Provided]) -> AsyncIterator[str]:
        trace.append("handler")
        yield items.session.database.name
        await act(data)
        yield "second"

    @router.request_channel("channel")
    async def channel(
        data: AsyncIterator[str], items: Annotated[Repository, Provided]
    ) -> AsyncIterator[str]:
        trace.append("handler")
        async for each in data:
            yield items.session.database.name
            await act(each)
            yield "second"


async def act(data: str) -> None:
    if data == "fail":
        raise errors.Rejected("no")
    if data == "wait":
        await trio.sleep_forever()


async def ask(requester: Requester, route: str, data: str) -> list[str]:
    caller = Caller(requester)
    if route == "response":
        return [await caller.request_response(route, data, returns=str)]
    if route == "stream":
        async with caller.request_stream(route, data, returns=str) as items:
            return [item async for item in items]

    async def one() -> AsyncIterator[str]:
        yield data

    async with caller.request_channel(route, one(), returns=str) as items:
        return [item async for item in items]


KINDS = ["response", "stream", "channel"]


@pytest.mark.parametrize("kind", KINDS)
async def test_order(kind: str) -> None:
    """Each is made once for a call, behind what it needs, and left in the reverse order."""
    trace: Trace = []
    router = application(trace)
    add_handlers(router, trace)
    async with connected_pair(router) as requester:
        got = await ask(requester, kind, "x")
    assert got == (["real"] if kind == "response" else ["real", "second"])
    assert trace == [
        "+database",
        f"+session of {kind}",
        "repository",
        "handler",
        "-session completed",
        "-database",
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_block_sees_the_error(kind: str) -> None:
    """The error of the handler is raised at the `yield` of the block."""
    trace: Trace = []
    router = application(trace)
    add_handlers(router, trace)
    async with connected_pair(router) as requester:
        with pytest.raises(errors.Rejected, match="no"):
            await ask(requester, kind, "fail")
    assert trace[-2:] == ["-session Rejected failed", "-database"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_block_sees_the_end_of_a_cancelled_call(
    kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A requester that leaves ends the block with the handler, as cancelled."""
    trace: Trace = []
    router = application(trace)
    add_handlers(router, trace)
    async with connected_pair(router) as requester:
        with trio.move_on_after(1):
            await ask(requester, kind, "wait")
        await trio.testing.wait_all_tasks_blocked()
        assert "cancelled" in trace[-1]


async def test_fire_and_forget() -> None:
    """A request without an answer has providers, too."""
    trace: Trace = []
    router = application(trace)
    add_handlers(router, trace)
    async with connected_pair(router) as requester:
        await Caller(requester).fire_and_forget("event", "x")
        await trio.testing.wait_all_tasks_blocked()
    assert trace[-3:] == ["handler real", "-session completed", "-database"]


async def test_all_kinds_of_sources() -> None:
    """Objects, functions, methods, classes, partials and context managers; defaults are kept."""

    class Factory:
        def make(self, name: Annotated[Url, Provided], *, of: int = 5) -> Database:
            return Database(f"{name} {of}")

        async def __call__(self, database: Annotated[Database, Provided]) -> Session:
            return Session(database)

    @asynccontextmanager
    async def numbers(session: Annotated[Session, Provided]) -> AsyncIterator[int]:
        yield len(session.database.name)

    @attrs.define
    class Made:
        session: Annotated[Session, Provided]
        size: int = 3

    router = Router()
    router.provide(Url, Url("a url"))
    router.provide(Database, partial(Factory().make, of=7))
    router.provide(Session, Factory())
    router.provide(int, numbers)
    router.provide(Made, Made)
    router.provide(Clock, Stopped())
    got: list[object] = []

    @router.request_response("all")
    async def handler(
        number: Annotated[int, Provided],
        made: Annotated[Made, Provided],
        clock: Annotated[Clock, Provided],
        url: Annotated[Url, Provided],
        nothing: Annotated[float | None, Provided],
        text: Annotated[str | None, Provided],
    ) -> None:
        got.extend([number, made.session, clock.now(), url, nothing, text])

    async with connected_pair(router) as requester:
        await requester.request_response(Payload(b"", Metadata(route="all").encode()))
    assert got == [7, Session(Database("a url 7")), 12.0, "a url", None, None]


async def test_an_object_that_can_be_called_is_no_function() -> None:
    """What is of the type is an object, also if it can be called."""

    class Job:
        def __call__(self) -> None:
            raise AssertionError

    router = Router()
    job = Job()
    router.provide(Job, job)

    @router.request_response("same")
    async def same(each: Annotated[Job, Provided]) -> bool:
        return each is job

    async with connected_pair(router) as requester:
        assert await Caller(requester).request_response("same", returns=bool)


async def test_facts() -> None:
    """Providers get facts about the request and its connection by type, and the principal."""
    facts: list[object] = []

    def read(
        call: Call,
        metadata: Metadata,
        setup: Setup,
        requester: Requester,
        info: TransportInfo,
        stopping: Stopping,
        user: Annotated[str, Principal],
    ) -> Database:
        facts.extend([call.route.name, metadata.route, setup.principal, info.scheme, user])
        assert requester is call.requester
        assert stopping is call.stopping
        return Database()

    async def authenticate(auth: Any, facts: Any) -> str:
        return "setup" if isinstance(facts, Setup) else f"user {auth.token}"

    router = Router(authenticate=authenticate)
    router.provide(Database, read)

    @router.request_response("facts")
    async def handler(database: Annotated[Database, Provided]) -> str:
        return database.name

    async with connected_pair(router) as requester:
        metadata = Metadata(auth=BearerAuthentication("me"))
        await Caller(requester).request_response("facts", returns=str, metadata=metadata)
    assert facts == ["facts", "facts", "setup", "memory", "user me"]


async def test_the_principal_must_be_there() -> None:
    """A provider that needs a principal refuses requests without one, as a handler does."""

    async def nobody(_auth: object, _facts: object) -> None:
        return None

    router = Router(authenticate=nobody)

    def of(user: Annotated[str, Principal]) -> Database:
        raise AssertionError(user)

    router.provide(Database, of)

    @router.request_response("x")
    async def handler(_database: Annotated[Database, Provided]) -> str:
        raise AssertionError

    async with connected_pair(router) as requester:
        with pytest.raises(errors.Rejected, match="authentication is needed"):
            await Caller(requester).request_response("x", returns=str)


async def test_entry_fails() -> None:
    """An error at the third entry leaves the two that were entered, and is the answer."""
    trace: Trace = []
    router = Router()

    def add(kind: Any, name: str, error: Exception | None = None) -> None:
        async def block() -> AsyncIterator[Any]:
            if error is not None:
                raise error
            trace.append(f"+{name}")
            try:
                yield name
            finally:
                trace.append(f"-{name}")

        router.provide(kind, block)

    add(str, "a")
    add(int, "b")
    add(float, "c", errors.Rejected("full"))

    @router.request_response("x")
    async def handler(
        _a: Annotated[str, Provided], _b: Annotated[int, Provided], _c: Annotated[float, Provided]
    ) -> None:
        raise AssertionError

    async with connected_pair(router) as requester:
        with pytest.raises(errors.Rejected, match="full"):
            await Caller(requester).request_response("x", returns=str)
    assert trace == ["+a", "+b", "-b", "-a"]


async def _a_block() -> AsyncIterator[Database]:
    yield Database()


async def _returned() -> Database:
    return Database()


@pytest.mark.parametrize("kind", KINDS)
async def test_blocks_are_around_the_handler(kind: str) -> None:
    """Task, context variables, a nursery and a deadline of a provider are those of the handler."""
    router = Router()
    tasks: list[object] = []

    async def around() -> AsyncIterator[trio.Nursery]:
        tasks.append(trio.lowlevel.current_task())
        token = HELD.set("held")
        async with trio.open_nursery() as nursery:
            with trio.fail_after(60):
                yield nursery
            nursery.cancel_scope.cancel()
        HELD.reset(token)
        tasks.append(trio.lowlevel.current_task())

    router.provide(trio.Nursery, around, held="call")

    async def check(nursery: trio.Nursery) -> str:
        tasks.append(trio.lowlevel.current_task())
        assert trio.current_effective_deadline() < math.inf
        began = trio.Event()

        async def helper() -> None:
            began.set()
            await trio.sleep_forever()

        nursery.start_soon(helper)
        await began.wait()
        return HELD.get()

    @router.request_response("response")
    async def response(_data: str, nursery: Annotated[trio.Nursery, Provided]) -> str:
        return await check(nursery)

    @router.request_stream("stream")
    async def stream(_data: str, nursery: Annotated[trio.Nursery, Provided]) -> AsyncIterator[str]:
        yield await check(nursery)

    @router.request_channel("channel")
    async def channel(
        data: AsyncIterator[str], nursery: Annotated[trio.Nursery, Provided]
    ) -> AsyncIterator[str]:
        async for _ in data:
            yield await check(nursery)

    async with connected_pair(router) as requester:
        assert await ask(requester, kind, "x") == ["held"]
    assert tasks[0] is tasks[1] is tasks[2]


async def test_held_at_the_start() -> None:
    """It is left before the first item, so a thousand open streams need a pool of one."""
    pool = trio.CapacityLimiter(1)
    router = Router()

    async def lent() -> AsyncIterator[Database]:
        async with pool:
            yield Database()

    def repository(database: Annotated[Database, Provided]) -> Repository:
        return Repository(Session(database))

    router.provide(Database, lent, held="start")
    router.provide(Repository, repository)

    @router.request_stream("names")
    async def names(items: Annotated[Repository, Provided], call: Call) -> AsyncIterator[str]:
        assert pool.borrowed_tokens == 1
        name = items.session.database.name

        async def endless() -> AsyncIterator[str]:
            assert pool.borrowed_tokens == 0
            assert call.outcome is None
            while True:
                yield name

        return endless()

    async with connected_pair(router) as requester, trio.open_nursery() as nursery:

        async def first(task_status: Any) -> None:
            async with Caller(requester).request_stream("names", returns=str) as items:
                assert await anext(items) == "real"
                task_status.started()
                await trio.sleep_forever()

        for _ in range(200):
            await nursery.start(first)
        assert pool.borrowed_tokens == 0
        nursery.cancel_scope.cancel()


async def test_held_at_the_start_sees_the_failure() -> None:
    """The error of the function that returns the stream is raised at the `yield`."""
    seen: list[BaseException] = []
    router = Router()

    async def lent() -> AsyncIterator[Database]:
        try:
            yield Database()
        except errors.Rejected as error:
            seen.append(error)
            raise

    router.provide(Database, lent, held="start")

    @router.request_stream("x")
    async def refuse(_database: Annotated[Database, Provided]) -> AsyncIterator[str]:
        raise errors.Rejected("no such thing")

    async with connected_pair(router) as requester:
        with pytest.raises(errors.Rejected, match="no such thing"):
            async with Caller(requester).request_stream("x", returns=str) as items:
                await anext(items)
    assert len(seen) == 1


async def test_fragments_hold_nothing() -> None:
    """Providers are called when a request has arrived, so a slow sender pins no session."""
    trace: Trace = []

    async def block() -> AsyncIterator[Database]:
        trace.append("made")
        yield Database()

    async def seen(_call: Call) -> AsyncIterator[None]:
        trace.append("middleware")
        yield

    router = Router(middleware=[seen])
    router.provide(Database, block)

    @router.request_response("x")
    async def handler(data: bytes, _database: Annotated[Database, Provided]) -> int:
        trace.append("handler")
        return len(data)

    @router.request_response("body")
    async def body(data: PayloadBody, _database: Annotated[Database, Provided]) -> int:
        return sum([len(chunk) async for chunk in data])

    metadata = Metadata(route="x").encode()
    async with frame_peer_client(router) as peer:
        await peer.send(RequestResponseFrame(1, data=b"a", metadata=metadata, follows=True))
        await trio.testing.wait_all_tasks_blocked()
        assert trace == ["middleware"]
        await peer.send(PayloadFrame(1, data=b"b", next=True))
        await peer.receive()
    assert trace == ["middleware", "made", "handler"]
    async with connected_pair(router) as requester:
        size = await Caller(requester).request_response("body", bytes(10**6), returns=int)
        assert size >= 10**6


async def test_nearest_router() -> None:
    """The provider of an included router counts for its handlers, and otherwise the outer one."""

    async def tell(database: Annotated[Database, Provided]) -> str:
        return database.name

    outer, inner, bare = Router(), Router(), Router()
    for router, route in ((outer, "outer"), (inner, "inner"), (bare, "bare")):
        router.request_response(route)(tell)
    outer.include(inner)
    inner.include(bare)
    outer.provide(Database, Database("outer"))
    inner.provide(Database, Database("inner"))
    async with connected_pair(outer) as requester:
        caller = Caller(requester)
        got = [await caller.request_response(r, returns=str) for r in ("outer", "inner", "bare")]
    assert got == ["outer", "inner", "inner"]


async def test_needs_come_from_the_router_of_the_provider() -> None:
    """A provider of the outer router does not get what an included one provides."""
    outer, inner = Router(), Router()

    def session(database: Annotated[Database, Provided]) -> Session:
        return Session(database)

    outer.provide(Session, session)
    outer.provide(Database, Database("outer"))
    inner.provide(Database, Database("inner"))

    @inner.request_response("x")
    async def tell(
        session: Annotated[Session, Provided], database: Annotated[Database, Provided]
    ) -> str:
        return f"{session.database.name} {database.name}"

    outer.include(inner)
    async with connected_pair(outer) as requester:
        assert await Caller(requester).request_response("x", returns=str) == "outer inner"


class TestOverride:
    async def test_through_included_routers(self) -> None:
        trace: Trace = []
        inner = application(trace)
        add_handlers(inner, trace)
        outer = Router()
        outer.include(inner)
        with outer.override(Database, Database("fake")):
            async with connected_pair(outer) as requester:
                assert await ask(requester, "response", "x") == ["fake"]
        assert "+database" not in trace
        async with connected_pair(outer) as requester:
            assert await ask(requester, "response", "x") == ["real"]

    async def test_a_part_alone(self) -> None:
        """A router whose needs another one fills is tested with an override."""
        router = Router()

        @router.request_response("x")
        async def tell(database: Annotated[Database, Provided]) -> str:
            return database.name

        with router.override(Database, Database("fake")):
            async with connected_pair(router) as requester:
                assert await Caller(requester).request_response("x", returns=str) == "fake"

    async def test_two_pairs_at_once(self) -> None:
        trace: Trace = []
        router = application(trace)
        add_handlers(router, trace)
        with router.override(Database, Database("one")):
            async with connected_pair(router) as one:
                with router.override(Database, Database("two")):
                    async with connected_pair(router) as two:
                        assert await ask(one, "response", "x") == ["one"]
                        assert await ask(two, "response", "x") == ["two"]
                assert await ask(one, "stream", "x") == ["one", "second"]

    async def test_a_function_for_a_block(self) -> None:
        """It is used as long as what it stands for: once while the router is served."""
        made: list[Database] = []
        router = application([])
        add_handlers(router, [])

        async def fake() -> Database:
            made.append(Database("fake"))
            return made[-1]

        with router.override(Database, fake):
            async with connected_pair(router) as requester:
                assert await ask(requester, "response", "x") == ["fake"]
                assert await ask(requester, "stream", "x") == ["fake", "second"]
        assert len(made) == 1

    async def test_a_block_for_a_block(self) -> None:
        router = application([])
        add_handlers(router, [])

        async def fake() -> AsyncIterator[Session]:
            yield Session(Database("fake"))

        with router.override(Session, fake):
            async with connected_pair(router) as requester:
                assert await ask(requester, "stream", "x") == ["fake", "second"]

    def test_an_unknown_key(self) -> None:
        router = application([])
        with pytest.raises(LookupError, match="needs or provides list, so there"):
            with router.override(list, []):
                pass


def _handler(router: Router, *, stream: bool = False) -> None:
    if stream:

        @router.request_stream("x")
        async def items(_database: Annotated[Database, Provided]) -> AsyncIterator[str]:
            yield ""

        return

    @router.request_response("x")
    async def response(_database: Annotated[Database, Provided]) -> str:
        return ""


async def _serve(router: Router) -> None:
    async with connected_pair(router):
        pass


class TestMistakesAreFoundWhenServed:
    async def refused(self, router: Router, said: str) -> None:
        with pytest.raises(TypeError, match=said):
            await _serve(router)

    async def test_a_gap(self) -> None:
        router = Router()
        _handler(router)
        await self.refused(router, r"nobody provides Database, which the handler .*_handler")

    async def test_a_gap_of_a_provider(self) -> None:
        def of(_session: Annotated[Session, Provided]) -> Database:
            raise AssertionError

        router = Router()
        _handler(router)
        router.provide(Database, of)
        await self.refused(router, r"nobody provides Session, which the provider .*of takes")

    async def test_nobody_reaches_it(self) -> None:
        """A provider with a gap that no handler needs is no error."""

        def of(_session: Annotated[Session, Provided]) -> Database:
            raise AssertionError

        router = Router()
        router.provide(Database, of)
        await _serve(router)

    async def test_a_circle(self) -> None:
        def database(_session: Annotated[Session, Provided]) -> Database:
            raise AssertionError

        def session(_database: Annotated[Database, Provided]) -> Session:
            raise AssertionError

        router = Router()
        _handler(router)
        router.provide(Database, database)
        router.provide(Session, session)
        await self.refused(
            router, r"need each other: .*\.database, which needs .*\.session, which .*\.database$"
        )

    async def test_a_scope_that_does_not_fit(self) -> None:
        def database(_session: Annotated[Session, Provided]) -> Database:
            raise AssertionError

        router = Router()
        _handler(router)
        router.provide(Database, database, scope="application")
        router.provide(Session, lambda: None)
        await self.refused(
            router, r"has the scope 'application', and needs .*lambda.* has the scope 'request'"
        )

    async def test_a_fact_that_does_not_fit(self) -> None:
        def database(_call: Call) -> Database:
            raise AssertionError

        router = Router()
        _handler(router)
        router.provide(Database, database, scope="application")
        await self.refused(router, "its parameter '_call' is a fact about a request")

    async def test_the_principal_without_an_authenticator(self) -> None:
        def database(_user: Annotated[str, Principal]) -> Database:
            raise AssertionError

        router = Router()
        _handler(router)
        router.provide(Database, database)
        await self.refused(router, "takes the principal as '_user', but neither its Router")

    async def test_a_stream_must_say_how_long(self) -> None:
        """The text names the pool that would be emptied."""
        router = Router()
        _handler(router, stream=True)
        router.provide(Database, _a_block)
        await self.refused(router, "must say how long a stream holds it.*empty a pool")

    async def test_a_generator_cannot_hold_at_the_start(self) -> None:
        router = Router()
        _handler(router, stream=True)
        router.provide(Database, _a_block, held="start")
        await self.refused(router, "is held='start', and .* is an async generator")

    async def test_a_call_cannot_need_a_start(self) -> None:
        async def session(_database: Annotated[Database, Provided]) -> AsyncIterator[Session]:
            yield Session(Database())

        router = Router()

        @router.request_stream("x")
        async def items(_session: Annotated[Session, Provided]) -> AsyncIterator[str]:
            raise AssertionError

        router.provide(Database, _a_block, held="start")
        router.provide(Session, session, held="call")
        await self.refused(router, "is held='call', and needs .*, which has held='start'")

    async def test_over_every_wire(self, tmp_path: Any) -> None:
        """No server listens with a gap."""
        router = Router()
        _handler(router)

        @router.events
        async def take(_events: list[Any], _database: Annotated[Database, Provided]) -> None:
            raise AssertionError

        serves: list[Callable[[], Awaitable[None]]] = [
            partial(ttrpc.serve, router, f"unix://{tmp_path}/x.sock"),
            partial(rsio.serve, router, "rsio://127.0.0.1:0"),
            partial(lumberjack.serve, router, "lumberjack://127.0.0.1:0"),
        ]
        for serve in serves:
            with pytest.raises(TypeError, match="nobody provides Database"):
                await serve()
        assert not list(tmp_path.iterdir())


class TestMistakesAreFoundAtOnce:
    @pytest.mark.parametrize(
        ("kind", "source", "options", "said"),
        [
            (Database, "text", {}, "is provided with a? ?str, which is neither one nor a function"),
            ("Database", Database(), {}, "a type is provided, such as a class, not 'Database'"),
            (Annotated[Database, Provided], Database(), {}, "a type is provided"),
            (object, Database(), {}, "says nothing about an object"),
            (_returned, Database, {}, "the type comes first, not the function"),
            (Database, Database(), {"scope": "request"}, "neither scope= nor held="),
            (Database, _returned, {"held": "call"}, "held= is for async context manager"),
            (
                Database,
                _a_block,
                {"held": "call", "scope": "application"},
                "held= is for async context manager functions with the scope 'request'",
            ),
            (Database, lambda x: x, {}, "its parameter 'x' has no annotation"),
        ],
    )
    def test_types(self, kind: Any, source: Any, options: Any, said: str) -> None:
        with pytest.raises(TypeError, match=said):
            Router().provide(kind, source, **options)

    def test_a_generator_that_is_not_async(self) -> None:
        def wrong() -> Any:
            yield Database()

        with pytest.raises(TypeError, match="is not async: write `async def`"):
            Router().provide(Database, wrong)

    def test_a_parameter_without_a_mark(self) -> None:
        def wrong(_session: Session) -> Database:
            raise AssertionError

        with pytest.raises(TypeError, match=r"write `Annotated\[Session, Provided\]`"):
            Router().provide(Database, wrong)

    @pytest.mark.parametrize("options", [{"scope": "session"}, {"held": "always"}])
    def test_unknown_words(self, options: Any) -> None:
        with pytest.raises(ValueError, match=r"scope= is one of|held= is 'call' or"):
            Router().provide(Database, _a_block, **options)

    def test_twice(self) -> None:
        router = Router()
        router.provide(Database, Database())
        with pytest.raises(ValueError, match="Database is provided by this router already"):
            router.provide(Database, Database())

    def test_only_a_part_is_marked(self) -> None:
        """The peer would fill the rest."""
        with pytest.raises(TypeError, match="only a part of its parameter 'all' is marked as Prov"):

            @Router().request_response("x")
            async def wrong(all: list[Annotated[Database, Provided]]) -> str:  # noqa: A002
                raise AssertionError

    def test_the_mark_alone(self) -> None:
        with pytest.raises(TypeError, match=r"write `Annotated\[T, Provided\]`"):

            @Router().request_response("x")
            async def wrong(database: Provided) -> str:
                raise AssertionError


async def test_an_outcome_is_seen_by_middleware_after_a_start() -> None:
    """The start's own end is not taken for that of the call."""
    outcomes: list[Outcome | None] = []

    async def seen(call: Call) -> AsyncIterator[None]:
        yield
        outcomes.append(call.outcome)

    async def lent() -> AsyncIterator[Database]:
        yield Database()

    router = Router(middleware=[seen])
    router.provide(Database, lent, held="start")

    @router.request_stream("x")
    async def items(database: Annotated[Database, Provided]) -> AsyncIterator[str]:
        async def one() -> AsyncIterator[str]:
            yield database.name

        return one()

    async with connected_pair(router) as requester:
        async with Caller(requester).request_stream("x", returns=str) as got:
            assert [each async for each in got] == ["real"]
    assert outcomes == [Outcome.COMPLETED]


@pytest.mark.parametrize("scope", ["application", "connection", "request"])
@pytest.mark.parametrize("kind", ["coroutine", "async_generator", "_AsyncGeneratorContextManager"])
async def test_a_function_around_an_async_one(scope: Any, kind: str, caplog: Any) -> None:
    """A handler gets no coroutine and no block in place of its object, in no scope.

    A ``lambda`` that calls the async function looks as if it made the object.
    """

    async def made() -> Database:
        raise AssertionError

    async def opened() -> AsyncIterator[Database]:
        raise AssertionError
        yield

    block = asynccontextmanager(opened)
    source: Any = {
        "coroutine": lambda: made(),
        "async_generator": lambda: opened(),
        "_AsyncGeneratorContextManager": lambda: block(),
    }[kind]
    router = Router()
    router.provide(Database, source, scope=scope)

    @router.request_response("x")
    async def x(_database: Annotated[Database, Provided]) -> None:
        raise AssertionError

    with pytest.raises((TypeError, errors.RejectedSetup, errors.ApplicationError)) as caught:
        async with connected_pair(router) as requester:
            await Caller(requester).request_response("x")
    assert f"returned {kind}, which nobody awaits or enters" in f"{caught.value}{caplog.text}"


class TestHooks:
    """Functions that admit get what is provided, too."""

    @staticmethod
    def router(trace: Trace, **options: Any) -> Router:
        async def authenticate(
            auth: Any, facts: Any, database: Annotated[Database, Provided] = injected
        ) -> str:
            trace.append(f"{type(facts).__name__} {database.name}")
            return database.name

        async def on_setup(
            setup: Setup, requester: Requester, *, session: Annotated[Session | None, Provided]
        ) -> None:
            trace.append(f"on_setup {session}")

        return Router(authenticate=authenticate, on_setup=on_setup, **options)

    async def test_they_get_objects_of_the_application(self) -> None:
        """Of the run that serves them, and what a test has put in their place."""
        trace: Trace = []
        outer, router = Router(), self.router(trace)

        async def database() -> AsyncIterator[Database]:
            trace.append("+")
            yield Database()
            trace.append("-")

        outer.provide(Database, database, scope="application")

        @router.request_response("who")
        async def who(name: Annotated[str, Principal]) -> str:
            return name

        outer.include(router, "in.")
        async with connected_pair(outer) as requester:
            assert await Caller(requester).request_response("in.who", returns=str) == "real"
        assert trace == ["+", "Setup real", "on_setup None", "RequestFacts real", "-"]
        trace.clear()
        with outer.override(Database, Database("fake")):
            async with connected_pair(outer) as requester:
                assert await Caller(requester).request_response("in.who", returns=str) == "fake"
        assert trace == ["Setup fake", "on_setup None", "RequestFacts fake"]

    async def test_events(self) -> None:
        trace: Trace = []
        router = self.router(trace)
        router.provide(Database, Database())

        @router.events
        async def events(events: list[bytes]) -> None:
            trace.append("events")

        async with trio.open_nursery() as nursery:
            serving = partial(lumberjack.serve, router, "lumberjack://127.0.0.1:0")
            server = await nursery.start(serving)
            async with lumberjack.connect(server.uris[0]) as shipper:
                await shipper.send([{}])
            await server.aclose(grace=0)
        assert trace == ["Setup real", "on_setup None", "RequestFacts real", "events"]

    def test_mistakes(self) -> None:
        """All of them are found when the router is served."""
        router = self.router([])
        with pytest.raises(TypeError, match=r"nobody provides .*Database, which authenticate="):
            router.lifespan()
        router.provide(Database, Database, scope="connection")
        with pytest.raises(TypeError, match=r"before a connection is accepted.*scope 'connection'"):
            router.lifespan()
        inner, one, other = self.router([]), Router(), Router()
        one.provide(Database, Database("one"))
        other.provide(Database, Database("other"))
        one.include(inner)
        other.include(inner)
        both = Router()
        both.include(one, "one.")
        both.include(other, "other.")
        with pytest.raises(TypeError, match="another object in each of them"):
            both.lifespan()
