"""One subscription of the peer to a publisher of ours: `Publication`.

It is the subscriber of our publisher, and it hands on the elements as the socket drains:

    the peer's demand  →  unrequested  →  asked of the publisher  →  queued  →  written

At most `RsioConfig.max_ahead` elements are asked for or queued, whatever the peer's demand is. A
publisher is asked for more when half of its elements have left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import trio

from ...interactions.isolation import outcome_of
from ...log_policy import logger
from ...reactive_streams.demand import MAX_DEMAND
from ...uri import without_query
from ..errors import PublisherError
from .changes import changed
from .failures import text_for_peer

if TYPE_CHECKING:
    from ...reactive_streams.interfaces import Publisher, Subscription
    from .publications import Publications

__all__ = ["Publication"]

_BEGINNING: Final = 64
"""A stream of elements of one size begins with this part of `RsioConfig.max_ahead_size`, a 64th. It
may have twice as much each time the socket has taken half of that. A thousand streams request, each
for itself, before any of them has an element that could count for all."""


class Publication:
    """The subscriber of a publisher of ours.

    Attributes:
        stream_id: The id that the peer has chosen.
        name: The name by which the peer has asked for the publisher.
        arrived: When it did, by trio's clock.
        begun: Whether the first message, `subscribed`, was queued.
        element_size: The size of all elements in octets; 0 if they have different ones.
        queued_size: The octets of the elements that wait.
        scheduled: See `rsocket_trio.rsio.connection.send_queue.Sending`.
        scope: Around the task that looks for the publisher, if there is one.
    """

    __slots__ = (
        "_ahead_size",
        "_asked",
        "_asking",
        "_encode",
        "_ended",
        "_error",
        "_largest",
        "_owner",
        "_parts",
        "_queue",
        "_split_size",
        "_subscription",
        "_unrequested",
        "arrived",
        "begun",
        "element_size",
        "live",
        "name",
        "queued_size",
        "scheduled",
        "scope",
        "stream_id",
    )

    def __init__(self, owner: Publications, stream_id: int, name: str, demand: int) -> None:
        self._owner: Final = owner
        self.stream_id = stream_id
        self.name = name
        self.arrived = owner.read_at
        self.begun = False
        self.element_size = 0
        self.queued_size = 0
        self.scheduled = False
        self.live = True
        self.scope: trio.CancelScope | None = None
        self._unrequested = demand
        self._asked = 0
        self._ahead_size = owner.config.max_ahead_size // _BEGINNING
        self._asking = False
        self._encode: Callable[[bytes], bytes] | None = None
        self._largest = -1  # the size of the largest element so far
        self._queue: deque[bytes] = deque()
        self._parts: Iterator[bytes] | None = None
        self._split_size = 0
        self._subscription: Subscription | None = None
        self._ended = False
        self._error: str | None = None

    # -- for the connection -------------------------------------------------------------------

    def begin(self, publisher: Publisher[Any]) -> None:
        """Subscribe to the publisher that the peer has asked for.

        Raises:
            Exception: It is no proper publisher; nothing was queued.
        """
        owner = self._owner
        size = _element_size(publisher, owner.config.limits.max_element_size)
        subscribe = publisher.subscribe
        if size:
            self.element_size = size
            subscribe = getattr(publisher, "subscribe_packed", subscribe)
        self.begun = True
        if not size:
            self._encode = owner.encode
        owner.queue.put_reply(owner.session.subscribed(self.stream_id, self.element_size))
        try:
            subscribe(self)
        except BaseException as error:  # any error of a publisher ends its stream only
            self._fail_locally(outcome_of(error))

    def add_demand(self, n: int) -> None:
        """The peer takes more elements."""
        self._unrequested = min(self._unrequested + n, MAX_DEMAND)
        self._ask()

    def fail(self, text: str) -> None:
        """End the stream with this text at once: the peer broke a rule."""
        begun = self.begun
        self.stop()
        owner = self._owner
        if begun:
            owner.queue.put_reply(owner.session.error(self.stream_id, text))
        else:
            owner.queue.put_reply(owner.session.refuse(self.stream_id, text))
        owner.forget(self)

    def stop(self) -> None:
        """Send nothing more, and cancel the publisher's side."""
        self.live = False
        self._ended = True
        self._queue.clear()
        self._parts = None
        self._give_back(self.queued_size)
        self._owner.queue.unschedule(self)
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                subscription.cancel()
            except BaseException as error:  # any error of a publisher ends its stream only
                _report(self.name, "cancel", outcome_of(error))
        if self.scope is not None:
            self.scope.cancel(reason="the peer wants no more of this stream")

    # -- Subscriber ---------------------------------------------------------------------------

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """See `rsocket_trio.reactive_streams.Subscriber.on_subscribe`."""
        if subscription is None:
            raise TypeError("a subscription is needed, not None (rule 2.13)")
        if self._subscription is not None or self._ended:
            subscription.cancel()
            return
        self._subscription = subscription
        self._ask()

    def on_next(self, element: Any, /) -> None:
        """See `rsocket_trio.reactive_streams.Subscriber.on_next`."""
        if self._ended:
            return
        size = self.element_size
        if type(element) is not bytes:
            if element is None:
                raise TypeError("an element is needed, not None (rule 2.13)")
            if not isinstance(element, bytes | bytearray | memoryview):
                self._fail_locally(
                    TypeError(f"elements must be bytes, not {type(element).__name__}")
                )
                return
            element = bytes(element)
        if self._encode is not None:
            element = self._encoded(self._encode, element)
            if element is None:
                return
        length = len(element)
        count = 1
        if size:
            count = length // size
            if count * size != length or not count:
                self._fail_locally(
                    ValueError(f"{length} octets are no elements of {size} octets each")
                )
                return
        self._asked -= count
        if self._asked < 0:
            self._fail_locally(
                RuntimeError("the publisher sent more than was requested (rule 1.1)")
            )
            return
        if length > self._largest:
            limit = self._owner.config.limits.max_element_size
            if length > limit:
                self._fail_locally(PublisherError(f"an element is longer than {limit} octets"))
                return
            self._largest = length
        if not self._owner.waiting.take_first(length):
            logger.info("a stream has ended: %s", self._owner.waiting.refusal)
            self._fail_locally(PublisherError("too many elements wait to be read"))
            return
        self.queued_size += length
        self._queue.append(element)
        if not self.scheduled:
            self._owner.queue.schedule(self)

    def _encoded(self, encode: Callable[[bytes], bytes], element: bytes) -> bytes | None:
        """Return what an extension makes of an element; ``None`` if it fails: the stream ends."""
        try:
            return changed(encode, element)
        except BaseException as error:  # any error of an extension ends its stream only
            self._fail_locally(outcome_of(error))
            return None

    def on_complete(self) -> None:
        """See `rsocket_trio.reactive_streams.Subscriber.on_complete`."""
        self._end(None)

    def on_error(self, error: Exception, /) -> None:
        """See `rsocket_trio.reactive_streams.Subscriber.on_error`."""
        if error is None:
            raise TypeError("an error is needed, not None (rule 2.13)")
        if not self._ended:
            self._end(text_for_peer(error, self.name))

    def _fail_locally(self, error: Exception) -> None:
        """End the stream because of a fault of the publisher."""
        subscription, self._subscription = self._subscription, None
        self.on_error(error)
        if subscription is not None:
            try:
                subscription.cancel()
            except BaseException as raised:  # any error of a publisher ends its stream only
                _report(self.name, "cancel", outcome_of(raised))

    def _end(self, error: str | None) -> None:
        """Send the last message behind the elements that are queued."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        self._subscription = None
        self._owner.queue.schedule(self)

    # -- elements -----------------------------------------------------------------------------

    def _ask(self) -> None:
        """Request what the peer wants, but not more than may wait here."""
        if self._asking:
            return
        self._asking = True
        try:
            while (subscription := self._subscription) is not None:
                n = min(self._window() - self._ahead(), self._unrequested)
                if n <= 0:
                    break
                self._asked += n
                if self._unrequested != MAX_DEMAND:
                    self._unrequested -= n
                try:
                    subscription.request(n)
                except BaseException as error:  # any error of a publisher ends its stream only
                    self._fail_locally(outcome_of(error))
        finally:
            self._asking = False

    def _give_back(self, size: int) -> None:
        """Octets have left the queue."""
        self.queued_size -= size
        self._owner.waiting.give_back(size)

    def _ahead(self) -> int:
        """How many elements are asked for or queued."""
        size = self.element_size
        return self._asked + (self.queued_size // size if size else len(self._queue))

    def _window(self) -> int:
        """How many elements may be asked for or queued."""
        owner = self._owner
        config = owner.config
        size = self._ahead_size if self.element_size else config.max_ahead_size
        if owner.waiting.held >= owner.max_queued_size:
            if self.queued_size:
                return 0
            size = config.max_ahead_size // _BEGINNING
        if self.element_size:
            # Their size is known, and packed they cost no more than their octets.
            return max(1, min(size, config.limits.max_element_size) // self.element_size)
        if self._largest < 0:
            return 1  # the first element shows how large they are
        return max(1, min(config.max_ahead, size // (self._largest or 1)))

    @property
    def has_more(self) -> bool:
        """See `rsocket_trio.rsio.connection.send_queue.Sending`."""
        return self.live and bool(self._queue or self._ended or self._parts is not None)

    def write(self, pieces: list[bytes], budget: int) -> int:
        """See `rsocket_trio.rsio.connection.send_queue.Sending`."""
        if not self.live:
            return 0
        size = self._write_elements(pieces, budget)
        if self.live and not self._queue and self._parts is None and self._ended:
            size += self._write_end(pieces)
        elif self._unrequested and 2 * self._ahead() <= self._window():
            self._ahead_size = min(2 * self._ahead_size, self._owner.config.max_ahead_size)
            self._ask()
        return size

    def _write_elements(self, pieces: list[bytes], budget: int) -> int:
        queue = self._queue
        if self._parts is not None:
            return self._write_part(pieces)
        if not queue:
            return 0
        session = self._owner.session
        split_size = self._owner.config.limits.split_size
        if len(queue[0]) > split_size and not self._is_block(queue[0]):
            element = queue.popleft()
            self._split_size = len(element)
            self._parts = session.split(self.stream_id, element)
            return self._write_part(pieces)
        taken: list[bytes] = []
        total = 0
        longest = self._owner.config.limits.max_element_size  # of a packed message too
        while queue and total < budget:
            element = queue[0]
            length = len(element)
            if length > split_size and not self._is_block(element):
                break
            if self.element_size and total + length > longest:
                break
            total += length
            taken.append(queue.popleft())
        self._give_back(total)
        if self.element_size and total > self.element_size:
            block = taken[0] if len(taken) == 1 else b"".join(taken)
            message = session.packed(self.stream_id, block)
        else:
            message = session.elements(self.stream_id, taken)
        pieces.append(message)
        return len(message)

    def _is_block(self, element: bytes) -> bool:
        return bool(self.element_size) and len(element) > self.element_size

    def _write_part(self, pieces: list[bytes]) -> int:
        assert self._parts is not None
        message = next(self._parts, b"")
        if message:
            pieces.append(message)
        else:
            self._parts = None
            self._give_back(self._split_size)  # the parts were made of the whole element
        return len(message)

    def _write_end(self, pieces: list[bytes]) -> int:
        session = self._owner.session
        error = self._error
        self.live = False
        message = (
            session.complete(self.stream_id)
            if error is None
            else session.error(self.stream_id, error)
        )
        pieces.append(message)
        self._owner.forget(self)
        return len(message)


def _element_size(publisher: object, limit: int) -> int:
    """Return the size of all elements of a publisher; 0 if they have different ones."""
    size = getattr(publisher, "element_size", 0)
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"element_size must be an int, not {type(size).__name__}")
    if not 0 <= size <= limit:
        raise ValueError(
            f"element_size is {size}; it must be at least 0, and at most "
            f"RsioLimits.max_element_size, which is {limit}"
        )
    return size


def _report(name: str, what: str, error: Exception) -> None:
    logger.error("the publisher %r raised from %s()", without_query(name), what, exc_info=error)
