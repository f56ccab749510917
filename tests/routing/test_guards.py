"""Guards protect the handlers of their own router, also when it is included."""

import gc
import logging
import weakref
from collections.abc import AsyncIterator
from typing import Annotated, Any

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    BearerAuthentication,
    Invalid,
    Metadata,
    Payload,
    Principal,
    Rejected,
    RejectedResume,
    RejectedSetup,
    Requester,
    RequestFacts,
    Router,
    Setup,
)
from rsocket_trio.routing import Interaction
from rsocket_trio.testing.in_memory import connected_pair

Who = Annotated[Any, Principal]
ADA = Metadata(auth=BearerAuthentication("ada"))


def setup_of(metadata):
    return Payload(b"", metadata.encode())


def make(*routes, **settings):
    """A router whose handlers answer with their principal."""
    router = Router(**settings)
    for route in routes:

        @router.request_response(route)
        async def handler(who: Who) -> bytes:
            return str(who).encode()

    return router


def keeper(name):
    """An authenticator that admits clients with a token, and names the principal after itself."""

    async def authenticate(auth, facts):
        if auth is None and facts.principal is not None:
            return facts.principal
        if auth is None:
            raise Rejected(f"{name}: who are you?")
        return f"{name}:{auth.token}"

    return authenticate


def public(*routes):
    router = Router()
    for route in routes:

        @router.request_response(route)
        async def handler() -> bytes:
            return b"public"

    return router


async def ask(requester, route=None, metadata=None):
    try:
        answer = await requester.request_response(route=route, metadata=metadata)
    except (Rejected, Invalid, ApplicationError) as error:
        return str(error)
    return answer.data.decode()


async def test_a_guard_refuses_its_own_handlers_only():
    """The guard of an included router does not refuse the connection."""
    router = public("news")
    router.include(make("users", authenticate=keeper("admin")), "admin.")
    async with connected_pair(router) as requester:
        assert await ask(requester, "news") == "public"
        assert await ask(requester, "admin.users") == "REJECTED: admin: who are you?"
        assert await ask(requester, "admin.nothing") == "REJECTED: admin: who are you?"
        missing = "INVALID: no request_response handler for route 'nothing'"
        assert await ask(requester, "nothing") == missing
        # The guard has refused the SETUP; as a served router it would have no connection now.
        assert await ask(requester, "admin.users", ADA) == "REJECTED: admin: who are you?"
        with pytest.raises(Rejected):
            async with requester.request_stream(route="admin.users") as items:
                await items.receive()


async def test_each_guard_authenticates_with_the_setup():
    """Each guard reads the SETUP itself, and its handlers get its result."""
    router = make("who", authenticate=keeper("outer"))
    inner = make("who", authenticate=keeper("inner"))
    inner.include(make("who", authenticate=keeper("core")), "core.")
    inner.include(make("who"), "plain.")
    router.include(inner, "inner.")
    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "who") == "outer:ada"
        assert await ask(requester, "inner.who") == "inner:ada"
        assert await ask(requester, "inner.core.who") == "core:ada"
        assert await ask(requester, "inner.plain.who") == "inner:ada"
        bob = Metadata(auth=BearerAuthentication("bob"))
        assert await ask(requester, "inner.core.who", bob) == "core:bob"
    with pytest.raises(RejectedSetup, match="outer: who are you"):
        async with connected_pair(router):
            raise AssertionError("connected")


async def test_all_guards_of_a_handler_are_called():
    """Each guard on the way may refuse, the outermost first; each gets the one before's result."""
    seen = []

    def level(name, refuses):
        async def authenticate(auth, facts):
            if isinstance(facts, Setup):
                return None
            seen.append((name, facts.outer_principal, facts.route.name))
            if auth.token == refuses:
                raise Rejected(name)
            return name

        return authenticate

    core = make("x", authenticate=level("core", "c"))
    inner = make(authenticate=level("inner", "b"))
    inner.include(core)
    outer = make(authenticate=level("outer", "a"))
    outer.include(inner, "in.")
    async with connected_pair(outer) as requester:
        for token, answer, last in (
            ("a", "REJECTED: outer", 1),
            ("b", "REJECTED: inner", 2),
            ("c", "REJECTED: core", 3),
            ("d", "core", 3),
        ):
            metadata = Metadata(auth=BearerAuthentication(token))
            assert await ask(requester, "in.x", metadata) == answer
            names = ["outer", "inner", "core"][:last]
            assert seen == list(
                zip(names, [None, "outer", "inner"][:last], ["in.x"] * last, strict=True)
            )
            seen.clear()


