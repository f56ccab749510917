"""Guards go with the handlers they guard, and say no to nobody else."""

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
    """A router whose handlers answer with who is asking."""
    router = Router(**settings)
    for route in routes:

        @router.request_response(route)
        async def handler(who: Who) -> bytes:
            return str(who).encode()

    return router


def keeper(name):
    """An authenticator that lets in who has a token, and names it after itself."""

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


async def test_a_stranger_in_a_public_house():
    """The guard of an included router refuses its own handlers, and not the connection."""
    router = public("news")
    router.include(make("users", authenticate=keeper("admin")), "admin.")
    async with connected_pair(router) as requester:
        assert await ask(requester, "news") == "public"
        assert await ask(requester, "admin.users") == "REJECTED: admin: who are you?"
        assert await ask(requester, "admin.nothing") == "REJECTED: admin: who are you?"
        missing = "INVALID: no request_response handler for route 'nothing'"
        assert await ask(requester, "nothing") == missing
        # It has refused the SETUP; as a router that is served it would have nobody here now.
        assert await ask(requester, "admin.users", ADA) == "REJECTED: admin: who are you?"
        with pytest.raises(Rejected):
            async with requester.request_stream(route="admin.users") as items:
                await items.receive()


async def test_who_authenticates_with_setup():
    """Each guard reads the SETUP for itself, and its handlers get what it says."""
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


async def test_all_guards_hold():
    """Each guard on the way may refuse, the outermost first; each learns what the last one said."""
    seen = []

    def level(name, refuses):
        async def authenticate(auth, facts):
            if isinstance(facts, Setup):
                return None
            seen.append((name, facts.outer, facts.route.name))
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
    """A guard that knows nobody does not pass off the outer guard's principal as its own."""

    async def nobody(auth, facts):
        return None

    async def same(auth, facts):
        return facts.outer if isinstance(facts, RequestFacts) else None

    router = make(authenticate=keeper("outer"))
    router.include(make("refused", authenticate=nobody))
    router.include(make("passed", authenticate=same))
    async with connected_pair(router, setup=setup_of(ADA)) as requester:
        assert await ask(requester, "passed") == "outer:ada"
        assert await ask(requester, "refused") == "None"


@pytest.mark.parametrize("error", [RejectedSetup("closed"), Rejected("closed")])
async def test_on_setup_comes_along(error):
    """So does ``on_setup``: the connection it refuses reaches none of its handlers."""
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


async def test_a_guard_that_fails(caplog):
    """A fault of an included guard closes what it guards, and nothing else."""

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


async def test_routes_that_are_nowhere():
    """They are guarded like those they look like, so nobody finds out what there is."""
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
    router.include(make("z", authenticate=keeper("other")))  # without a prefix: all of them
    async with connected_pair(router) as requester:
        for route in ("z", "nothing", "b.nothing", "a"):
            assert await ask(requester, route) == "REJECTED: other: who are you?"
        for route in ("open", "b.open"):
            assert await ask(requester, route) == "public"


async def test_routes_that_are_nowhere_further_in():
    """A prefix of a prefix counts, also where there is no guard between; the closest answers."""
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


async def test_a_route_in_two_enclosures():
    """What is nowhere has to pass all that enclose it, each told of its own outer guard alone."""
    seen = []

    def note(name):
        async def authenticate(auth, facts):
            if isinstance(facts, RequestFacts):
                seen.append((name, facts.outer))
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


async def test_requests_without_a_route():
    """An included fallback is guarded, and so are its other interactions; routes are not."""
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


async def test_an_included_metadata_push(bind):
    """It has no route, and its guard comes along."""
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
        # metadata_push has no route, which does not make a fallback of it.
        assert "INVALID" in await ask(requester)


async def test_what_is_included_later():
    """It serves, and is guarded for, the connections that come later; also what is within."""
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


def test_methods_that_would_be_left_out():
    """A class that decides in a method of its own is not included: nobody would ask it."""

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
async def test_refusals_of_any_kind(kind):
    """An authenticator may raise the same everywhere, out of a nursery too."""

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


async def test_what_is_known_of_a_connection():
    """``on_setup`` and handlers find the principal in the `Setup`."""
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


async def test_a_client_is_not_its_server():
    """A client's own SETUP does not let the server in: its requests are asked about."""
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


async def test_in_the_task_of_the_handler():
    """What an authenticator waits for, and what it sets in its context, is the handler's."""
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


async def test_cancelled_while_it_asks():
    """CANCEL reaches a request that is still before its guard."""
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


async def test_without_a_guard_nothing_is_asked(bind):
    """Routers without an authenticator pay for none, also where one was included."""

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


async def test_bound_to_one_connection(bind, caplog):
    """What a router has made for one connection, and its principal, serve no other."""
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


async def test_bound_with_other_facts():
    """An acceptor may tell a router something else than it was told, of this connection."""
    router = make("x", authenticate=keeper("door"))

    async def accept(setup, requester):
        return await router.accept(attrs.evolve(setup, metadata=ADA.encode()), requester)

    async with connected_pair(accept) as requester:
        assert await ask(requester, "x") == "door:ada"


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a group"])
@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("kind", [Rejected, RejectedSetup, ValueError])
async def test_a_request_that_was_refused_is_gone(bind, kind, included, alone, caplog):
    """No traceback of the refusal keeps what a stranger has sent, also without the collector."""
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
