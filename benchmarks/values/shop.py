"""What the applications have besides routes and types: a clock around each request, and a shop."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

__all__ = ["TIMES", "Shop", "Times", "open_shop"]


class Times:
    """What the middleware counts.

    Attributes:
        requests: The requests.
        seconds: How long they took, together.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.seconds = 0.0

    def add(self, began: float) -> None:
        """Count a request that began at this time."""
        self.requests += 1
        self.seconds += perf_counter() - began


TIMES: Final = Times()


class Shop:
    """What the handler depends on; each request has one of its own."""

    def __init__(self) -> None:
        self.orders = 0

    def accepted(self, order: Any) -> Any:
        """Return the order."""
        self.orders += 1
        return order


async def open_shop() -> Shop:
    """Return a shop for a request."""
    return Shop()
