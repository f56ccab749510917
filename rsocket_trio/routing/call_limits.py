"""Middleware that limits calls: `rate_limit`, `concurrency_limit`.

A call past a limit is `Rejected` before its handler is asked: nothing of it was processed, so the
requester may try again, and the text says when.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from math import ceil
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
        max_keys: The keys that are remembered, at most. One whose bucket is full is forgotten
            first. With more that are not full, calls of new keys are rejected. 10000: some MB.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: An argument is out of range.
    """
    argument("rate", rate, number(above=0, finite=True))
    size = max(1, ceil(rate)) if burst is None else burst
    argument("burst", size, COUNT)
    argument("max_keys", max_keys, COUNT)
    key_of = _key_of(by)
    # A bucket is the time at which it will be full. Those used last are at the end. Each run of
    # trio has a clock of its own, which may begin anywhere, and so buckets of its own.
    runs: WeakKeyDictionary[trio.lowlevel.Task, OrderedDict[Hashable, float]] = WeakKeyDictionary()
    interval, most = 1 / rate, size / rate

    async def limit_rate(call: C) -> AsyncIterator[None]:
        key = None if key_of is None else key_of(call)
        now = trio.current_time()
        root = trio.lowlevel.current_root_task()
        assert root is not None  # this is a task
        buckets = runs.get(root)
        if buckets is None:
            buckets = runs[root] = OrderedDict()
        full = buckets.get(key)
        if full is None:
            full = now
            if len(buckets) >= max_keys:
                first, frees = next(iter(buckets.items()))
                if frees > now:
                    raise _too_many(frees - now)
                del buckets[first]
        full = max(full, now) + interval
        wait = full - now - most
        if wait > 1e-9:
            raise _too_many(wait)
        buckets[key] = full
        buckets.move_to_end(key)
        yield

    return limit_rate


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
