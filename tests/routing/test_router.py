from collections.abc import AsyncIterator

import pytest
from trio.abc import ReceiveChannel

from rsocket_trio.errors import Invalid, RejectedSetup
from rsocket_trio.metadata.routing import route_metadata
from rsocket_trio.payload import Payload
from rsocket_trio.routing import Interaction, RouteDescription, Router


async def one(data: int) -> int:
    return data + 1


async def many(data: int) -> AsyncIterator[int]:
    yield data


async def channel(items: ReceiveChannel[int]) -> AsyncIterator[int]:
    async for item in items:
        yield item


async def nothing(data: bytes) -> None: ...


def test_routes_of_a_router_are_its_handlers():
    """By interaction, with the route or None, and the function's name."""
    router = Router()
    assert router.describe() == ()
    assert router.request_response("one")(one) is one
    router.request_stream("many")(many)
    router.request_channel()(channel)
    router.fire_and_forget("drop")(nothing)
    router.metadata_push()(nothing)
    assert [
        (r.interaction.value, r.route, r.handler.rpartition(".")[2]) for r in router.describe()
    ] == [
        ("request_response", "one", "one"),
        ("fire_and_forget", "drop", "nothing"),
        ("request_stream", "many", "many"),
        ("request_channel", None, "channel"),
        ("metadata_push", None, "nothing"),
    ]
    assert isinstance(router.describe()[0], RouteDescription)
    assert router.describe()[0].interaction is Interaction.REQUEST_RESPONSE


@pytest.mark.parametrize(
    ("route", "which"), [("a", "route 'a'"), (None, "requests without a route")]
)
def test_a_route_has_one_handler(route, which):
    """The second handler of a route is an error that names the first."""
    router = Router()
    router.request_response(route)(one)
    with pytest.raises(
        ValueError, match=f"{which} ha.* a request_response handler already: .*one$"
    ):
        router.request_response(route)(one)
    router.fire_and_forget(route)(nothing)


def test_a_decorator_that_is_used_late_checks_again():
    """Two decorators of one route cannot both register."""
    router = Router()
    first, second = router.request_response("a"), router.request_response("a")
    first(one)
    with pytest.raises(ValueError, match="already"):
        second(one)


def test_the_brackets_are_not_optional():
    """A decorator without brackets would take the function for the route."""
    with pytest.raises(TypeError, match=r"write @router.request_stream\(\)"):
        Router().request_stream(many)


def test_a_route_must_fit_its_tag():
    """A route of more than 255 bytes could never be requested."""
    Router().request_response("x" * 255)
    with pytest.raises(ValueError, match="255 bytes"):
        Router().request_response("x" * 256)


def test_a_function_that_cannot_be_a_handler_is_not_registered():
    """The error comes at decoration and leaves the router as it was."""
    router = Router()
    with pytest.raises(TypeError):
        router.request_response("many")(many)
    assert router.describe() == ()


async def test_routers_are_included_with_a_prefix(bind):
    """Handlers of another router are served under its prefix; that router does not change."""
    inner, outer = Router(), Router()
    inner.request_response("one")(one)
    inner.fire_and_forget()(nothing)
    outer.include(inner, prefix="v1.")
    assert [r.route for r in outer.describe()] == ["v1.one", None]
    assert [r.route for r in inner.describe()] == ["one", None]
    bound = await bind(outer)
    answer = await bound.request_response(Payload(b"1", route_metadata("v1.one")))
    assert answer == Payload(b"2")


def test_including_is_all_or_nothing():
    """One route that is in use keeps all out."""
    inner, outer = Router(), Router()
    inner.request_response("free")(one)
    inner.request_response("taken")(one)
    outer.request_response("a.taken")(one)
    with pytest.raises(ValueError, match=r"route 'a\.taken' has a request_response"):
        outer.include(inner, "a.")
    with pytest.raises(ValueError, match="255 bytes"):
        outer.include(inner, "x" * 255)
    assert [r.route for r in outer.describe()] == ["a.taken"]


async def test_on_setup_is_called_for_each_connection(bind):
    """It gets the setup and the requester, and may refuse."""
    seen = []

    async def on_setup(setup, requester):
        seen.append((setup.data_mime_type, requester))
        if requester == "stranger":
            raise RejectedSetup("who are you?")

    router = Router(on_setup=on_setup)
    await bind(router, requester="friend")
    with pytest.raises(RejectedSetup, match="who are you"):
        await bind(router, requester="stranger")
    assert seen == [("application/json", "friend"), ("application/json", "stranger")]


async def test_later_handlers_serve_later_connections(bind):
    """The handlers of a connection do not change while it is open."""
    router = Router()
    before = await bind(router)
    router.request_response("one")(one)
    after = await bind(router)
    request = Payload(b"1", route_metadata("one"))
    with pytest.raises(Invalid, match="no request_response handler"):
        await before.request_response(request)
    assert await after.request_response(request) == Payload(b"2")
