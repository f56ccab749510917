"""The server of FastAPI as an application: a middleware and a dependency, as in its manual."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response

from benchmarks.values.fastapi_server import Order, main
from benchmarks.values.shop import TIMES, Shop, open_shop

application = FastAPI()


@application.middleware("http")
async def timed(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    began = perf_counter()
    try:
        return await call_next(request)
    finally:
        TIMES.seconds += perf_counter() - began


@application.post("/order")
async def order(value: Order, shop: Annotated[Shop, Depends(open_shop)]) -> Order:
    accepted: Order = shop.accepted(value)
    return accepted


if __name__ == "__main__":
    asyncio.run(main(application))
