"""Operators: functions that take a publisher and return one.

::

    from rsocket_trio.reactive_streams import from_iterable, operators as ops, pipe

    evens = pipe(from_iterable(range(10)), ops.filter(lambda number: number % 2 == 0), ops.take(3))
    async for number in evens:
        print(number)

Demand passes from the subscriber through the operators to the source: before the first demand
nothing is requested but by `buffer`, and whatever waits does so in a buffer with a bound. A
function of the user that raises ends the stream with ``on_error``, and cancels the source.
Operators that need time take a nursery, which owns their tasks.

The modules, in reading order:

- ``guarded``: calls of subscribers and sources that may raise; checks of arguments
- ``operator``: what an operator is, and what it makes of a source
- ``stage``: operators without a buffer: the path of an element is one call
- ``mapping``: `map`: one result for each element
- ``filtering``: `filter`: only the elements that are wanted
- ``taking``: `take`: the first elements
- ``intake``: operators with a queue
- ``joints``: chains of any length
- ``buffering``: `buffer`, and what it does when it is full
- ``timers``: a task that calls a function at a time
- ``batching``: `batch`, by count and by time
- ``throttling``: `throttle`: no more than one element in a time
- ``succession``: operators with one source after another
- ``chaining``: `concat`: one publisher after another
- ``retrying``: `retry`: another attempt when a source fails
- ``flattening``: `flat_map` and `merge`
- ``piping``: `pipe`: operators one after the other
"""

from __future__ import annotations

from .batching import batch
from .buffering import BufferOverflow, Overflow, buffer
from .chaining import concat, concat_with
from .filtering import filter  # noqa: A004 - the name of the field; used as ops.filter
from .flattening import flat_map, merge, merge_with
from .mapping import map  # noqa: A004 - the name of the field; used as ops.map
from .operator import Operator
from .piping import pipe
from .retrying import retry
from .taking import take
from .throttling import throttle

__all__ = [
    "BufferOverflow",
    "Operator",
    "Overflow",
    "batch",
    "buffer",
    "concat",
    "concat_with",
    "filter",
    "flat_map",
    "map",
    "merge",
    "merge_with",
    "pipe",
    "retry",
    "take",
    "throttle",
]
