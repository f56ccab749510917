"""Our subscriptions to publishers of the peer: `RemoteSubscription`, `Subscriptions`.

The reader of the connection calls the subscribers, and never waits for one: a subscriber gets only
what it has requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ...entrance import get_ident, not_at_home
from ...errors import LocalProtocolError, fresh_copy, outcome_of_ours
from ...escapes import printable
from ...interactions.isolation import outcome_of
from ...reactive_streams.checks import demand_error
from ...reactive_streams.demand import MAX_DEMAND
from ...reactive_streams.emission import report_failure
from ...reactive_streams.inbox import ElementInbox
from ...reactive_streams.unread import UnreadAccount
from ..errors import PublisherError, RsioError
from ..receiving import PackedInbox
from .changes import changed

if TYPE_CHECKING:
    from ...reactive_streams.interfaces import Subscriber
    from ..rules.session import Session
    from .send_queue import SendQueue

__all__ = ["BlockSubscriber", "RemoteSubscription", "Subscriptions"]


@runtime_checkable
class BlockSubscriber(Protocol):
    """A subscriber that takes packed elements as they come, many at once.

    Its demand still counts elements.
    """

    def on_block(self, elements: bytes, size: int, count: int, /) -> None:
        """Receive ``count`` elements of ``size`` octets, one behind the other."""


class RemoteSubscription:
    """The subscription of one subscriber; see `rsocket_trio.reactive_streams.Subscription`.

    Attributes:
        stream_id: The id of the stream; -1 before the peer is asked.
        element_size: The size of all elements in octets, 0 if they have different ones, -1 if it
            is not known yet.
    """

    __slots__ = (
        "_decode",
        "_name",
        "_on_block",
        "_outcome",
        "_owner",
        "_pending",
        "_signalling",
        "_subscriber",
        "_thread",
        "element_size",
        "stream_id",
    )

    def __init__(self, owner: Subscriptions, name: str, subscriber: Subscriber[Any]) -> None:
        self._owner = owner
        self._name = name
        self._subscriber: Subscriber[Any] | None = subscriber
        self._on_block: Callable[[bytes, int, int], object] | None = None
        if isinstance(subscriber, BlockSubscriber):
            self._on_block = subscriber.on_block
        self._decode: Callable[[bytes], bytes] | None = None
        self._pending = 0
        self._signalling = False
        self._outcome: Exception | None = None  # `on_error` that waits for the end of a signal
        self._thread = get_ident()  # of a caller in a wrong thread, if it is one
        self.stream_id = -1
        self.element_size = -1

    # -- Subscription -------------------------------------------------------------------------

    def request(self, n: int, /) -> None:
        """See `rsocket_trio.reactive_streams.Subscription.request`.

        Requests of one turn leave as one message.

        Raises:
            RuntimeError: The caller is in another thread than the connection.
        """
        if self._subscriber is None or self._outcome is not None:
            return
        if get_ident() != self._thread:
            raise not_at_home("this subscription")
        if type(n) is not int or n <= 0:
            error = demand_error(n)
            if error is not None:
                self._give_up(error)
                return
            n = int(n)
        self._pending = min(self._pending + n, MAX_DEMAND)
        if self.stream_id >= 0:
            self._owner.queue.note_demand(self)

    def cancel(self) -> None:
        """See `rsocket_trio.reactive_streams.Subscription.cancel`.

        Raises:
            RuntimeError: The caller is in another thread than the connection.
        """
        if self._subscriber is not None:
            if get_ident() != self._thread:
                raise not_at_home("this subscription")
            self._forget()
            self._owner.cancel(self)

    # -- for the connection -------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether the subscriber still gets signals."""
        return self._subscriber is not None

    def begin(self) -> int | None:
        """Send ``on_subscribe``; return the demand that it has left, ``None`` if it wants none."""
        assert self._subscriber is not None
        self._signal("on_subscribe", self._subscriber.on_subscribe, self)
        if not self.live:
            return None
        pending, self._pending = self._pending, 0
        return pending

    def write_request(self) -> bytes:
        """See `rsocket_trio.rsio.connection.send_queue.Demanding`."""
        pending, self._pending = self._pending, 0
        if self._subscriber is None or not pending:
            return b""
        return self._owner.session.request(self.stream_id, pending)

    def accepted(self, element_size: int, decode: Callable[[bytes], bytes] | None) -> None:
        """The peer has accepted it."""
        self.element_size = element_size
        if not element_size:
            self._decode = decode

    def elements(self, elements: list[bytes]) -> None:
        """Deliver elements."""
        if self._on_block is not None and self.element_size > 0:
            self.block(b"".join(elements), self.element_size, len(elements))
            return
        if self._decode is not None:
            self._decode_all(self._decode, elements)
            return
        self._deliver(elements)

    def _deliver(self, elements: list[bytes]) -> None:
        subscriber = self._subscriber
        if subscriber is None:
            return
        self._signalling = True
        on_next = subscriber.on_next
        del subscriber
        try:
            for element in elements:
                on_next(element)
                if self._subscriber is None or self._outcome is not None:
                    break
        except BaseException as error:  # any error of a subscriber ends its subscription only
            self._raised("on_next", error)
        self._signalling = False
        if self._outcome is not None:
            self._give_up(self._outcome)

    def _decode_all(self, decode: Callable[[bytes], bytes], elements: list[bytes]) -> None:
        """Deliver elements one by one: decoded ones may be a thousand times as large."""
        for element in elements:
            if self._subscriber is None:
                return
            try:
                decoded = changed(decode, element)
            except BaseException as error:  # of the extension: the element cannot be read
                text = printable(str(outcome_of(error)))
                self._give_up(RsioError(f"an element cannot be decoded: {text}"))
                return
            self._deliver([decoded])

    def block(self, elements: bytes, size: int, count: int) -> None:
        """Deliver packed elements."""
        on_block = self._on_block
        if on_block is not None:
            self._signal("on_block", on_block, elements, size, count)
            return
        self.elements([elements[at : at + size] for at in range(0, count * size, size)])

    def complete(self) -> None:
        """Deliver the end."""
        subscriber = self._subscriber
        if subscriber is not None:
            self._forget()
            _call("on_complete", subscriber.on_complete)

    def fail_with(self, text: str) -> None:
        """Deliver the error of the peer's publisher."""
        # Only we know which publisher it is: the peer sends no name, and could send any.
        self.fail(outcome_of_ours(PublisherError(text, publisher=self._name)))

    def fail(self, error: Exception) -> None:
        """Deliver an error: the stream is over."""
        subscriber = self._subscriber
        if subscriber is not None:
            self._forget()
            _call("on_error", subscriber.on_error, error)

    def _signal(self, name: str, signal: Callable[..., object], *arguments: Any) -> None:
        """Send a signal that is not the last one, then what it has caused."""
        self._signalling = True
        try:
            signal(*arguments)
        except BaseException as error:  # any error of a subscriber ends its subscription only
            self._raised(name, error)
        self._signalling = False
        if self._outcome is not None:
            self._give_up(self._outcome)

    def _raised(self, name: str, error: BaseException) -> None:
        """The subscriber has raised, so it is not called any more (rule 2.13)."""
        self._signalling = False
        self.cancel()
        report_failure(name, outcome_of(error))

    def _give_up(self, error: Exception) -> None:
        """End the stream by a mistake of the subscriber, after the signal that is running."""
        if self._signalling:
            self._outcome = error
            return
        self._outcome = None
        subscriber = self._subscriber
        self.cancel()
        if subscriber is not None:
            _call("on_error", subscriber.on_error, error)

    def _forget(self) -> None:
        self._subscriber = None
        self._on_block = None
        self._outcome = None
        self._pending = 0


