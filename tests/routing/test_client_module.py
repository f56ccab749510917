"""The module for clients that `Router.client_module` writes: it is imported, typed and used."""

import dataclasses
import enum
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterable, AsyncIterator
from decimal import Decimal
from importlib.metadata import distributions
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Protocol,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import attrs
import msgspec
import pytest

from rsocket_trio import (
    Caller,
    CustomError,
    Payload,
    Requester,
    Router,
    declaration,
    request_response,
)
from rsocket_trio.routing.declarations import declared_in
from rsocket_trio.testing.in_memory import connected_pair
from tests.programs import environment

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Point(TypedDict):
    x: int
    y: NotRequired["list[Point]"]


class Pair(NamedTuple):
    a: int
    b: Colour = Colour.RED


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]
    more: bool = False


@attrs.frozen
class Order:
    item: str
    colour: Colour = Colour.RED
    parts: "list[Order]" = attrs.field(factory=list)
    _size: Annotated[int, msgspec.Meta(ge=0)] = attrs.field(
        default=3, metadata={"rsocket_trio.name": "theSize"}
    )
    price: Decimal = Decimal(1)


class Tagged(msgspec.Struct, tag="tagged"):
    point: Point
    level: Level = Level.LOW


class Odd:
    """Has no fields, so a client has no class for it."""


def make_router() -> Router:
    inner, router = Router(), Router()

    @inner.request_response("buy.{shop}")
    async def buy(shop: UUID, order: Order = Order("tea"), *, peer: Requester) -> Page[Order]:
        r'''Buy """it""", \n at once.\

        "'''
        return Page([order, order], more=shop.int == 7)

    @inner.request_response("buy")
    async def buy_again(tagged: Tagged) -> dict[str, tuple[Pair, ...]]:
        return {"pairs": (Pair(tagged.point["x"]), Pair(tagged.level.value))}

    buy_again.__name__ = "buy"
    router.include(inner, "v1.")

    @router.request_stream("class")
    async def points(kind: Literal["a", 1] = "a") -> AsyncIterator[Point]:
        yield {"x": 1, "y": [{"x": 2}]}

    points.__name__ = "class"

    @router.request_channel("levels")
    async def levels(items: AsyncIterable[Level]) -> AsyncIterator[Level | None]:
        async for item in items:
            yield item

    @router.fire_and_forget("note")
    async def note(*, infinity: float = float("inf"), peer: Requester) -> None: ...

    @router.request_response("raw")
    async def raw(payload: Payload) -> Any: ...

    @router.request_response()
    async def without_route(number: int) -> int:
        return number

    return router


def imported(text: str, path) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


async def test_a_client_uses_it(tmp_path) -> None:
    """Every interaction, and every kind of class, there and back."""
    router = make_router()
    text = router.client_module("Shop")
    assert "# 'raw' is not here: it takes payloads, which go out by the Requester.\n" in text
    module = imported(text, tmp_path / "written_shop_client.py")
    order = module.Order(
        item="milk", price=Decimal(2), size=5, parts=[module.Order(item="x", price=Decimal(3))]
    )
    assert "without_route" not in text
    assert module.Shop.buy.__doc__.startswith('Buy """it""", \\n at once.\\\n')
    async with connected_pair(router) as requester:
        shop = Caller(requester).of(module.Shop)
        page = await shop.buy(UUID(int=7), order)
        assert (page.items, page.more) == ([order, order], True)
        assert (await shop.buy(UUID(int=1))).items[0].item == "tea"
        tagged = module.Tagged(point={"x": 5})
        assert await shop.buy_2(tagged) == {
            "pairs": (module.Pair(5, module.Colour.RED), module.Pair(1, module.Colour.RED))
        }
        async with shop._class() as points:
            assert [point async for point in points] == [{"x": 1, "y": [{"x": 2}]}]
        async with shop.levels([module.Level.LOW]) as levels:
            assert [level async for level in levels] == [module.Level.LOW]
        await shop.note()
        await shop.note(infinity=1.5)
        with pytest.raises(TypeError, match="too many positional"):
            await shop.note(1.5)


class SoldOut(CustomError):
    """There is none left."""

    default_code = 0x1001


@declaration(prefix="stall.", errors=[SoldOut])
class Stall:
    @request_response()
    async def order(self, item: str) -> None:
        raise SoldOut(item)


async def test_declared_errors_are_in_it(tmp_path) -> None:
    """A client gets them as classes of its module; and `Router.describe` has their codes."""
    router, stalls = make_router(), Router()
    stalls.add(Stall())
    router.include(stalls, "all.")
    module = imported(router.client_module("Shop"), tmp_path / "written_stall_client.py")
    async with connected_pair(router) as requester:
        with pytest.raises(module.SoldOut, match="tea"):
            await Caller(requester).of(module.Shop).order("tea")
    assert module.SoldOut.__doc__ == SoldOut.__doc__
    (described,) = [each for each in router.describe() if each.route == "all.stall.order"]
    assert described.errors == {"SoldOut": 0x1001}


async def test_what_only_the_declaration_says_is_in_it(tmp_path) -> None:
    """Docstrings, and that a request may be repeated: the object served says neither."""

    class Undocumented(CustomError):
        default_code = 0x1002

    @declaration(errors=[Undocumented])
    class Prices(Protocol):
        @request_response("price.{item}", idempotent=True)
        async def price(self, item: str) -> float:
            """Say what it costs."""
            ...

    class Served:
        async def price(self, item: str) -> float:
            return 2.5

    router, outer = Router(), Router()
    router.add(Served(), as_=Prices)
    outer.include(router, "v1.")
    (described,) = outer.describe()
    assert (described.doc, described.idempotent) == ("Say what it costs.", True)
    module = imported(outer.client_module("Prices"), tmp_path / "written_price_client.py")
    assert module.Prices.price.__doc__.strip() == "Say what it costs."
    assert module.Undocumented.__doc__ is None
    (again,) = declared_in(module.Prices).values()
    assert again.idempotent


def test_types_without_fields_are_any() -> None:
    """A class that converts itself by the server's codecs has no text for a client."""
    from rsocket_trio import Codecs

    router = Router(codecs=Codecs(types={Odd: (lambda cls, plain: cls(), lambda value: 1)}))

    @router.request_response("odd")
    async def odd(value: Odd) -> list[Odd]:
        return [value]

    text = router.client_module()
    assert "async def odd(self, value: typing.Any) -> list[typing.Any]: ..." in text
    assert "class Client(Protocol)" in text
    assert "It has no handlers with routes." in Router().client_module()


@pytest.mark.seconds(300)
@pytest.mark.programs
@pytest.mark.skipif(not any(distributions(name="mypy")), reason="mypy is not installed")
def test_it_is_typed(tmp_path) -> None:
    """mypy --strict has nothing to say about it."""
    path = tmp_path / "shop_client.py"
    router = make_router()
    router.add(Stall())
    path.write_text(router.client_module("Shop"))
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}/cache", str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("Success"), done.stdout
