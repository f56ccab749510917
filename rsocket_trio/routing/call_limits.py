"""Middleware that limits calls: `rate_limit`, `concurrency_limit`.

A call past a limit is `Rejected` before its handler is asked: nothing of it was processed, so the
requester may try again, and the text says when.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable
from heapq import heappop, heappush, heapreplace
from itertools import count
from math import ceil, inf
from typing import Any, Final, Literal, TypeVar
from weakref import WeakKeyDictionary

import trio

from ..errors import LimitReached
from ..field_checks import COUNT, argument, number
from .call import AnyCall, Call
from .hooks import check_hook
from .middleware import Around

__all__ = ["concurrency_limit", "rate_limit"]

C = TypeVar("C", bound=AnyCall)

_MAX_KEYS: Final = 10_000


def _peer(call: AnyCall) -> Hashable:
    peer = call.transport.peer
    return peer.rpartition(":")[0] or peer  # a client chooses its port


def _route(call: AnyCall) -> Hashable:
    # A peer can send any number of names, but there are as many templates as handlers.
    return call.route.template if isinstance(call, Call) else call.route.name


def _principal(call: Any) -> Hashable:
    principal: Hashable = call.principal
    return principal


_NAMED: Final = {"principal": _principal, "peer": _peer, "route": _route}


def _key_of(by: Callable[[C], Hashable] | str | None) -> Callable[[C], Hashable] | None:
    """Return the function that returns the key of a call.

    Raises:
        ValueError: There is no such name.
        TypeError: It is no function.
    """
    if isinstance(by, str):
        if by not in _NAMED:
            raise ValueError(f"by= is 'principal', 'peer', 'route' or a function, not {by!r}")
        return _NAMED[by]
    check_hook("by", by, is_async=False)
    return by


def rate_limit(
    rate: float,
    *,
    burst: int | None = None,
    by: Callable[[C], Hashable] | Literal["principal", "peer", "route"] | None = None,
    max_keys: int = _MAX_KEYS,
) -> Around[C]:
    """Return middleware that rejects calls which come faster than a rate.

    Each key has a bucket of ``burst`` tokens, which fills with ``rate`` tokens in a second; a call
    takes one, however long it lasts. Each run of trio begins with full buckets. A peer may fill
    the table of keys: a function should return keys that it cannot make up.

    Args:
        rate: Calls in a second, for each key.
        burst: How many may come at once after a pause. By default those of one second, at least 1.
        by: What has a limit of its own: ``"principal"``, ``"peer"`` (its address without the
            port), ``"route"`` (of a handler; unknown ones share one), or a function that returns
            the key of a call. By default all calls share one.
        max_keys: The keys that are remembered, at most. Those whose buckets are full make room for
            new ones; if none is, calls of new keys are rejected. 10000: some MB.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: An argument is out of range.
    """
    argument("rate", rate, number(above=0, finite=True))
    size = max(1, ceil(rate)) if burst is None else burst
    argument("burst", size, COUNT)
    argument("max_keys", max_keys, COUNT)
    key_of = _key_of(by)
    # Each run of trio has a clock of its own, which may begin anywhere, and so buckets of its own.
    runs: WeakKeyDictionary[trio.lowlevel.Task, _Buckets] = WeakKeyDictionary()
    interval, most = 1 / rate, size / rate

    async def limit_rate(call: C) -> AsyncIterator[None]:
        key = None if key_of is None else key_of(call)
        now = trio.current_time()
        root = trio.lowlevel.current_root_task()
        assert root is not None  # this is a task
        buckets = runs.get(root)
        if buckets is None:
            buckets = runs[root] = _Buckets()
        full = buckets.full.get(key)
        if full is None and len(buckets.full) >= max_keys:
            wait = buckets.make_room(now)
            if wait > 0:
                raise _too_many(wait)
        after = (now if full is None else max(full, now)) + interval
        wait = after - now - most
        if wait > 1e-9:
            raise _too_many(wait)
        if full is None:
            buckets.add(key)
        buckets.full[key] = after
        yield

    return limit_rate


class _Buckets:
    """The buckets of one run of trio.

    Attributes:
        full: By key, the time at which its bucket will be full.
    """

    def __init__(self) -> None:
        self.full: dict[Hashable, float] = {}
        # For each key a time that is not later than its time above, the earliest one first. The
        # number stands before the key, as keys cannot be compared.
        self._earliest: list[tuple[float, int, Hashable]] = []
        self._numbers = count()

    def add(self, key: Hashable) -> None:
        """Remember a new key; its bucket is set by the caller."""
        heappush(self._earliest, (-inf, next(self._numbers), key))

    def make_room(self, now: float) -> float:
        """Forget a key whose bucket is full, or return how long it takes until there is one."""
        earliest = self._earliest
        while True:
            known, number, key = earliest[0]
            full = self.full[key]
            if full <= now:
                heappop(earliest)
                del self.full[key]
                return 0
            if full == known:
                return full - now
            heapreplace(earliest, (full, number, key))


def _too_many(wait: float) -> LimitReached:
    return LimitReached(f"too many requests: retry after {ceil(wait * 1000) / 1000:g} s")


def concurrency_limit(
    at_most: int,
    *,
    by: Callable[[C], Hashable] | Literal["principal", "peer", "route"] | None = None,
) -> Around[C]:
    """Return middleware that rejects calls while others are open.

    A stream or a channel is open until it ends. What is remembered is bounded by the open calls.

    Args:
        at_most: Calls that may be open at once, for each key.
        by: What has a limit of its own: ``"principal"``, ``"peer"`` (its address without the
            port), ``"route"`` (of a handler; unknown ones share one), or a function that returns
            the key of a call. By default all calls share one.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: ``at_most`` is less than 1.
    """
    argument("at_most", at_most, COUNT)
    key_of = _key_of(by)
    opened: dict[Hashable, int] = {}

    async def limit_concurrency(call: C) -> AsyncIterator[None]:
        key = None if key_of is None else key_of(call)
        count = opened.get(key, 0)
        if count >= at_most:
            raise LimitReached(f"{at_most} requests are open: retry after one of them has ended")
        opened[key] = count + 1
        try:
            yield
        finally:
            opened[key] -= 1
            if not opened[key]:
                del opened[key]

    return limit_concurrency
