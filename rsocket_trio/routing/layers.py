"""What a router, an inclusion or a handler puts around requests: `Layer`."""

from __future__ import annotations

import attrs

from .guards import Guard
from .middleware import Middleware

__all__ = ["Layer"]


@attrs.frozen(eq=False)
class Layer:
    """The middleware and the guard of one router; the guard is asked inside of the middleware.

    Attributes:
        guard: The guard of the router. That of an inclusion and of a handler has no functions.
        middleware: The middleware, the outermost first.
    """

    guard: Guard = attrs.field(factory=Guard)
    middleware: tuple[Middleware, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether requests or connections have to pass it."""
        return self.guard.is_needed or bool(self.middleware)
