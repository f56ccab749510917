"""How long handlers take: `Latency`, and `Timed`, which wraps a responder.

Only connections that use leases have one, because a source of leases may need the latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from ..interactions.operation import Handlers
    from ..payload import Payload
    from ..streamed import AnyPayload

__all__ = ["Latency", "Timed"]


class Latency:
    """The mean of some times, in seconds."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    @property
    def mean(self) -> float | None:
        """The mean since `begin_anew`; ``None`` without any times."""
        return self._sum / self._count if self._count else None

    def add(self, seconds: float) -> None:
        """Add a time."""
        self._sum += seconds
        self._count += 1

    def begin_anew(self) -> None:
        """Forget all times."""
        self._sum = 0.0
        self._count = 0


class Timed:
    """A responder whose request_response handlers are timed.

    How long the other handlers take depends on the peer, so they are not timed. They are the
    responder's own: see `rsocket_trio.Responder`.
    """

    def __init__(self, responder: Handlers, latency: Latency) -> None:
        self._respond = responder.request_response
        self._latency = latency
        self.body_responder = responder.body_responder
        self.fire_and_forget = responder.fire_and_forget
        self.request_stream = responder.request_stream
        self.request_channel = responder.request_channel
        self.metadata_push = responder.metadata_push

    async def request_response(self, payload: Payload, /) -> AnyPayload | None:
        """Run the handler, and record how long it took, also if it fails."""
        start = trio.current_time()
        try:
            return await self._respond(payload)
        finally:
            self._latency.add(trio.current_time() - start)
