"""Leases: how many requests a responder allows its peer, and for how long.

`Lease` is what one LEASE frame says (Protocol.md, "LEASE Frame"). `LeaseOptions` is what
`rsocket_trio.connect` and `rsocket_trio.serve` are given to make use of leases: where the ones we
grant come from (`LeaseSource` and the other kinds of `AnyLeaseSource`), and what becomes of our own
requests while the peer has granted none.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs
from attrs import validators as v

from .config import MAX_FRAME_SIZE

__all__ = [
    "AnyLeaseSource",
    "AskForLease",
    "Lease",
    "LeaseOptions",
    "LeaseSource",
    "LeaseStatistics",
    "lease_options",
    "taken_from",
]

_MAX_U31: Final = 2**31 - 1
_MAX_METADATA: Final = MAX_FRAME_SIZE - 14
"""What a LEASE frame has room for, beside its header, its time and its number."""


def _seconds(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    # Written so that NaN is refused too.
    if not 0 <= value <= _MAX_U31 / 1000:
        raise ValueError(f"{attribute.name} must be 0 to {_MAX_U31 / 1000} seconds, not {value!r}")


def _fits(instance: object, attribute: attrs.Attribute[Any], value: bytes | None) -> None:
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"{attribute.name} must be bytes or None, not {type(value).__name__}")
    if value is not None and len(value) > _MAX_METADATA:
        raise ValueError(
            f"{attribute.name} of a lease has at most {_MAX_METADATA} bytes, not {len(value)}"
        )


@attrs.frozen
class Lease:
    """So many requests, within so much time.

    Attributes:
        requests: Requests of all four kinds together; 0 stops them.
        time_to_live: Seconds from the reception of the lease, sent as milliseconds; what is left
            of the lease then is void. 0 stops requests.
        metadata: For the peer's application; the protocol gives it no meaning. At most
            16,777,201 bytes: it is sent in one frame.
    """

    requests: int = attrs.field(validator=v.and_(v.instance_of(int), v.ge(0), v.le(_MAX_U31)))
    time_to_live: float = attrs.field(validator=_seconds)
    metadata: bytes | None = attrs.field(default=None, validator=_fits)

    @property
    def time_to_live_ms(self) -> int:
        """The time to live as it is sent, in milliseconds. Only 0 is sent as 0."""
        return max(1, round(self.time_to_live * 1000)) if self.time_to_live else 0


@attrs.frozen(kw_only=True)
class LeaseStatistics:
    """What a function that decides about the next lease may want to know of its connection.

    Attributes:
        expires_in: Seconds until the lease in force expires; 0 where none is in force.
        left: Requests that it still allows.
        active_streams: Requests of the peer that wait or are being answered.
        rejected: Requests that came beyond a lease, since the connection began.
        mean_latency: Seconds that the request_response handlers took on average that have
            finished since the last question; ``None`` where none has.
    """

    expires_in: float
    left: int
    active_streams: int
    rejected: int
    mean_latency: float | None


AskForLease: TypeAlias = Callable[[LeaseStatistics], Lease | Awaitable[Lease | None] | None]
"""A function that decides about the next lease; see `AnyLeaseSource`."""


class LeaseSource:
    """Leases that can be granted at any time, to all connections it is the source of.

        leases = LeaseSource(Lease(100, 10.0))
        nursery.start_soon(partial(serve, router, uri, lease=leases))
        ...
        leases.grant(Lease(0, 0))       # no requests any more, from anybody

    Attributes:
        otherwise: What grants while nobody calls `grant`, and whenever a lease has ended, those
            by hand included. ``None``: nothing does.
        last: The last lease granted by hand. New connections begin with it too.
    """

    def __init__(self, otherwise: Lease | AskForLease | AsyncIterable[Lease] | None = None) -> None:
        self.otherwise = otherwise
        self.last: Lease | None = None
        self._takers: dict[Callable[[Lease], None], None] = {}  # many come and go on a server

    def grant(self, lease: Lease) -> None:
        """Grant a lease to each connection, in place of the one it has."""
        self.last = lease
        for taker in list(self._takers):
            taker(lease)


@contextmanager
def taken_from(source: LeaseSource, taker: Callable[[Lease], None]) -> Iterator[None]:
    """While the block lasts ``taker`` gets every lease that is granted by hand."""
    takers = source._takers  # noqa: SLF001 - of this module, and not for applications
    takers[taker] = None
    try:
        yield
    finally:
        del takers[taker]


AnyLeaseSource: TypeAlias = Lease | AskForLease | AsyncIterable[Lease] | LeaseSource
"""Where the leases come from that a connection grants.

* A `Lease`: granted at the start, and again each time it has expired: a rate.
* A function, async or not, that is given `LeaseStatistics`: called at the start, and again when a
  lease has been used up or has expired. ``None`` means: nothing now. If a lease is still in force
  then (used up), the function is called again when that expires; if not, not before somebody has
  granted a lease by hand and that has ended.
* An async iterable of leases: each is granted when it comes. Iterated once per connection, and in
  a session that is resumed once per connection of the session, so a generator, which ends with the
  first of them, suits neither `serve` nor resumption.
* A `LeaseSource`.

One that raises is logged, and grants no more.
"""

_ALL: Final = Lease(_MAX_U31, _MAX_U31 / 1000)


def _source(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not callable(value) and not isinstance(value, Lease | LeaseSource | AsyncIterable):
        raise TypeError(
            "leases come from a Lease, a LeaseSource, a function or an async iterable, not from "
            f"{type(value).__name__}"
        )


@attrs.frozen
class LeaseOptions:
    """How a connection uses leases.

    The client decides whether there are any (L in SETUP): ``connect(..., lease=LeaseOptions())``
    asks for them. A server that is given options grants them to the clients that ask, and lets the
    others be. Leases bind both ways then: either side needs one from the other for its requests.

    Attributes:
        source: Of the leases we grant. As many requests as can be said, by default.
        wait: Whether requests of ours wait, in the order in which they came, while the peer has
            granted nothing. If not, they fail at once with `MissingLease`; also before the first
            lease, which some servers send only after they have let `connect` go on.
        max_waiting: So many may wait; one more fails with `MissingLease`. A peer may never grant
            anything, and each waiting request is a payload in memory. 256, as rsocket-java.
    """

    source: AnyLeaseSource = attrs.field(default=_ALL, validator=_source)
    wait: bool = attrs.field(default=True, kw_only=True)
    max_waiting: int = attrs.field(default=256, validator=v.ge(0), kw_only=True)


def lease_options(lease: LeaseOptions | AnyLeaseSource | None) -> LeaseOptions | None:
    """What ``lease=`` of `rsocket_trio.connect` and `rsocket_trio.serve` means.

    Args:
        lease: Options, or just a source; ``None``: no leases.

    Raises:
        TypeError: It is none of these.
    """
    return lease if lease is None or isinstance(lease, LeaseOptions) else LeaseOptions(lease)
