"""The handlers that serve elements by offset: `replay_router`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from ... import Invalid, Payload, Router
from .messages import (
    OFFSETS,
    NotReplayable,
    Offsets,
    RangeRequest,
    not_replayable,
)
from .source import ReplaySource

__all__ = ["replay_router"]


def replay_router(route: str, source: ReplaySource) -> Router:
    """Return a router that serves elements to ``format("rsocket")`` with ``delivery=replay``.

    ``await serve(replay_router("numbers", ReplayList(numbers)), "tcp://127.0.0.1:7878")``. To serve
    more, include it in another router: `Router.include`.

    Args:
        route: The route of the elements. The route of their offsets has ``.offsets`` behind it.
        source: The elements.

    Raises:
        ValueError: The route is too long.
    """
    router = Router()

    @router.request_response(route + OFFSETS)
    async def offsets() -> Payload:
        return Payload((await source.offsets()).encode())

    @router.request_stream(route)
    async def elements(payload: Payload) -> AsyncIterator[Payload]:
        try:
            wanted = RangeRequest.decode(payload.data)
        except ValueError as error:
            raise Invalid(f"this is no request for a range of elements: {error}") from None
        _check(wanted, (await source.offsets()).partitions.get(wanted.partition))
        if wanted.start == wanted.stop:
            return
        left = wanted.stop - wanted.start
        items: Any = source.elements(wanted.partition, wanted.start, wanted.stop)
        if not hasattr(items, "aclose"):
            items = _Closable(items)
        async with aclosing(items):
            async for item in items:
                yield item if isinstance(item, Payload) else Payload(item)
                left -= 1
                if not left:
                    return
        raise not_replayable(NotReplayable.TRIMMED, f"the last {left} elements are missing")

    return router


class _Closable:
    """An async iterable that needs no closing, as one that can be closed."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __aiter__(self) -> Any:
        return aiter(self._items)

    async def aclose(self) -> None:
        """Do nothing."""


def _check(wanted: RangeRequest, here: Offsets | None) -> None:
    """Check that a range can be read.

    Raises:
        StreamError: It cannot.
    """
    name = f"partition {wanted.partition}"
    if here is None:
        raise Invalid(f"there is no {name}")
    if wanted.id is not None and wanted.id != here.id:
        raise not_replayable(
            NotReplayable.OTHER_ID, f"{name} has other elements now than it had under these offsets"
        )
    if wanted.start < here.earliest:
        raise not_replayable(
            NotReplayable.TRIMMED,
            f"{name} begins at offset {here.earliest}, so {wanted.start} is gone",
        )
    if wanted.stop > here.latest:
        raise not_replayable(
            NotReplayable.NOT_YET,
            f"{name} ends at offset {here.latest}, so {wanted.stop} is not there yet",
        )
