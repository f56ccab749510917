"""Reactive Streams: publishers that send as many elements as their subscribers request.

The four interfaces are synchronous, as in the specification. Most programs only make publishers
and read them with ``async for``::

    numbers = from_iterable(range(10))
    async with open_iter(numbers, prefetch=4) as elements:
        async for number in elements:
            print(number)

All rules of the specification are kept, in the form that they have in one thread of Python: an
illegal demand is a `ValueError` in ``on_error``; ``None`` is no element, and is a `TypeError`;
demand is exact up to 2**63-1; two subscribers are the same if they are the same object. Signals
belong in the thread of trio.

The modules, in reading order:

- ``interfaces``: the four interfaces, as protocols.
- ``errors``: the errors of this package.
- ``checks``: the checks of arguments, with the rules in their texts.
- ``demand``: what is requested and not yet sent.
- ``short_stack``: what is left to do when Python's stack is used up.
- ``emission``: the loop that sends the signals of every synchronous publisher.
- ``queued_emission``: a subscription whose elements are pushed.
- ``unread``: the bytes of elements that wait for their readers.
- ``inbox``: a subscriber that keeps the elements for one reader.
- ``iterating``: reading a publisher with ``async for``.
- ``sources``: publishers of what is here already.
- ``pumps``: publishers of what comes later, with a task for each subscription.
- ``bridges``: a stream of the network as a publisher.
- ``consuming``: using up a publisher in one call.
- ``operators``: functions from publisher to publisher, such as map, merge and retry.
- ``relay``: a processor for one subscriber; operators as processors.
- ``broadcast``: a processor for many subscribers, as fast as the slowest of them.
- ``tck``: the conformance kit, for tests.
"""

from .bridges import stream_publisher
from .broadcast import Broadcast
from .consuming import collect, for_each, to_channel
from .demand import MAX_DEMAND
from .emission import EMISSION_BUDGET
from .errors import (
    AlreadySubscribed,
    ReactiveStreamsError,
    SourceClosed,
    StackExhausted,
    TooManyElements,
    TooMuchUnread,
)
from .interfaces import Processor, Publisher, Subscriber, Subscription
from .iterating import ElementStatistics, ElementStream, IterablePublisher, iterate, open_iter
from .operators.piping import pipe
from .pumps import from_async_iterable, from_channel
from .relay import Relay, as_processor
from .sources import empty, failed, from_iterable, just, never

__all__ = [
    "EMISSION_BUDGET",
    "MAX_DEMAND",
    "AlreadySubscribed",
    "Broadcast",
    "ElementStatistics",
    "ElementStream",
    "IterablePublisher",
    "Processor",
    "Publisher",
    "ReactiveStreamsError",
    "Relay",
    "SourceClosed",
    "StackExhausted",
    "Subscriber",
    "Subscription",
    "TooManyElements",
    "TooMuchUnread",
    "as_processor",
    "collect",
    "empty",
    "failed",
    "for_each",
    "from_async_iterable",
    "from_channel",
    "from_iterable",
    "iterate",
    "just",
    "never",
    "open_iter",
    "pipe",
    "stream_publisher",
    "to_channel",
]
