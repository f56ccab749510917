"""Leases: how many requests a responder allows its peer, and for how long.

`Lease` holds the contents of one LEASE frame (Protocol.md, "LEASE Frame"). To use leases, give
`LeaseOptions` to `rsocket_trio.connect` or `rsocket_trio.serve`. They say where the leases we grant
come from (`LeaseGranter` and the other kinds of `LeaseSource`), and what our own requests do
while the peer has not granted a lease.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

from .config import MAX_FRAME_SIZE
from .escapes import size_only
from .field_checks import FLAG, argument, instance_of, number, sized, whole

__all__ = [
    "Lease",
    "LeaseCallback",
    "LeaseGranter",
    "LeaseOptions",
    "LeaseSource",
    "LeaseStatistics",
    "lease_options",
    "subscribe",
]

_MAX_U31: Final = 2**31 - 1
_MAX_METADATA: Final = MAX_FRAME_SIZE - 14
"""The room for metadata in a LEASE frame: its header, time and number take 14 bytes."""


@attrs.frozen
class Lease:
    """Permission for a number of requests within a time.

    Attributes:
        requests: Requests of all four kinds together; 0 stops them.
        time_to_live: Seconds from the reception of the lease, sent as milliseconds. Requests that
            are left after this time are lost. 0 stops requests.
        metadata: For the peer's application; the protocol gives it no meaning. At most
            16,777,201 bytes: it is sent in one frame.
    """

    requests: int = attrs.field(validator=whole(0, _MAX_U31))
    time_to_live: float = attrs.field(validator=number(at_least=0, at_most=_MAX_U31 / 1000))
    metadata: bytes | None = attrs.field(
        default=None, validator=sized(bytes, 0, _MAX_METADATA, none=True), repr=size_only
    )

    @property
    def time_to_live_ms(self) -> int:
        """The time to live as sent, in milliseconds; at least 1 unless it is 0."""
        return max(1, round(self.time_to_live * 1000)) if self.time_to_live else 0


@attrs.frozen(kw_only=True)
class LeaseStatistics:
    """Numbers about a connection, for the function that decides about its next lease.

    Attributes:
        expires_in: Seconds until the lease in force expires; 0 without a lease in force.
        requests_left: Requests that it still allows.
        active_requests: Requests of the peer that wait or are being answered.
        rejected: Requests that came without a lease for them, since the connection began.
        mean_latency: Average time, in seconds, of the request_response handlers that have
            finished since the function was last called; ``None`` if no handler has.
    """

    expires_in: float
    requests_left: int
    active_requests: int
    rejected: int
    mean_latency: float | None


LeaseCallback: TypeAlias = Callable[[LeaseStatistics], Lease | Awaitable[Lease | None] | None]
"""A function that decides about the next lease; see `LeaseSource`."""


class LeaseGranter:
    """A source whose leases you can grant at any time, to all the connections that use it.

        leases = LeaseGranter(Lease(100, 10.0))
        nursery.start_soon(partial(serve, router, uri, lease=leases))
        ...
        leases.grant(Lease(0, 0))       # no client may send requests any more

    Attributes:
        fallback: The source that grants until `grant` is called, and each time a lease has ended,
            also one from `grant`. ``None``: there is no other source.
        last: The last lease from `grant`. New connections begin with it too.
    """

    def __init__(
        self, fallback: Lease | LeaseCallback | AsyncIterable[Lease] | None = None
    ) -> None:
        if fallback is not None:
            argument("fallback", fallback, _check_source)
        self.fallback = fallback
        self.last: Lease | None = None
        # Many come and go on a server.
        self._subscribers: dict[Callable[[Lease], None], Callable[[], None]] = {}

    def grant(self, lease: Lease) -> None:
        """Grant a lease to each connection, in place of the one it has.

        Raises:
            RuntimeError: The caller is in another thread than one of the connections. Then no
                connection gets the lease.
            TypeError: It is not a `Lease`.
        """
        argument("lease", lease, instance_of(Lease))
        for check_thread in list(self._subscribers.values()):
            check_thread()
        self.last = lease
        for on_lease in list(self._subscribers):
            on_lease(lease)


@contextmanager
def subscribe(
    source: LeaseGranter, on_lease: Callable[[Lease], None], check_thread: Callable[[], None]
) -> Iterator[None]:
    """Call ``on_lease`` with every lease from `LeaseGranter.grant` while the block runs.

    Args:
        source: The granter.
        on_lease: Called with a lease.
        check_thread: Called before that; raises if this is not the thread of ``on_lease``.
    """
    subscribers = source._subscribers  # noqa: SLF001 - same module; applications must not use it
    subscribers[on_lease] = check_thread
    try:
        yield
    finally:
        del subscribers[on_lease]


LeaseSource: TypeAlias = Lease | LeaseCallback | AsyncIterable[Lease] | LeaseGranter
"""The source of the leases that a connection grants.

