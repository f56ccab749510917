"""The server of rsocket_trio: a `Router` with annotated handlers, as in an application.

The client chooses the MIME type. The server also works with older versions of the package.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import trio

from benchmarks.control import ready
from benchmarks.values.messages import ITEM, Blob, Checked, Fields, Item, Order, Refund, Sale
from rsocket_trio import serve
from rsocket_trio.routing import Router

router = Router()


@router.request_response("order")
async def order(value: Order) -> Order:
    return value


@router.request_response("fields")
async def fields(value: Fields) -> Fields:  # type: ignore[valid-type]  # made at run time
    return value


@router.request_response("ints")
async def ints(value: list[int]) -> list[int]:
    return value


@router.request_response("blob")
async def blob(value: Blob) -> Blob:
    return value


@router.request_response("checked")
async def checked(value: list[Checked]) -> list[Checked]:
    return value


@router.request_response("union")
async def union(value: list[Sale | Refund]) -> list[Sale | Refund]:
    return value


@router.request_stream("items")
async def items(count: int) -> AsyncIterator[Item]:
    for _ in range(count):
        yield ITEM


async def main(router: Router = router) -> None:
    """Serve until the standard input ends."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router, "tcp://127.0.0.1:0")
        ready(server.uris[0])
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
