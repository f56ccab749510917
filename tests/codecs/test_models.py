"""Classes that convert themselves: models of pydantic, structs of msgspec, what users register."""

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

import attrs
import msgspec
import pytest

from rsocket_trio import Caller, Router
from rsocket_trio.codecs import CborCodec, CodecError, Codecs, JsonCodec, TextCodec
from rsocket_trio.codecs.registry import explain
from rsocket_trio.errors import Invalid
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.testing.in_memory import connected_pair

MIME_TYPES = [MIME.CBOR, MIME.JSON, MIME.TEXT]
T = TypeVar("T")


def refusal(annotation, data, mime_type, codecs):
    with pytest.raises(CodecError) as caught:
        codecs.decode(codecs.encode(data, Any, mime_type), annotation, mime_type)
    return explain(caught.value, "value")


# -- what users register


class Money:
    """A class with a constructor that no codec knows."""

    def __init__(self, text):
        amount, self.currency = text.split()
        self.amount = Decimal(amount)

    def __eq__(self, other):
        return vars(self) == vars(other) and type(self) is type(other)

    __hash__ = None


class Price(Money):
    pass


@attrs.define
class Offer:
    price: Price
    others: list[Money] = attrs.field(factory=list)
    old: Money | None = None


@dataclass
class Celsius:
    """Plain for every codec, but registered."""

    degrees: float


REGISTERED = Codecs(
    types={
        Money: (lambda cls, plain: cls(plain), lambda money: f"{money.amount} {money.currency}"),
        Celsius: (lambda cls, plain: cls(plain - 273), lambda value: value.degrees + 273),
        UUID: (lambda _, plain: UUID(int=plain), lambda value: value.int),
    }
)


@pytest.mark.parametrize("mime_type", MIME_TYPES)
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Money, Money("1.20 EUR")),
        (Price, Price("1.20 EUR")),
        (list[Money], [Money("1 EUR"), Money("2 EUR")]),
        (dict[str, Money], {"a": Money("1 EUR")}),
        (Offer, Offer(Price("1 EUR"), [Money("2 EUR")], Money("3 EUR"))),
        (Money | None, None),
        (list[Celsius], [Celsius(20)]),
        (UUID, UUID(int=7)),
    ],
)
def test_registered_classes(annotation, value, mime_type):
    """They convert themselves wherever they are, also where a codec would know the class."""
    REGISTERED.check_decode(annotation, mime_type)
    REGISTERED.check_encode(annotation)
    data = REGISTERED.encode(value, annotation, mime_type)
    assert REGISTERED.decode(data, annotation, mime_type) == value
    assert REGISTERED.encode(value, Any, mime_type) == data


def test_what_registered_classes_are_written_as():
    """The plain value of the function, in the format."""
    assert REGISTERED.encode(Offer(Price("1 EUR")), Offer, MIME.JSON) == (
        b'{"price":"1 EUR","others":[],"old":null}'
    )
    assert REGISTERED.encode(Celsius(0), Celsius, MIME.JSON) == b"273"


def test_what_registered_classes_refuse():
    """The place and the type of the exception are told, never its text."""
    told = refusal(Offer, {"price": "secret"}, MIME.JSON, REGISTERED)
    assert told == "value.price: expected Price, got a value that it refuses (ValueError)"
    with pytest.raises(CodecError, match=r"others\[0\]: expected Money, got str"):
        REGISTERED.encode(Offer(Price("1 EUR"), ["x"]), Offer, MIME.JSON)


def test_a_registered_class_refuses_in_its_own_words():
    """What it raises for the peer goes to the peer."""

    def refuse(_, __):
        raise Invalid("no money today")

    codecs = Codecs(types={Money: (refuse, str)})
    with pytest.raises(Invalid, match="no money today"):
        codecs.decode(b'"1 EUR"', Money, MIME.JSON)


@pytest.mark.parametrize("annotation", [Money | str, Money | Celsius, Celsius | Offer])
def test_unions_of_registered_classes(annotation):
    """Nobody knows what they are read from."""
    with pytest.raises(TypeError, match="cannot be told apart"):
        REGISTERED.check_decode(annotation)


@pytest.mark.parametrize("key", [Money, Celsius])
def test_registered_classes_as_keys(key):
    """They are refused when the handler is registered."""
    with pytest.raises(TypeError, match="key"):
        REGISTERED.check_decode(dict[key, int], MIME.JSON)
    with pytest.raises(TypeError, match="key"):
        REGISTERED.check_encode(dict[key, int])


