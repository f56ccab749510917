"""The server of rsocket-py as an application; its router has no middleware, so a function wraps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from benchmarks.values.messages import Order
from benchmarks.values.rsocket_py_server import main, router_of_values
from benchmarks.values.shop import TIMES, open_shop

router = router_of_values()


def timed(handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    async def around(value: Any) -> Any:
        began = perf_counter()
        try:
            return await handler(value)
        finally:
            TIMES.seconds += perf_counter() - began

    # The router does not read annotations that are texts.
    around.__annotations__ = {"value": Order, "return": Order}
    return around


@router.response("order")
@timed
async def order(value: Any) -> Any:
    shop = await open_shop()
    return shop.accepted(value)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main(router))
