"""The server of rsocket_trio as an application: a middleware and a dependency."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import perf_counter
from typing import Annotated

import trio

from benchmarks.values.messages import Order
from benchmarks.values.ours_server import main
from benchmarks.values.shop import TIMES, Shop, open_shop
from rsocket_trio import Call, Provided
from rsocket_trio.routing import Router


async def timed(_call: Call) -> AsyncIterator[None]:
    began = perf_counter()
    try:
        yield
    finally:
        TIMES.seconds += perf_counter() - began


router = Router(middleware=[timed])
router.provide(Shop, open_shop)


@router.request_response("order")
async def order(value: Order, shop: Annotated[Shop, Provided]) -> Order:
    accepted: Order = shop.accepted(value)
    return accepted


if __name__ == "__main__":
    trio.run(main, router)
