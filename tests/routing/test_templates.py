"""Routes with variables: which template a route matches, and what is refused at registration."""

import re
from enum import Enum
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Annotated
from uuid import UUID

import attrs
import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import (
    BearerAuthentication,
    Caller,
    ConnectionConfig,
    Limits,
    Payload,
    Rejected,
    Router,
    Setup,
)
from rsocket_trio.errors import Invalid
from rsocket_trio.metadata.builder import Metadata
from rsocket_trio.routing import Principal, RequestFacts, Route
from rsocket_trio.routing.templates import Routes, Template
from rsocket_trio.testing.in_memory import connected_pair
from tests.routing.requests import collect, request

TEXTS = st.sampled_from(["", "a", "b", "{}", "ab"])
SEPARATORS = st.sampled_from([".", "/"])


def joined(parts):
    return "".join(part for pair in parts for part in pair)[1:]


ROUTES = st.lists(st.tuples(SEPARATORS, TEXTS), min_size=1, max_size=5).map(joined)
SHAPES = st.tuples(
    st.lists(st.tuples(SEPARATORS, st.sampled_from(["", "a", "b", "{*}"])), max_size=4),
    st.tuples(SEPARATORS, st.sampled_from(["", "a", "b", "{*}", "{*...}"])),
).map(lambda shape: joined([*shape[0], shape[1]]))


def numbered(shape):
    """Return a template, with names for the variables of a shape."""
    names = iter("opqrstuvwxyz")
    return re.sub(r"\*", lambda _: next(names), shape)


def naive(templates, route):
    """Try every template as a regular expression; take the one of the best rank."""
    best = None
    for text in templates:
        parts = re.split(r"(\{\w+(?:\.\.\.)?\})", text)
        pattern = "".join(
            "(.+)" if part.endswith("...}") else "([^./]+)" if part[:1] == "{" else re.escape(part)
            for part in parts
        )
        match = re.fullmatch(pattern, route, re.DOTALL)
        if match is None:
            continue
        segments = re.split(r"[./]", re.sub(r"\{\w+\}", "\1", re.sub(r"\{\w+\.\.\.\}", "\2", text)))
        rank = [{"\1": 1, "\2": 2}.get(each, 0) for each in segments]
        if best is None or rank < best[0]:
            best = (rank, text, match.groups())
    return None if best is None else best[1:]


@given(st.lists(SHAPES, max_size=12), st.lists(ROUTES, min_size=1, max_size=8))
def test_the_tree_finds_what_a_naive_matcher_finds(shapes, routes):
    """The most specific template, by text before variable before rest, with all ways back."""
    templates = {}
    for shape in shapes:
        template = Template.parse(numbered(shape))
        templates.setdefault(template.key, template)
    tree = Routes(
        [
            (key, SimpleNamespace(signature=SimpleNamespace(variables=each.names, template=each)))
            for key, each in templates.items()
        ]
    )
    texts = [each.text for each in templates.values()]
    for route in routes:
        found = tree.find(route)
        got = None if found is None else (found[0].signature.template.text, found[1])
        assert got == naive(texts, route)


def test_a_search_looks_at_each_node_once():
    """A route that nearly matches everywhere costs the number of templates, not more."""

    class Counted(dict):
        looked = 0

        def get(self, *arguments):
            Counted.looked += 1
            return super().get(*arguments)

    shapes = [""]
    for _ in range(7):
        shapes = [f"{each}.{step}" for each in shapes for step in ("a", "{*}")]
    templates = [Template.parse(numbered(f"x{each}.end")) for each in shapes]
    tree = Routes(
        (each.key, SimpleNamespace(signature=SimpleNamespace(variables=("x",))))
        for each in templates
    )
    nodes = [tree._root]
    for node in nodes:
        nodes.extend(node.children.values())
        node.children = Counted(node.children)
    assert tree.find("x" + ".a" * 7 + ".nowhere") is None
    assert Counted.looked <= 3 * len(nodes)
    assert tree.find("." * 250) is None


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("a.{b}c", "whole segment"),
        ("user-{id}", "whole segment"),
        ("{a}{b}", "whole segment"),
        ("a.{b", "brace"),
        ("b}", "brace"),
        ("{{b}}", "brace"),
        ("{}", "no variable"),
        ("{a-b}", "no variable"),
        ("{class}", "no variable"),
        ("{a.b}", "no variable"),
        ("{a...}.b", "so it is the last"),
        ("{a}.{a}", "twice"),
        ("x" * 255 + ".{a}", "at most 255 bytes"),
    ],
)
def test_what_is_no_route(route, said):
    """Braces that are no variable would be a route that nobody asks for."""
    with pytest.raises(ValueError, match=said):
        Router().request_response(route)