@pytest.mark.parametrize("make", [Codecs, CborCodec, JsonCodec, TextCodec])
@pytest.mark.parametrize(
    "types",
    [[Money], {"Money": (str, str)}, {int: (str, str)}, {Money: str}, {Money: (str, "x")}],
)
def test_wrong_types(types, make):
    """They are an error where they are written."""
    with pytest.raises(TypeError, match="types"):
        make(types=types)


# -- structs of msgspec


class Line(msgspec.Struct, rename="camel"):
    sku: str
    in_stock: int = 1


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square", forbid_unknown_fields=True):
    side: float
    line: Line | None = None


class Page(msgspec.Struct, Generic[T]):
    items: list[T]
    next: "Page[T] | None" = None


class Checked(msgspec.Struct):
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError(f"{self.number} is secret")
        if self.number > 100:
            raise Invalid("number is above 100")


class Patch(msgspec.Struct):
    name: str | msgspec.UnsetType | None = msgspec.UNSET
    kept: int = 1


@dataclass
class Drawing:
    shapes: list[Circle | Square]
    checked: Checked | None = None


@pytest.mark.parametrize("mime_type", MIME_TYPES)
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Line, Line("a", 2)),
        (list[Line], [Line("a")]),
        (Circle | Square, Circle(1.5)),
        (Drawing, Drawing([Circle(1.5), Square(2.0, Line("a"))], Checked(1))),
        (Page[int], Page([1], Page([2]))),
        (Patch, Patch()),
        (Patch, Patch(None)),
        (Patch, Patch("a", 2)),
    ],
)
def test_structs(annotation, value, mime_type):
    """They come back as they were."""
    codecs = Codecs()
    codecs.check_decode(annotation, mime_type)
    codecs.check_encode(annotation)
    data = codecs.encode(value, annotation, mime_type)
    assert codecs.decode(data, annotation, mime_type) == value


@pytest.mark.parametrize("value", [Line("a", 2), Circle(1.5), Square(1.0), Page([1]), Patch(None)])
def test_structs_are_written_as_msgspec_writes_them(value):
    """A peer with msgspec alone reads them."""
    assert Codecs().encode(value, type(value), MIME.JSON) == msgspec.json.encode(value)


@pytest.mark.parametrize("mime_type", MIME_TYPES)
def test_what_structs_refuse(mime_type):
    """Places are those of the data; a peer's keys and values are not shown."""
    codecs = Codecs()
    assert refusal(Line, {"sku": "a", "inStock": "secret"}, mime_type, codecs) == (
        "value.inStock: expected int, got str"
    )
    assert "secret" not in refusal(Square, {"side": 1.5, "secret": 1}, mime_type, codecs)
    assert refusal(Circle, {"type": "secret", "radius": 1}, mime_type, codecs) == (
        "value.type: expected Literal['circle'], got another str"
    )
    assert refusal(Drawing, {"shapes": [], "checked": {"number": -1}}, mime_type, codecs) == (
        "value.checked: expected Checked, got a value that it refuses (ValueError)"
    )
    with pytest.raises(Invalid, match="above 100"):
        codecs.decode(codecs.encode({"number": 101}, Any, mime_type), Checked, mime_type)


@pytest.mark.parametrize("mime_type", MIME_TYPES)
def test_structs_are_checked_when_they_are_written(mime_type):
    """msgspec does not; and a subclass has fields that the peer must not see."""

    class Secretive(Line):
        secret: str = "hidden"

    with pytest.raises(CodecError, match="inStock: expected int, got str"):
        Codecs().encode(Line("a", "b"), Line, mime_type)
    assert b"hidden" not in Codecs().encode(Secretive("a"), Line, mime_type)


def test_a_struct_that_is_a_list():
    """It is refused, with the reason."""

    class Listed(msgspec.Struct, array_like=True):
        number: int

    with pytest.raises(TypeError, match="array_like"):
        Codecs().check_decode(Listed)


# -- models of pydantic


@pytest.fixture
def models():
    pydantic = pytest.importorskip("pydantic", reason="pip install pydantic")

    class Item(pydantic.BaseModel):
        sku: str
        quantity: int = pydantic.Field(default=1, ge=1)
        since: date = date(2024, 5, 6)

    class Order(pydantic.BaseModel):
        identifier: UUID = pydantic.Field(alias="id")
        items: list[Item]
        tags: dict[str, int] = pydantic.Field(default_factory=dict)
        at: datetime = datetime(2024, 5, 6, tzinfo=UTC)
        total: Decimal = Decimal("1.20")

        @pydantic.field_validator("tags")
        @classmethod
        def few(cls, tags):
            if len(tags) > 2:
                raise Invalid("at most two tags")
            if len(tags) > 1:
                raise ValueError(f"{tags} are secret")
            return tags

    class Number(pydantic.RootModel[int]):
        pass

    class Secretive(Item):
        secret: str = "hidden"

    @attrs.define
    class Basket:
        order: Order
        more: list[Order] = attrs.field(factory=list)
        number: Number | None = None

    return type("Models", (), locals())