async def test_the_nearest_guard_names_the_principal():
    """A guard without a principal does not pass on the outer guard's principal as its own."""

    async def no_principal(auth, facts):
        return None

    async def same(auth, facts):
        return facts.outer_principal if isinstance(facts, RequestFacts) else None

    router = make(authenticate=keeper("outer"))
    router.include(make("refused", authenticate=no_principal))
    router.include(make("passed", authenticate=same))
    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "passed") == "outer:ada"
        assert await ask(requester, "refused") == "None"


@pytest.mark.parametrize("error", [RejectedSetup("closed"), Rejected("closed")])
async def test_on_setup_is_included(error):
    """The connection that an included ``on_setup`` refuses reaches none of its handlers."""
    called = []

    async def on_setup(setup, requester):
        called.append((type(setup), type(requester)))
        if setup.data == b"stranger":
            raise error

    router = public("news")
    router.include(public("here"), "a.")
    router.include(_with(public("here"), on_setup), "b.")
    async with connected_pair(router, setup=Payload(b"stranger")) as requester:
        assert await ask(requester, "news") == "public"
        assert await ask(requester, "a.here") == "public"
        for route in ("b.here", "b.nothing"):
            assert await ask(requester, route, ADA) == "REJECTED: closed"
    async with connected_pair(router) as requester:
        assert await ask(requester, "b.here") == "public"
        assert "INVALID" in await ask(requester, "b.nothing")
    assert called == [(Setup, Requester)] * 2


def _with(inner, on_setup):
    router = Router(on_setup=on_setup)
    router.include(inner)
    return router


async def test_a_guard_that_fails_closes_its_own_handlers(caplog):
    """An error of an included guard affects only the handlers behind it."""

    async def broken(auth, facts):
        raise OSError("the database is away")

    router = public("news")
    router.include(make("users", authenticate=broken), "admin.")
    async with connected_pair(router) as requester:
        assert await ask(requester, "news") == "public"
        for route in ("admin.users", "admin.nothing"):
            assert await ask(requester, route, ADA) == "REJECTED: this connection was not admitted"
    assert caplog.text.count("OSError: the database is away") == 1
    with pytest.raises(RejectedSetup, match=r"^REJECTED_SETUP: this connection was not admitted$"):
        async with connected_pair(make(authenticate=broken)):
            raise AssertionError("connected")


async def test_unknown_routes_are_guarded():
    """They are guarded like routes with the same prefix, so strangers learn no routes."""
    router = public("open", "b.open")
    inner = make("x", authenticate=keeper("inner"))
    inner.include(make("x", authenticate=keeper("deep")), "deep.")
    router.include(inner, "a.")
    async with connected_pair(router) as requester:
        for route in ("open", "b.open"):
            assert await ask(requester, route) == "public"
        for route in ("nothing", "b.nothing", "a", ""):
            assert "INVALID" in await ask(requester, route)
        for route in ("a.x", "a.y", "a.", "a.deep.x", "a.deep.y"):
            assert await ask(requester, route) == "REJECTED: inner: who are you?"
    # Without a prefix it guards all of them.
    router.include(make("z", authenticate=keeper("other")))
    async with connected_pair(router) as requester:
        for route in ("z", "nothing", "b.nothing", "a"):
            assert await ask(requester, route) == "REJECTED: other: who are you?"
        for route in ("open", "b.open"):
            assert await ask(requester, route) == "public"


async def test_unknown_routes_of_nested_routers_are_guarded():
    """A prefix inside a prefix counts, also without a guard between; the innermost answers."""
    middle, router = public("open"), Router()
    middle.include(make("x", authenticate=keeper("core")), "c.")
    router.include(middle, "m.")
    router.include(make("x", authenticate=keeper("near")), "m.c.d.")
    async with connected_pair(router) as requester:
        assert "INVALID" in await ask(requester, "c.y")
        assert await ask(requester, "m.open") == "public"
        assert "INVALID" in await ask(requester, "m.y")
        assert await ask(requester, "m.c.y") == "REJECTED: core: who are you?"
        for route in ("m.c.d.x", "m.c.d.y"):
            assert await ask(requester, route) == "REJECTED: near: who are you?"


async def test_an_unknown_route_in_two_routers():
    """It has to pass the guards of both, and each gets the result of its own outer guard."""
    seen = []

    def note(name):
        async def authenticate(auth, facts):
            if isinstance(facts, RequestFacts):
                seen.append((name, facts.outer_principal))
            return name

        return authenticate

    shared = make("s", authenticate=note("shared"))
    a, b = (make(authenticate=note(name)) for name in "ab")
    a.include(shared, "a.")
    b.include(shared, "b.")
    router = make(authenticate=note("served"))
    router.include(a)
    router.include(b)
    async with connected_pair(router) as requester:
        assert "INVALID" in await ask(requester, "b.t")
        assert seen[0] == ("served", None)
        assert sorted(seen[1:]) == [("a", "served"), ("b", "served"), ("shared", "b")]
        seen.clear()
        assert await ask(requester, "b.s") == "shared"
        assert seen == [("served", None), ("b", "served"), ("shared", "b")]


