"""What a router says of itself: `Router.describe`, and over a connection `Router.introspection`."""

import enum
import json
from collections.abc import AsyncIterable, AsyncIterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict
from uuid import UUID

import attrs
import msgspec
import pytest

from rsocket_trio import (
    ArgumentDescription,
    Caller,
    Codecs,
    Delivery,
    Introspection,
    Invalid,
    Metadata,
    Payload,
    PayloadBody,
    Rejected,
    Requester,
    RouteDescription,
    Router,
    SimpleAuthentication,
    TypeDescription,
)
from rsocket_trio.codecs import DEFAULT_CODECS, CborCodec
from rsocket_trio.testing.in_memory import connected_pair


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Order:
    item: str
    colour: Colour = Colour.RED
    parts: "list[Order]" = attrs.field(factory=list)


class Point(TypedDict):
    x: int


async def block(call):
    yield


async def alice(auth, facts):
    return getattr(auth, "username", None)


INTEGER = TypeDescription("int", {"type": "integer"})
TEXT = TypeDescription("str", {"type": "string"})


def described_router(**options):
    router = Router(**options)

    @router.request_response("buy.{shop}", middleware=[block])
    async def buy(shop: str, order: Order, peer: Requester) -> int | None:
        """Buy it.

        At once.
        """

    @router.request_channel("sums")
    async def sums(numbers: AsyncIterable[int]) -> AsyncIterator[int]:
        yield 1

    @router.fire_and_forget("note")
    async def note(text: str = "") -> None: ...

    @router.request_response()
    async def raw(payload: Payload) -> Payload: ...

    @router.request_response("body")
    async def body(body: PayloadBody) -> bytes: ...

    @router.metadata_push()
    async def pushed(metadata: bytes) -> None: ...

    @router.events()
    async def events(batch: list[Point]) -> None: ...

    return router