@pytest.mark.parametrize("prefix", ["{a...}.", "{", "x{a}."])
def test_what_is_no_prefix(prefix):
    """So for a prefix, before there are handlers."""
    for refused in (lambda: Router(prefix=prefix), lambda: Router().include(Router(), prefix)):
        with pytest.raises(ValueError, match="cannot be a route"):
            refused()


def test_a_template_that_matches_the_same_routes_is_refused():
    """Names do not make two templates different; other interactions are no matter."""
    router = Router()

    @router.request_response("a.{x}")
    async def one(x: str) -> str:
        return x

    router.fire_and_forget("a.{y}")(lambda_of("y"))
    with pytest.raises(ValueError, match=r"route 'a.\{x\}' has a request_response handler already"):
        router.request_response("a.{y}")
    other = Router()
    other.request_response("{y}")(lambda_of("y"))
    with pytest.raises(ValueError, match="has a request_response handler already"):
        router.include(other, "a.")


def lambda_of(name, annotation=str):
    """Return a handler with one parameter of this name."""

    async def handler(_: annotation) -> None: ...

    handler.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD)])
    handler.__annotations__ = {name: annotation, "return": None}
    return handler


@attrs.frozen
class Order:
    a: int


@pytest.mark.parametrize(
    "annotation", [Order, list[int], dict, bytes, int | str, object, str | None]
)
def test_types_that_are_not_one_text(annotation):
    """A variable is one text: what is more would never be converted."""
    with pytest.raises(TypeError, match="cannot take a variable of the route"):
        Router().request_response("a.{x}")(lambda_of("x", annotation))


def test_variables_and_parameters_fit():
    """A variable that nobody takes is a mistake, and so is one that something else fills."""
    router = Router()
    with pytest.raises(TypeError, match=r"no parameter takes the variable \{x\}"):
        router.request_response("a.{x}")(lambda_of("y"))
    with pytest.raises(TypeError, match=r"'x' receives the setup, and the route has"):
        router.request_response("a.{x}")(lambda_of("x", Setup))
    inner = Router()
    inner.request_response("b")(lambda_of("x", Setup))
    with pytest.raises(TypeError, match="'x' receives the setup"):
        router.include(inner, "{x}.")
    assert router.describe() == ()


class Color(Enum):
    RED = "red"
    ONE = 1


async def test_variables_are_converted():
    """By the annotation; a text that does not fit is INVALID, without the text, and not unknown."""
    router = Router()
    rooms = Router(prefix="chat.{room}.")

    @rooms.request_response("say")
    async def say(room: str, text: str) -> str:
        return f"{room}: {text}"

    @router.request_response("n.{n}")
    async def number(n: int) -> int:
        return n

    @router.request_response("id.{id}")
    async def by_id(*, id: UUID, route: Route) -> str:  # noqa: A002 - as people write it
        return f"{id.int} {route.template} {dict(route.variables)}"

    @router.request_response("color.{color}")
    async def colored(color: Color) -> str:
        return color.name

    @router.request_response("{route...}")
    async def fallback(route: str) -> str:
        return f"nobody has {route}"

    router.include(rooms, "v1.")
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        for route, data, expected in [
            ("v1.chat.trio.say", "hi", "trio: hi"),
            ("n.-5", None, -5),
            (f"id.{UUID(int=7)}", None, f"7 id.{{id}} {{'id': '{UUID(int=7)}'}}"),
            ("color.red", None, "RED"),
            ("color.1", None, "ONE"),
            ("color.red.more", None, "nobody has color.red.more"),
            ("chat.{room}.say", "hi", "nobody has chat.{room}.say"),
            ("v1.chat..say", "hi", "nobody has v1.chat..say"),
        ]:
            assert await caller.request_response(route, data) == expected
        for route, expected in [
            ("n.secret", "route 'n.{n}' expects int for its variable 'n'"),
            ("n.[1]", "route 'n.{n}' expects int for its variable 'n'"),
            ("id.secret", "route 'id.{id}' expects UUID for its variable 'id'"),
            ("color.green", "route 'color.{color}' expects Color for its variable 'color'"),
        ]:
            with pytest.raises(Invalid) as caught:
                await caller.request_response(route)
            assert caught.value.message == expected