async def test_an_included_fallback_is_guarded():
    """It is guarded for all its interactions; requests with a route do not reach it."""
    router = public("open")
    router.include(make(None, authenticate=keeper("inner")), "in.")
    async with connected_pair(router) as requester:
        assert await ask(requester) == "REJECTED: inner: who are you?"
        with pytest.raises(Rejected):
            async with requester.request_stream() as items:
                await items.receive()
        assert "INVALID" in await ask(requester, "nothing")
    routed = public("open")
    routed.include(make("x", authenticate=keeper("inner")))
    async with connected_pair(routed) as requester:
        assert "INVALID" in await ask(requester)


async def test_an_included_metadata_push_is_guarded(bind):
    """It has no route, and its guard is included."""
    heard = []
    inner = Router(authenticate=keeper("inner"))

    @inner.metadata_push()
    async def push(metadata: bytes, who: Who) -> None:
        heard.append(who)

    router = Router()
    router.include(inner, "in.")
    bound = await bind(router)
    with pytest.raises(Rejected):
        await bound.metadata_push(b"")
    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        await requester.metadata_push(b"")
        await trio.testing.wait_all_tasks_blocked()
        assert "INVALID" in await ask(requester)
    assert heard == ["inner:ada"]
    async with connected_pair(router) as requester:
        # metadata_push has no route, but it is not a fallback.
        assert "INVALID" in await ask(requester)


async def test_handlers_and_routers_included_later():
    """They serve, and are guarded, on the connections that come later; nested ones too."""
    inner = make("x", authenticate=keeper("inner"))
    router = public("open")
    router.include(inner, "in.")
    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "in.x") == "inner:ada"
        inner.include(make("late", authenticate=keeper("late")), "y.")
        router.include(make("x", authenticate=keeper("new")), "new.")
        for route in ("in.y.late", "new.x"):
            assert "INVALID" in await ask(requester, route, ADA)
    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "in.y.late", ADA) == "late:ada"
        assert await ask(requester, "new.x", ADA) == "new:ada"
    async with connected_pair(router) as requester:
        assert await ask(requester, "in.y.nothing") == "REJECTED: inner: who are you?"
        assert await ask(requester, "new.y") == "REJECTED: new: who are you?"


def test_routers_with_own_methods_cannot_be_included():
    """A class that decides in its own method is refused: the method would not be called."""

    class Strict(Router):
        async def accept(self, setup, requester):
            raise RejectedSetup("no")

    class Careful(Router):
        async def accept_resume(self, facts):
            raise RejectedResume("no")

    router = Router()
    with pytest.raises(TypeError, match=r"Strict.accept would not be called.*give.*on_setup="):
        router.include(Strict())
    with pytest.raises(TypeError, match=r"Careful.accept_resume would.*give.*on_resume="):
        router.include(Careful())


@pytest.mark.parametrize("kind", [Rejected, RejectedSetup, RejectedResume])
async def test_an_authenticator_may_raise_the_same_refusal_everywhere(kind):
    """It may also raise it in a nursery."""

    async def authenticate(auth, facts):
        if auth is not None:
            async with trio.open_nursery():
                raise kind("no")

    router = make("x", authenticate=authenticate)
    async with connected_pair(router) as requester:
        assert await ask(requester, "x", ADA) == "REJECTED: no"
    if kind is not RejectedResume:
        with pytest.raises(RejectedSetup, match="REJECTED_SETUP: no"):
            async with connected_pair(router, setup=setup_of(ADA)):
                raise AssertionError("connected")


async def test_the_setup_has_the_principal():
    """``on_setup`` and handlers find it there."""
    seen = []

    async def on_setup(setup, requester):
        seen.append(setup.principal)

    router = Router(authenticate=keeper("door"), on_setup=on_setup)

    @router.request_response("x")
    async def handler(setup: Setup) -> bytes:
        return setup.principal.encode()

    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "x") == "door:ada"
    assert seen == ["door:ada"]
    assert "pass" not in repr(Setup(
        metadata=b"password", data_mime_type="", metadata_mime_type="",
        keepalive_interval=1.0, max_lifetime=1.0, transport=None,
    ))  # fmt: skip