@pytest.mark.parametrize("mime_type", MIME_TYPES)
def test_models(models, mime_type):
    """As arguments, results, items and fields."""
    codecs = Codecs()
    order = models.Order(id=UUID(int=5), items=[models.Item(sku="a", quantity=2)], tags={"a": 1})
    basket = models.Basket(order, [order], models.Number(7))
    for annotation, value in [
        (models.Order, order),
        (list[models.Order], [order]),
        (models.Order | None, order),
        (dict[str, models.Order], {"a": order}),
        (models.Basket, basket),
    ]:
        codecs.check_decode(annotation, mime_type)
        codecs.check_encode(annotation)
        data = codecs.encode(value, annotation, mime_type)
        assert codecs.decode(data, annotation, mime_type) == value
        assert codecs.encode(value, Any, mime_type) == data


@pytest.mark.parametrize("mime_type", MIME_TYPES)
def test_what_models_refuse(models, mime_type):
    """All mistakes, with places and types; neither values nor the peer's keys."""
    codecs = Codecs()
    order = {"id": "secret", "items": [{"quantity": 0}], "tags": {"secret": "secret"}}
    assert refusal(models.Basket, {"order": order}, mime_type, codecs) == (
        "value.order.id: refused by Order (uuid_parsing); "
        "value.order.items[0].sku: refused by Order (missing); "
        "value.order.items[0].quantity: refused by Order (greater_than_equal); "
        "value.order.tags[...]: refused by Order (int_parsing)"
    )
    order = {"id": str(UUID(int=1)), "items": [], "tags": {"secret": 1, "b": 2}}
    assert refusal(models.Order, order, mime_type, codecs) == (
        "value.tags: refused by Order (value_error)"
    )
    order["tags"]["c"] = 3
    with pytest.raises(Invalid, match="at most two tags"):
        codecs.decode(codecs.encode(order, Any, mime_type), models.Order, mime_type)


def test_not_all_mistakes_of_a_model(models):
    """Their number is that of all other classes."""
    items = [{"quantity": 0}] * 1000
    told = refusal(models.Order, {"items": items}, MIME.JSON, Codecs())
    assert told.count("refused by") == 16


def test_models_are_written_as_they_are_annotated(models):
    """A subclass has fields that the peer must not see; wrong values are refused quietly."""
    item = models.Secretive(sku="a")
    assert b"hidden" not in Codecs().encode(item, models.Item, MIME.JSON)
    assert b"hidden" in Codecs().encode(item, models.Secretive, MIME.JSON)
    item.quantity = "secret"
    with pytest.raises(CodecError) as caught:
        Codecs().encode(item, models.Item, MIME.JSON)
    assert "secret" not in str(caught.value)
    with pytest.raises(CodecError, match="expected Item, got dict"):
        Codecs().encode({}, models.Item, MIME.JSON)


def test_models_in_unions(models):
    """pydantic has unions of its own."""

    @attrs.define
    class Tagged:
        kind: Literal["tagged"]

    for annotation in (models.Item | models.Order, models.Item | Tagged):
        with pytest.raises(TypeError, match="cannot be told apart"):
            Codecs().check_decode(annotation)
    assert Codecs().decode(b'"a"', models.Item | str, MIME.JSON) == "a"


def test_pydantic_is_not_imported():
    """A program without it pays nothing for it."""
    code = (
        "import sys, rsocket_trio.codecs as codecs; "
        "codecs.Codecs().encode([1], list[int], 'application/json'); "
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- through a router


async def test_a_router_with_types():
    """The router and the caller take the same registry."""
    router = Router(codecs=REGISTERED)

    @router.request_response("double")
    async def double(offer: Offer) -> list[Money]:
        return [offer.price, offer.price]

    async with connected_pair(router) as requester:
        caller = Caller(requester, codecs=REGISTERED)
        answer = await caller.request_response("double", Offer(Price("1 EUR")), returns=list[Money])
        assert answer == [Money("1 EUR"), Money("1 EUR")]
