"""Requests without a handler, without a route or without an answer have guards too."""

import pytest
import trio
import trio.testing

from rsocket_trio import Rejected, RequestFacts, Router
from rsocket_trio.testing.in_memory import connected_pair
from tests.routing.guarded import ADA, Who, ask, keeper, make, public, setup_of


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
