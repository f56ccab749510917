"""The server of grpc.aio as an application: an interceptor; the handler opens what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc

from benchmarks.values.grpc_server import main
from benchmarks.values.shop import TIMES, open_shop


class Timed(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)

        async def timed(request: Any, context: Any) -> Any:
            began = perf_counter()
            try:
                return await handler.unary_unary(request, context)
            finally:
                TIMES.seconds += perf_counter() - began

        return grpc.unary_unary_rpc_method_handler(
            timed, handler.request_deserializer, handler.response_serializer
        )


async def order(request: Any, _context: object) -> Any:
    shop = await open_shop()
    return shop.accepted(request)


if __name__ == "__main__":
    asyncio.run(main(order, [Timed()]))
