"""Guards protect the handlers of their own router, also when it is included."""

import pytest

from rsocket_trio import (
    BearerAuthentication,
    Metadata,
    Payload,
    Rejected,
    RejectedResume,
    RejectedSetup,
    Requester,
    RequestFacts,
    Router,
    Setup,
)
from rsocket_trio.testing.in_memory import connected_pair
from tests.routing.guarded import ADA, ask, keeper, make, public, setup_of


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
        request = bound._find_response(payload.metadata)
        assert request.plain is request.handler
        assert request.steps == ()
