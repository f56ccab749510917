"""What calls carry, for middleware that looks at it: `Traffic`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from ..interactions.payload_body import PayloadBody
from ..payload import Payload

if TYPE_CHECKING:
    from ..streamed import AnyPayload

__all__ = ["Traffic", "is_measured"]


def is_measured(steps: Iterable[object]) -> bool:
    """Whether there is middleware that looks at `Call.traffic`: it has a true ``measures``."""
    return any(getattr(step, "measures", False) for step in steps)


class Traffic:
    """The items and the bytes of data of one call, without metadata and frames.

    Args:
        request: The request.

    Attributes:
        items_in: The items of a channel that the handler has taken, the first one included; the
            events of a batch.
        size_out: The bytes of the answer or its items. The chunks of a `StreamedPayload`, which are
            sent when the handler has returned, are not counted.
    """

    __slots__ = ("_body", "_size_in", "items_in", "size_out")

    def __init__(self, request: Payload | PayloadBody | None = None) -> None:
        self.items_in = 0
        self.size_out = 0
        self._body = request if isinstance(request, PayloadBody) else None
        self._size_in = len(request.data) if isinstance(request, Payload) else 0

    @property
    def size_in(self) -> int:
        """The bytes of the request, and of the further items of a channel."""
        return self._size_in + (0 if self._body is None else self._body.size)

    def received(self, size: int, items: int = 0) -> None:
        """Count what has come besides the request."""
        self._size_in += size
        self.items_in += items

    def sent(self, answer: AnyPayload | None) -> None:
        """Count an answer or an item."""
        if type(answer) is Payload:
            self.size_out += len(answer.data)

    def taking(
        self, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> trio.abc.ReceiveChannel[Payload]:
        """Return the items of a channel, which are counted when they are taken."""
        return _Taken(payloads, self)


class _Taken(trio.abc.ReceiveChannel[Payload]):
    def __init__(self, payloads: trio.abc.ReceiveChannel[Payload], traffic: Traffic) -> None:
        self._payloads = payloads
        self._traffic = traffic
        self._is_first = True  # it is the request, which is counted already

    async def receive(self) -> Payload:
        payload = await self._payloads.receive()
        self._traffic.received(0 if self._is_first else len(payload.data), 1)
        self._is_first = False
        return payload

    async def aclose(self) -> None:
        await self._payloads.aclose()
