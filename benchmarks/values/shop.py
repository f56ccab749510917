"""What the applications have besides routes and types: a clock around each request, and a shop."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["TIMES", "Shop", "Times", "open_shop"]


class Times:
    """What the middleware measures.

    Attributes:
        seconds: How long all requests took, together.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


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
