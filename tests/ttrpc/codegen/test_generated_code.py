"""Generated code at work: clients call services, over memory and over a Unix socket."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio

from rsocket_trio import ttrpc


@pytest.fixture(scope="session")
def modules(generated: Path) -> Iterator[dict[str, ModuleType]]:
    """The generated modules, imported by their names."""
    sys.path.insert(0, str(generated))
    try:
        names = ["shop.v1.orders_ttrpc", "shop.v1.orders_pb2", "shop.v1.items_pb2"]
        names += ["odd_names_ttrpc", "odd_names_pb2", "v1.import.class_pb2"]
        yield {name.rpartition(".")[2]: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(generated))


@pytest.fixture
def shop(modules: dict[str, ModuleType]) -> Any:
    return modules["orders_ttrpc"]


@pytest.fixture
def orders(modules: dict[str, ModuleType]) -> ttrpc.ServiceBase:
    """A service that knows one order."""
    pb2, items, generated = (modules[n] for n in ("orders_pb2", "items_pb2", "orders_ttrpc"))

    class Orders(generated.OrdersBase):  # type: ignore[name-defined, misc]  # made at run time
        async def get_order(self, request: Any, call: ttrpc.Call) -> Any:
            if request.id != "7":
                raise ttrpc.NotFound(f"no order {request.id}")
            values = call.values("name")
            return pb2.Order(id=request.id, items=[items.Item(name=each) for each in values])

        async def list_items(self, request: Any, call: ttrpc.Call) -> AsyncIterator[Any]:
            for item in request.items:
                yield item

        async def sum(self, requests: Any, call: ttrpc.Call) -> Any:
            total = pb2.Total()
            async for item in requests:
                total.items += 1
                total.price.cents += item.price.cents
            return total

        async def price_items(self, requests: Any, call: ttrpc.Call) -> AsyncIterator[Any]:
            async for item in requests:
                yield item.price

    service: ttrpc.ServiceBase = Orders()
    return service


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: "unix:///run/shop.sock", r"not 'unix:///run/shop\.sock'"),
        (lambda: None, "not None"),
        (
            lambda: ttrpc.connect("unix:///run/shop.sock"),
            r"not connect\(\.\.\.\) without its block",
        ),
    ],
    ids=["an address", "nothing", "no block"],
)
def test_what_is_no_client(shop: Any, make: Callable[[], object], what: str) -> None:
    """The error comes at once, names the class, and says what to pass."""
    with pytest.raises(TypeError, match=what) as error:
        shop.OrdersClient(make())
    assert "async with ttrpc.connect('unix:///...') as client: OrdersClient(client)" in str(
        error.value
    )


async def test_all_kinds_of_calls(
    modules: dict[str, ModuleType], orders: ttrpc.ServiceBase, tmp_path: Path
) -> None:
    """Each method of a client reaches the method of the service, with messages of its types."""
    pb2, items, shop = (modules[n] for n in ("orders_pb2", "items_pb2", "orders_ttrpc"))
    uri = f"unix://{tmp_path}/socket"
    things = [items.Item(name=n, price=items.Item.Price(cents=c)) for n, c in (("a", 1), ("b", 2))]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(ttrpc.serve, orders, uri)
        async with ttrpc.connect(uri) as connection:
            client = shop.OrdersClient(connection)
            order = await client.get_order(pb2.Order(id="7"), metadata={"name": ["x", "y"]})
            assert order == pb2.Order(id="7", items=[items.Item(name="x"), items.Item(name="y")])
            with pytest.raises(ttrpc.NotFound, match="no order 8"):
                await client.get_order(pb2.Order(id="8"))
            async with client.list_items(pb2.Order(items=things)) as replies:
                assert [each async for each in replies] == things
            async with client.sum(metadata=[("k", "v")]) as call:
                for each in things:
                    await call.send(each)
                total = await call.reply()
            assert total == pb2.Total(items=2, price=items.Item.Price(cents=3))
            async with client.price_items() as call:
                for each in things:
                    await call.send(each)
                    assert await call.receive() == each.price
                await call.end()
                assert [each async for each in call] == []
        await server.aclose()
        nursery.cancel_scope.cancel()


async def test_methods_that_are_not_overridden(modules: dict[str, ModuleType]) -> None:
    """They answer UNIMPLEMENTED, whatever their kind is."""
    pb2, shop = modules["orders_pb2"], modules["orders_ttrpc"]
    here, there = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        services = [shop.OrdersBase(), shop.HealthBase()]
        nursery.start_soon(ttrpc.serve_stream, services, there)
        async with ttrpc.connect(here) as connection:
            client = shop.OrdersClient(connection)
            with pytest.raises(ttrpc.Unimplemented, match="method GetOrder"):
                await client.get_order(pb2.Order())
            with pytest.raises(ttrpc.Unimplemented, match="method ListItems"):
                async with client.list_items(pb2.Order()) as replies:
                    await replies.receive()
            with pytest.raises(ttrpc.Unimplemented, match="method Sum"):
                async with client.sum() as call:
                    await call.reply()
            with pytest.raises(ttrpc.Unimplemented, match="method PriceItems"):
                async with client.price_items() as call:
                    await call.receive()


async def test_messages_of_another_type(modules: dict[str, ModuleType]) -> None:
    """A stub refuses them before anything is sent."""
    pb2, shop = modules["orders_pb2"], modules["orders_ttrpc"]
    here, _there = trio.testing.memory_stream_pair()
    async with ttrpc.connect(here) as connection:
        with pytest.raises(TypeError, match="must be Order here, not Total"):
            await shop.OrdersClient(connection).get_order(pb2.Total())


async def test_odd_names(modules: dict[str, ModuleType]) -> None:
    """Methods with names that Python does not allow can be served and called."""
    pb2, odd, outside = (modules[n] for n in ("odd_names_pb2", "odd_names_ttrpc", "class_pb2"))
    none = getattr(pb2, "None")

    class Odd(odd.OddBase):  # type: ignore[name-defined, misc]  # made at run time
        async def import_(self, request: Any, call: ttrpc.Call) -> Any:
            return none()

        async def get_http_info_(self, request: Any, call: ttrpc.Call) -> Any:
            return getattr(none, "__Inner")()

        async def ttrpc_(self, request: Any, call: ttrpc.Call) -> AsyncIterator[Any]:
            for _ in range(request.number):
                yield pb2.Message()

    here, there = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        services = [Odd(), odd.Service__ServiceBase(), odd.NothingBase()]
        nursery.start_soon(ttrpc.serve_stream, services, there)
        async with ttrpc.connect(here) as connection:
            client = odd.OddClient(connection)
            assert await client.import_(none()) == none()
            assert await client.get_http_info_(pb2.Message()) is not None
            with pytest.raises(ttrpc.Unimplemented, match="method GetHTTPInfo"):
                await client.get_http_info(pb2.Message())
            async with client.ttrpc_(outside.Outside(number=2)) as replies:
                assert len([each async for each in replies]) == 2
            with pytest.raises(ttrpc.Unimplemented, match="method Call"):
                await odd.Service__ServiceClient(connection).call(none())


def test_docstrings(shop: Any) -> None:
    """The comments of the .proto are the docstrings, of clients and of services."""
    for each in (shop.OrdersClient, shop.OrdersBase):
        assert inspect.getdoc(each) == (
            "Takes orders of the shop.\n\nIts comments go into the docstrings."
        )
        assert each.get_order.__doc__ == "Returns the order with this id."
        assert each.price_items.__doc__ == "One price for each item."
        assert each.sum.__doc__ == "``Sum``: a stream of requests, one response."
    assert inspect.getdoc(shop.HealthClient.check).endswith("\n\nDeprecated.")


def test_the_types_have_the_names_of_the_module(generated: Path, modules: Any) -> None:
    """Each class and method of the module is in its types, and no other."""
    import ast

    for stem in ("shop/v1/orders_ttrpc", "odd_names_ttrpc"):
        names = []
        for suffix in (".py", ".pyi"):
            tree = ast.parse((generated / f"{stem}{suffix}").read_text())
            names.append(
                {
                    (node.name, each.name)
                    for node in tree.body
                    if isinstance(node, ast.ClassDef)
                    for each in node.body
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                }
            )
        assert names[0] == names[1]
        assert names[0]
