"""Numbers about a server at one moment, the same for every wire: `WireStatistics`.

All of them are snapshots. Counters only grow while a server runs, so a reader subtracts an earlier
snapshot to get a rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

import attrs

__all__ = ["Histogram", "Refused", "RouteStatistics", "WireStatistics"]


class Refused(StrEnum):
    """Why a connection was not served."""

    FULL = "full"
    """``max_connections`` were open."""

    NOT_ALLOWED = "not_allowed"
    """``allow`` did not let it in."""

    HANDSHAKE = "handshake"
    """The handshake of TLS or WebSocket has failed."""

    SETUP = "setup"
    """The first frame was refused, by the protocol, a guard or the block of a connection."""

    RESUME = "resume"
    """Its session was not resumed."""


@attrs.frozen
class Histogram:
    """How many calls took how long.

    Attributes:
        bounds: The upper bounds of the buckets, in seconds; the same for all.
        counts: The calls in each bucket: those that took at most so long, and longer than the bound
            before it. The last one has those above all bounds.
        total: The time of all of them together, in seconds.
    """

    bounds: ClassVar[tuple[float, ...]] = (
        *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
        *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
    )

    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """The number of calls."""
        return sum(self.counts)


@attrs.frozen(kw_only=True)
class RouteStatistics:
    """Numbers about the calls of one interaction and one route, from a `CallMeter`.

    Attributes:
        interaction: The interaction, or ``"events"``.
        route: The route as its handler is registered, such as ``"chat.{room}"``; for requests that
            are made here, as the caller wrote it. Empty for calls without a route; ``None`` for all
            calls that have no handler, and for those past `CallMeter`'s ``max_routes``.
        begun: Calls since the start.
        ended: How long the calls took that have ended, by outcome: ``"completed"``, ``"failed"``
            and ``"cancelled"``. On RSocket the time begins when the request arrives.
        items_in: The items that requesters of channels have sent and handlers have taken, and the
            events of batches.
        items_out: The items of streams.
        size_in: The bytes of data of requests, and of the items of channels.
        size_out: The bytes of data of answers and items.
    """

    interaction: str
    route: str | None
    begun: int
    ended: Mapping[str, Histogram]
    items_in: int
    items_out: int
    size_in: int
    size_out: int

    @property
    def open(self) -> int:
        """The calls that have not ended."""
        return self.begun - sum(each.count for each in self.ended.values())


@attrs.frozen(kw_only=True)
class WireStatistics:
    """Numbers about a server of any wire.

    Attributes:
        connections: Connections that are open.
        accepted: Connections since the start.
        refused: Connections since the start that were not served, by reason (`Refused`).
        by_route: The calls, by interaction and route; empty without a `CallMeter`.
    """

    wire: ClassVar[str]
    """``rsocket``, ``rsio``, ``ttrpc`` or ``lumberjack``."""

    connections: int
    accepted: int
    refused: Mapping[str, int] = attrs.field(factory=dict)
    by_route: tuple[RouteStatistics, ...] = ()