* A `Lease`: granted at the start, and again each time it has expired: a rate.
* A function, async or not, that takes `LeaseStatistics`: called at the start, and again when a
  lease has been used up or has expired. It returns ``None`` to grant nothing now. If a lease is
  still in force then (used up), the function is called again when that lease expires. Otherwise it
  is called again after a lease from `LeaseGranter.grant` has ended.
* An async iterable of leases: each is granted when it comes. It is iterated once per connection;
  a resumed session has several connections. A generator ends with the first connection, so do not
  use one with `serve` or with resumption.
* A `LeaseGranter`.

If the source raises, the error is logged, and the source grants no more leases.
"""

_UNLIMITED: Final = Lease(_MAX_U31, _MAX_U31 / 1000)


def _check_source(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not callable(value) and not isinstance(value, Lease | LeaseGranter | AsyncIterable):
        raise TypeError(
            "the source of leases must be a Lease, a LeaseGranter, a function or an async iterable "
            f"of leases, not {type(value).__name__}"
        )


@attrs.frozen
class LeaseOptions:
    """How a connection uses leases.

    The client decides whether the connection uses leases (L in SETUP):
    ``connect(..., lease=LeaseOptions())`` asks for them. A server with options grants leases to the
    clients that ask, and serves the others without leases, refuses them (``required``) or counts
    their requests (``enforced``). Leases bind both ways: each side needs a lease from the other for
    its requests.

    Attributes:
        source: The source of the leases we grant. By default one lease without a real limit.
        wait: Whether our requests wait, in the order in which they came, while the peer's lease
            does not allow them. If not, they fail at once with `MissingLease`. They also fail
            before the first lease, which some servers send only after `connect` has returned.
        max_waiting: The number of requests that may wait; one more fails with `MissingLease`. A
            peer may never grant a lease, and each waiting request keeps a payload in memory. 256,
            as rsocket-java.
        required: On a server: refuse clients that do not ask for leases (REJECTED_SETUP). Else
            leases limit only the clients that ask for them, unless they are ``enforced``; only
            one of the two may be set. A client that asks needs no such option: a server that has no
            leases refuses it.
        enforced: On a server: count the requests of clients that do not ask for leases against the
            same source, which is asked for each of them too. They get no LEASE, and REJECTED beyond
            it. Requests to them need no lease.
    """

    source: LeaseSource = attrs.field(default=_UNLIMITED, validator=_check_source)
    wait: bool = attrs.field(default=True, validator=FLAG, kw_only=True)
    max_waiting: int = attrs.field(default=256, validator=whole(0), kw_only=True)
    required: bool = attrs.field(default=False, validator=FLAG, kw_only=True)
    enforced: bool = attrs.field(default=False, validator=FLAG, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.required and self.enforced:
            raise ValueError("required refuses the clients that enforced would count: choose one")


def lease_options(lease: LeaseOptions | LeaseSource | None) -> LeaseOptions | None:
    """Return the options for ``lease=`` of `rsocket_trio.connect` and `rsocket_trio.serve`.

    Args:
        lease: Options, or just a source; ``None``: no leases.

    Raises:
        TypeError: It is of another type.
    """
    return lease if lease is None or isinstance(lease, LeaseOptions) else LeaseOptions(lease)
