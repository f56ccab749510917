"""What handlers answer: an `Interaction` of RSocket, or a `Delivery` of another protocol."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from ..protocol.interaction import Interaction

__all__ = ["Delivery", "EventBatch", "Kind"]


class Delivery(StrEnum):
    """What a `rsocket_trio.Router` handles besides the interactions of RSocket.

    Every member is a string too: ``Delivery.EVENTS == "events"``.
    """

    EVENTS = "events"

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of items, which it never is."""
        return False


Kind: TypeAlias = Interaction | Delivery
"""What a handler answers."""


class EventBatch:
    """The base class of the batches of events; a parameter with such an annotation receives one.

    Each protocol that delivers events has a class of its own.
    """