class Subscriptions:
    """All of them, by the ids of their streams.

    Attributes:
        session: The rules of the connection.
        queue: Takes the messages.
        by_id: The subscriptions that may still get signals.
        unread: Counts the octets that wait for readers of this package.
        decode: An extension's change of the elements of streams that begin.
    """

    def __init__(self, session: Session, queue: SendQueue, max_unread_size: int) -> None:
        self.unread: Final = UnreadAccount(max_unread_size, "RsioConfig.max_unread_size")
        self.session: Final = session
        self.queue: Final = queue
        self.by_id: dict[int, RemoteSubscription] = {}
        self.decode: Callable[[bytes], bytes] | None = None
        self._failure: Exception | None = None
        self._thread: Final = get_ident()

    def subscribe(self, name: str, subscriber: Subscriber[Any]) -> RemoteSubscription:
        """Subscribe to a publisher of the peer. The demand of ``on_subscribe`` goes with it."""
        if get_ident() != self._thread:
            stranger = RemoteSubscription(self, name, subscriber)
            if stranger.begin() is not None:
                stranger.fail(not_at_home("this publisher"))  # rule 1.9: an error is a signal
            return stranger
        if isinstance(subscriber, ElementInbox | PackedInbox):
            subscriber.account = self.unread
        subscription = RemoteSubscription(self, name, subscriber)
        demand = subscription.begin()
        if demand is None:
            return subscription
        failure = self._failure
        if failure is not None:
            subscription.fail(fresh_copy(failure))
            return subscription
        try:
            stream_id, message = self.session.subscribe(name, demand)
        except (ValueError, LocalProtocolError) as error:  # e.g. the name is too long
            subscription.fail(error)
            return subscription
        subscription.stream_id = stream_id
        self.by_id[stream_id] = subscription
        self.queue.put_question(message)
        return subscription

    def cancel(self, subscription: RemoteSubscription) -> None:
        """Tell the peer that the subscriber wants no more."""
        stream_id = subscription.stream_id
        if self._failure is None and self.by_id.get(stream_id) is subscription:
            del self.by_id[stream_id]
            self.queue.put_question(self.session.cancel(stream_id))

    def subscribed(self, stream_id: int, element_size: int) -> None:
        """The peer has accepted a subscription."""
        subscription = self.by_id.get(stream_id)
        if subscription is not None:
            subscription.accepted(element_size, self.decode)

    def complete(self, stream_id: int) -> None:
        """The peer has ended a stream."""
        subscription = self.by_id.pop(stream_id, None)
        if subscription is not None:
            subscription.complete()

    def fail(self, stream_id: int, text: str) -> None:
        """The peer has ended a stream with an error."""
        subscription = self.by_id.pop(stream_id, None)
        if subscription is not None:
            subscription.fail_with(text)

    def end(self, error: Exception) -> None:
        """The connection is over: every subscriber gets the error."""
        self._failure = error
        ended = list(self.by_id.values())
        self.by_id.clear()
        for subscription in ended:
            subscription.fail(fresh_copy(error))


def _call(name: str, signal: Callable[..., object], *arguments: Any) -> None:
    """Send the last signal of a subscription."""
    try:
        signal(*arguments)
    except BaseException as error:  # any error of a subscriber ends its subscription only
        report_failure(name, outcome_of(error))