async def test_a_clients_setup_does_not_authenticate_its_server():
    """The client's authenticator is called for the server's requests."""
    asked = []

    async def authenticate(auth, facts):
        asked.append((auth, facts.principal))
        if auth is None:
            raise Rejected("who are you?")
        return auth.token

    mine = make("secret", authenticate=authenticate)
    router = Router()

    @router.request_response("ask")
    async def ask_back(data: bytes, peer: Requester) -> bytes:
        return (await ask(peer, "secret", ADA if data else None)).encode()

    async with connected_pair(router, client_responder=mine, setup=setup_of(ADA)) as requester:
        answer = await requester.request_response(route="ask")
        assert answer.data == b"REJECTED: who are you?"
        answer = await requester.request_response(Payload(b"x"), route="ask")
        assert answer.data == b"ada"
    assert asked == [(None, None), (ADA.auth, None)]


async def test_an_authenticator_runs_in_the_task_of_the_handler():
    """Its waits, and its context variables, are those of the handler."""
    tasks = []

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts):
            await trio.lowlevel.checkpoint()
            tasks.append(trio.lowlevel.current_task())

    router = Router(authenticate=authenticate)

    @router.request_response("x")
    async def handler() -> None:
        tasks.append(trio.lowlevel.current_task())

    @router.request_stream("x")
    async def stream() -> AsyncIterator[bytes]:
        tasks.append(trio.lowlevel.current_task())
        yield b""

    async with connected_pair(router) as requester:
        await requester.request_response(route="x")
        async with requester.request_stream(route="x") as items:
            await items.receive()
    assert tasks[0] is tasks[1]
    assert tasks[2] is tasks[3]


async def test_cancel_reaches_a_waiting_authenticator():
    """CANCEL reaches a request that is still at its guard."""
    entered, left = trio.Event(), trio.Event()

    async def authenticate(auth, facts):
        if isinstance(facts, RequestFacts):
            entered.set()
            try:
                await trio.sleep_forever()
            finally:
                left.set()

    router = make("x", authenticate=authenticate)
    async with connected_pair(router) as requester:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, requester, "x")
            await entered.wait()
            nursery.cancel_scope.cancel()
        await left.wait()


async def test_routers_without_a_guard_make_no_checks(bind):
    """This is so also if a guarded router was included elsewhere."""

    async def on_setup(setup, requester): ...

    guarded = make("x", authenticate=keeper("inner"))
    mixed = public("open")
    mixed.include(guarded, "in.")
    plain = Router(on_setup=on_setup)
    plain.include(public("open"))
    for router in (mixed, plain):
        bound = await bind(router)
        payload = Payload(b"", Metadata(route="open").encode())
        assert (await bound.request_response(payload)).data == b"public"
        request = bound._finder._requests[Interaction.REQUEST_RESPONSE][payload.metadata]
        assert request.plain is request.handler
        assert request.visits == ()


async def test_a_binding_serves_one_connection(bind, caplog):
    """The bound router of a connection, and its principal, serve no other."""
    bound = None

    async def accept(setup, requester):
        nonlocal bound
        if bound is None:
            bound = await make("x", authenticate=keeper("door")).accept(setup, requester)
        return bound

    async with connected_pair(accept, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "x") == "door:ada"
    with pytest.raises(RejectedSetup, match="the acceptor failed"):
        async with connected_pair(accept):
            raise AssertionError("connected")
    assert "returns a responder for one connection" in caplog.text


async def test_an_acceptor_may_change_the_facts():
    """An acceptor may give a router other facts about the connection."""
    router = make("x", authenticate=keeper("door"))

    async def accept(setup, requester):
        return await router.accept(attrs.evolve(setup, metadata=ADA.encode()), requester)

    async with connected_pair(accept) as requester:
        assert await ask(requester, "x") == "door:ada"


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a group"])
@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("kind", [Rejected, RejectedSetup, ValueError])
async def test_a_refused_request_is_freed(bind, kind, included, alone, caplog):
    """No traceback of the refusal keeps the request, also without the garbage collector."""
    seen = []

    async def authenticate(auth, facts):
        if auth is not None:
            seen.append(weakref.ref(auth))
            raise kind("no") if alone else ExceptionGroup("", [kind("no")])

    caplog.set_level(logging.CRITICAL, "rsocket_trio")  # records that are kept keep tracebacks
    router = make("a", authenticate=authenticate)
    if included:
        outer = Router()
        outer.include(router)
        router = outer
    bound = await bind(router)
    gc.collect()
    gc.disable()
    try:
        metadata = Metadata(route="a", auth=BearerAuthentication("ada")).encode()
        with pytest.raises((kind, Rejected, ApplicationError, ExceptionGroup)):
            await bound.request_response(Payload(b"", metadata))
        assert [ref() for ref in seen] == [None]
    finally:
        gc.enable()