def test_each_handler_is_described():
    """Arguments and results with their schemas, and who is asked and passed on the way."""
    inner = described_router(authenticate=alice)
    router = Router(middleware=[block])
    router.include(inner, "v1.", middleware=[block])
    found = {(each.interaction, each.route): each for each in router.describe()}
    buy = found["request_response", "v1.buy.{shop}"]
    assert buy.doc == "Buy it.\n\nAt once."
    assert buy.handler.endswith("described_router.<locals>.buy")
    assert [(each.name, each.source, each.required) for each in buy.arguments] == [
        ("shop", "variable", True),
        ("order", "data", True),
    ]
    assert buy.arguments[0].type == TEXT
    order = buy.arguments[1].type
    assert order.name == "Order"
    assert order.schema["$defs"]["Order"]["properties"]["item"] == {"type": "string"}
    assert buy.result == TypeDescription(
        "int | None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    )
    name = f"{__name__}.block"
    assert buy.middleware == (name, name, name)
    assert buy.guards == (f"{__name__}.alice",)
    sums = found["request_channel", "v1.sums"]
    assert sums.arguments == (ArgumentDescription("numbers", "channel", INTEGER, True),)
    assert sums.result == INTEGER
    note = found["fire_and_forget", "v1.note"]
    assert note.arguments == (ArgumentDescription("text", "data", TEXT, False),)
    assert note.result is None
    assert found["request_response", None].result == TypeDescription("Payload")
    assert found["request_response", None].arguments[0].type == TypeDescription("Payload")
    body = found["request_response", "v1.body"]
    assert (body.arguments[0].source, body.result) == ("body", TypeDescription("bytes"))
    assert found["metadata_push", None].arguments[0].type.name == "bytes"
    events = found[Delivery.EVENTS, None]
    assert events.arguments[0].source == "events"
    assert events.arguments[0].type.schema["$defs"]["Point"]["required"] == ["x"]


@attrs.frozen
class Converted:
    size: int = attrs.field(converter=int)


@pytest.mark.parametrize(
    ("annotation", "values", "others"),
    [
        (int, [1], ["1", 1.5]),
        (Annotated[int, msgspec.Meta(ge=3)], [3], [2]),
        (Order, [{"item": "tea"}, {"item": "x", "parts": [{"item": "y"}]}], [{}, {"item": 1}]),
        (Point, [{"x": 1}], [{}]),
        (list[Colour], [["red"]], [["blue"]]),
        (dict[str, float | None], [{"a": 1.5, "b": None}], [{"a": "x"}]),
        (UUID, ["00000000-0000-0000-0000-000000000001"], [1]),
    ],
)
def test_a_schema_says_what_is_read(annotation, values, others):
    """What the schema takes is read, and what it refuses is not."""
    schema = DEFAULT_CODECS.schema(annotation)
    for value, right in [(each, True) for each in values] + [(each, False) for each in others]:
        assert fits(value, schema, schema.get("$defs", {})) == right
        try:
            DEFAULT_CODECS.decode(json.dumps(value).encode(), annotation, "application/json")
        except Exception:
            assert not right, value
        else:
            assert right, value


def fits(value: Any, schema: Any, defs: Any) -> bool:
    """The part of JSON Schema that is needed here."""
    if "$ref" in schema:
        return fits(value, defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in schema:
        return any(fits(value, each, defs) for each in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    match schema["type"]:
        case "integer":
            return type(value) is int and value >= schema.get("minimum", value)
        case "object":
            fields = schema.get("properties", {})
            rest = schema.get("additionalProperties", {})
            return all(name in value for name in schema.get("required", ())) and all(
                fits(each, fields.get(name, rest), defs) for name, each in value.items()
            )
        case "array":
            return all(fits(each, schema["items"], defs) for each in value)
    types = {"string": str, "number": float | int, "null": type(None)}
    return isinstance(value, types[schema["type"]])


@pytest.mark.parametrize(
    ("codecs", "annotation"),
    [
        (DEFAULT_CODECS, Converted),
        (DEFAULT_CODECS, bytes),
        (DEFAULT_CODECS, Exception),
        (Codecs(rename="camel"), attrs.make_class("Long", {"long_name": attrs.field(type=int)})),
        (Codecs(enums="name"), Colour),
        (Codecs({"application/json": CborCodec()}), int),
    ],
)
def test_no_schema_where_it_would_not_be_true(codecs, annotation):
    """Converters, bytes, other names and other codecs: the name of the type has to do."""
    assert codecs.schema(annotation) is None


@pytest.mark.parametrize("annotation", [datetime, Decimal, None, Any])
def test_types_without_fields_have_a_schema(annotation):
    """Or at least none that is wrong."""
    assert isinstance(DEFAULT_CODECS.schema(annotation), dict)


async def test_a_router_tells_those_whom_it_knows():
    """Nothing is there unless it is included; strangers are refused; types survive the way."""
    router = described_router()
    with pytest.raises(TypeError, match="needs authenticate="):
        router.introspection(authenticate=None)
    asked = router.introspection(authenticate=alice)
    async with connected_pair(router) as requester:
        with pytest.raises(Invalid):
            async with Caller(requester).of(Introspection).describe() as routes:
                await routes.receive()
    router.include(asked, "introspection.")
    async with connected_pair(router) as requester:
        caller = Caller(requester)
        with pytest.raises(Rejected, match="authentication is needed"):
            async with caller.of(Introspection, prefix="introspection.").describe() as routes:
                await routes.receive()
        known = Metadata(auth=SimpleAuthentication("alice", "secret"))
        tells = caller.of(Introspection, prefix="introspection.", metadata=known)
        async with tells.describe() as routes:
            found = [each async for each in routes]
    assert tuple(found) == router.describe()
    assert "introspection.describe" in [each.route for each in found]
    assert all(isinstance(each, RouteDescription) for each in found)


async def test_a_router_tells_a_principal_what_is_for_it():
    """The function sees each route and who asks; guards of handlers are not asked for it."""
    router = described_router()
    asked = router.introspection(
        authenticate=alice, routes=lambda each, who: who is not None and each.route == "body"
    )
    router.include(asked, "introspection.")
    assert "sums" in [each.route for each in router.describe()]
    async with connected_pair(router) as requester:
        known = Metadata(auth=SimpleAuthentication("alice", "secret"))
        tells = Caller(requester).of(Introspection, prefix="introspection.", metadata=known)
        async with tells.describe() as routes:
            assert [each.route async for each in routes] == ["body"]
    with pytest.raises(TypeError, match="routes= takes a function"):
        router.introspection(authenticate=alice, routes=["greet"])
