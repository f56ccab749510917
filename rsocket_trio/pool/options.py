"""The settings of a pool, its targets, and what it says of them."""

from __future__ import annotations

from typing import Final

import attrs

from ..connection.dialling import Dial
from ..connection.reconnect import ConnectionState
from ..field_checks import COUNT, SECONDS, TEXT, instance_of, number, one_of
from ..protocol.circuit import Circuit
from ..requester import ConnectionStatistics
from ..uri import Uri, as_uri, shown

__all__ = ["PoolOptions", "PoolStatistics", "Target", "TargetStatistics", "as_target"]

_CIRCUIT: Final = Circuit()


@attrs.frozen
class Target:
    """One server of a pool.

    Attributes:
        at: Its address; or a function that dials it, as for `rsocket_trio.connect`.
        address: One of the IP addresses that the host of ``at`` has. This one is dialled. TLS
            verifies the name of the host, and a WebSocket is asked for by it.
    """

    at: Uri | Dial
    address: str = attrs.field(default="", validator=TEXT)

    def __str__(self) -> str:
        at, ip = self.at, self.address
        if not isinstance(at, Uri):
            return getattr(at, "__qualname__", type(at).__name__)
        return f"{shown(at)} ({ip})" if ip not in ("", at.host) else shown(at)


def as_target(target: object) -> Target:
    """Return the target that an item of a set means.

    Raises:
        TypeError: It is neither an address nor a function nor a `Target`.
        ValueError: It is no valid address.
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, str | Uri):
        return Target(as_uri(target))
    if callable(target):
        if type(target).__hash__ is None:
            raise TypeError(
                "a target that is a function has to be hashable, as each set is compared with the "
                f"last one; {type(target).__name__} is not"
            )
        return Target(target)
    raise TypeError(
        "a target of a pool is an address (a str or a Uri), a function that dials, or a Target, "
        f"not {type(target).__name__}"
    )


@attrs.frozen(kw_only=True)
class PoolOptions:
    """How a pool chooses among its targets, and when it begins and ends connections to them.

    Attributes:
        choose: How the target of each request is chosen: ``"latency"`` takes two at random, and of
            them the one whose latency, times the requests that are open there, is less.
            ``"least_in_flight"`` takes the one with the fewest open requests, ``"round_robin"`` one
            after the other.
        circuit: When a target that fails is put aside, and for how long: by default after 5
            failures in a row, for 5 s, which doubles up to 60 s. One request tests it then. At most
            half of the connected targets are put aside, rounded down.
        max_targets: A connection is made to so many targets at most. If there are more, each client
            takes its own part of them, which changes little when targets come and go (rendezvous
            hashing). As many removed targets may finish their streams. 100.
        client_id: Decides which part; by default random. With the same text a client that starts
            again has the same part.
        empty_after: When a source says that there are no targets, the last ones are kept for so
            many seconds, as this is a fault of the source more often than the truth. 60 s.
        grace: How long the open requests and streams of a target that is removed may go on, in
            seconds. 600 s.
    """

    choose: str = attrs.field(
        default="latency", validator=one_of("latency", "least_in_flight", "round_robin")
    )
    circuit: Circuit = attrs.field(default=_CIRCUIT, validator=instance_of(Circuit))
    max_targets: int = attrs.field(default=100, validator=COUNT)
    client_id: str = attrs.field(default="", validator=TEXT)
    empty_after: float = attrs.field(default=60.0, validator=SECONDS)
    grace: float = attrs.field(default=600.0, validator=number(at_least=0))


@attrs.frozen(kw_only=True)
class TargetStatistics:
    """Where a pool stands with one target.

    Attributes:
        target: The target.
        state: The state of its client.
        removed: Whether the source does not name it any more: its streams may finish.
        aside_for: For so many seconds no request goes there, as it has failed; 0 if it is well or
            will be tested by the next request.
        has_lease: Whether its lease allows requests now; true without leases.
        in_flight: Open requests and streams.
        latency: The time to a response or to the first item of a stream, in seconds: a mean that
            follows a peak at once, and in which a failure counts as a second at least. ``None``
            without any.
        answered: Requests that were answered, also by an error of the application.
        failed: Requests that failed, or whose time was over.
    """

    target: Target
    state: ConnectionState
    removed: bool
    aside_for: float
    has_lease: bool
    in_flight: int
    latency: float | None
    answered: int
    failed: int


@attrs.frozen(kw_only=True)
class PoolStatistics(ConnectionStatistics):
    """Numbers about a pool: sums over its connected targets, and how its source does.

    Attributes:
        waiting_requests: Requests that wait for a target, or for a lease of one.
        source: ``"fixed"``: the targets are a list. ``"followed"``: they come from a source.
            ``"failing"``: it gives none now, and is asked again. ``"ended"``: it gives no others.
            Then the last targets stay.
        source_failure: Why it is failing; else empty.
    """

    waiting_requests: int
    source: str
    source_failure: str
