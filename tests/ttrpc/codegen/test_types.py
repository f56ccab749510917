"""Type checkers read the generated types."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.programs import environment

MISSING = [name for name in ("mypy", "types-protobuf") if not any(distributions(name=name))]
pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

PROGRAM = """\
from collections.abc import AsyncIterator

import trio
from trio.abc import ReceiveChannel

from rsocket_trio import ttrpc
from shop.v1.items_pb2 import Item
from shop.v1.orders_pb2 import Order, Total
from shop.v1.orders_ttrpc import HealthClient, OrdersBase, OrdersClient, OrdersMethods


class Orders(OrdersBase):
    async def get_order(self, request: Order, call: ttrpc.Call) -> Order:
        return request

    async def list_items(self, request: Order, call: ttrpc.Call) -> AsyncIterator[Item]:
        for item in request.items:
            yield item

    async def sum(self, requests: ReceiveChannel[Item], call: ttrpc.Call) -> Total:
        return Total(items=len([each async for each in requests]))

    async def price_items(
        self, requests: ReceiveChannel[Item], call: ttrpc.Call
    ) -> AsyncIterator[Item.Price]:
        async for item in requests:
            yield item.price


async def main() -> None:
    async with trio.open_nursery() as nursery:
        server: ttrpc.TtrpcServer = await nursery.start(ttrpc.serve, Orders(), "unix:///tmp/x")
        async with ttrpc.connect("unix:///tmp/x") as connection:
            client = OrdersClient(connection)
            reveal_type(await client.get_order(Order(id="7"), metadata={"k": "v"}))
            async with client.list_items(Order()) as replies:
                async for item in replies:
                    reveal_type(item)
            async with client.sum() as call:
                await call.send(Item())
                reveal_type(await call.reply())
            async with client.price_items() as both:
                await both.send(Item())
                reveal_type(await both.receive())
            reveal_type(OrdersMethods.SUM)
            reveal_type(HealthClient(connection).check)
        await server.aclose()
"""
# The types that protoc itself writes are not strict.
CONFIG = """\
[mypy]
strict = true

[mypy-*.items_pb2,*.orders_pb2]
ignore_errors = true
"""
WRONG = {
    "await client.get_order(Total())": "arg-type",
    "await client.get_order(Order(), metadata=3)": "arg-type",
    "await client.other(Order())": "attr-defined",
    "await client.get_order()": "call-arg",
}


def check(generated: Path, directory: Path, text: str) -> list[str]:
    program = directory / "program.py"
    program.write_text(text)
    config = directory / "mypy.ini"
    config.write_text(CONFIG)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--no-error-summary", f"--config-file={config}"),
            f"--cache-dir={directory}/cache",
            "--explicit-package-bases",
            str(program),
            str(generated / "shop/v1/orders_ttrpc.pyi"),
        ],
        cwd=generated,
        env=environment(MYPYPATH=str(generated)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.seconds(300)
def test_strict_types(generated: Path, tmp_path: Path) -> None:
    """mypy --strict finds no error in generated code and its use, and knows each type."""
    lines = check(generated, tmp_path, PROGRAM)
    assert [line for line in lines if ": error:" in line] == []
    revealed = [line.partition("Revealed type is ")[2].strip('"') for line in lines]
    assert revealed[:4] == [
        "shop.v1.orders_pb2.Order",
        "shop.v1.items_pb2.Item",
        "shop.v1.orders_pb2.Total",
        "shop.v1.items_pb2.Item.Price",
    ]
    assert revealed[4] == (
        "rsocket_trio.ttrpc.methods.Method[shop.v1.items_pb2.Item, shop.v1.orders_pb2.Total]"
    )
    assert "Empty" in revealed[5]
    wrong = (
        PROGRAM
        + "\n\nasync def wrong(client: OrdersClient) -> None:\n"
        + "".join(f"    {line}\n" for line in WRONG)
    )
    errors = [line for line in check(generated, tmp_path, wrong) if ": error:" in line]
    codes = [line.rpartition("[")[2].rstrip("]") for line in errors]
    assert codes == list(WRONG.values()), errors