@pytest.mark.parametrize("explained", [False, True])
async def test_a_refused_variable_is_explained_in_the_log(explained, caplog):
    """With the bound, and without the text; the requester learns it where the router explains."""
    caplog.set_level("INFO")
    router = Router(explain=explained)

    @router.request_response("room.{room}")
    async def enter(room: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")]) -> None: ...

    @router.request_response("id.{id}")
    async def by_id(id: UUID) -> None: ...  # noqa: A002 - as people write it

    async with connected_pair(router) as requester:
        for route, reason in [
            ("room.SECRET", "room: expected str that matches '^[a-z]+$', got another str"),
            ("id.SECRET", "id: expected UUID, got another str"),
        ]:
            with pytest.raises(Invalid) as caught:
                await Caller(requester).request_response(route)
            assert caught.value.message.endswith(f": {reason}") is explained
            assert reason in caplog.text
    assert "SECRET" not in caplog.text


async def test_the_limit_of_a_variable():
    """No text of a peer that is longer than the limit gets to a handler."""
    router = Router()

    @router.request_response("a.{x...}")
    async def length(x: str) -> int:
        return len(x)

    config = ConnectionConfig(limits=Limits(max_route_variable_size=4))
    async with connected_pair(router, config=config) as requester:
        caller = Caller(requester)
        assert await caller.request_response("a.bcde") == 4
        for long in ("a.bcdef", "a.üüü"):
            with pytest.raises(Invalid, match="more than 4 bytes"):
                await caller.request_response(long)


async def test_every_interaction_has_variables(bind):
    """They are found alike for requests without an answer, for streams and for channels."""
    router = Router()
    seen = []

    @router.fire_and_forget("a/{n}")
    async def take(n: int) -> None:
        seen.append(n)

    @router.request_stream("a/{n}")
    async def count(n: int) -> trio.abc.ReceiveChannel[int]:
        send, receive = trio.open_memory_channel[int](n)
        async with send:
            for i in range(n):
                await send.send(i)
        return receive

    bound = await bind(router)
    await bound.fire_and_forget(request(b"", "a/7"))
    assert seen == [7]
    assert await collect(bound.request_stream(request(b"", "a/2"))) == [
        Payload(b"0"),
        Payload(b"1"),
    ]


async def test_a_template_does_not_show_what_a_guarded_router_has(bind):
    """A fallback of the outer router is no way around the guard of the routes under a prefix."""

    async def admit(auth, facts):
        if isinstance(facts, RequestFacts):
            asked.append(facts.route.name)
            if auth is None:
                raise Rejected("who are you?")
        return "inner"

    async def outer(auth, facts):
        return "outer"

    asked = []
    inner = Router(authenticate=admit)

    @inner.request_response("known")
    async def known() -> str:
        return "known"

    router = Router(authenticate=outer)

    @router.request_response("{rest...}")
    async def fallback(rest: str, user: Annotated[str, Principal]) -> str:
        return f"{user} {rest}"

    router.include(inner, "in.{zone}.")
    bound = await bind(router)
    assert (await bound.request_response(request(b"", "out"))).data == b'"outer out"'
    for route in ("in.a.known", "in.a.unknown", "in.a.known.more"):
        with pytest.raises(Rejected):
            await bound.request_response(request(b"", route))
    assert asked == ["in.a.known", "in.a.unknown", "in.a.known.more"]
    metadata = Metadata(route="in.a.unknown", auth=BearerAuthentication("t")).encode()
    assert (await bound.request_response(Payload(b"", metadata))).data == b'"outer in.a.unknown"'
