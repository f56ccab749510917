"""What arrives on a connection, and what it means: `Arrivals`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, NoReturn

from rsocket_trio.errors import LocalProtocolError

from ..limits import DEFAULT_LIMITS, RsioLimits
from ..wire.checks import Checks
from ..wire.decoder import MessageDecoder
from ..wire.messages import (
    FIRST_EXTENSION_TYPE,
    LAST_EXTENSION_TYPE,
    Cancel,
    ClientHello,
    Extension,
    Goodbye,
    Message,
    MessageType,
    OnComplete,
    OnError,
    OnNext,
    OnNextLastPart,
    OnNextPacked,
    OnNextPart,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from ..wire.varint import MAX_VARINT
from ..wire.violations import Handling, ProtocolViolation, ViolationCode
from .events import (
    CancelReceived,
    CompleteReceived,
    ElementsReceived,
    ErrorReceived,
    Event,
    ExtensionReceived,
    GoodbyeReceived,
    PackedReceived,
    PeerHello,
    RequestReceived,
    StreamViolation,
    SubscribedReceived,
    SubscribeReceived,
    Violation,
)
from .incoming import Incoming
from .outgoing import Outgoing

__all__ = ["ZERO_DEMAND", "Arrivals"]

ZERO_DEMAND: Final = "rule 3.9: a request must have a positive demand, not 0"
"""The text for a peer that requests 0 elements."""

_HELLOS: Final = frozenset(map(int, (MessageType.CLIENT_HELLO, MessageType.SERVER_HELLO)))
_BASE_TYPES: Final = frozenset(map(int, MessageType)) - _HELLOS
"""What may come behind the hello without an extension."""


class Arrivals:
    """The part of a `Session` for what arrives. The attributes are those of `Session`."""

    def __init__(
        self,
        role: Literal["client", "server"],
        limits: RsioLimits = DEFAULT_LIMITS,
        extensions: Mapping[int, Collection[int]] | None = None,
    ) -> None:
        self._role: Final = role
        self._limits: Final = limits
        self._extensions: Final = dict(extensions or {})
        for extension, types in self._extensions.items():
            if not 1 <= extension <= MAX_VARINT:
                raise ValueError(f"the id of an extension cannot be {extension}")
            if any(not FIRST_EXTENSION_TYPE <= each <= LAST_EXTENSION_TYPE for each in types):
                raise ValueError(f"extension {extension} has types that are not 0x40 to 0x7f")
        if len(self._extensions) > limits.max_extensions:
            raise ValueError(f"there are {len(self._extensions)} extensions")
        self._extension_types: frozenset[int] = frozenset()
        self._incoming: Final = Incoming(limits)
        self._outgoing: Final = Outgoing(limits)
        hello = MessageType.SERVER_HELLO if role == "client" else MessageType.CLIENT_HELLO
        self._checks: Final = _SessionChecks(hello, self._incoming, self._outgoing)
        self._decoder: Final = MessageDecoder(limits, checks=self._checks)
        self._held: Subscribe | None = None
        self._hello_received = False
        self._over = False
        self.hello_sent = False
        self.goodbye_sent = False
        self.goodbye_received = False
        self.in_use: frozenset[int] = frozenset()
        self.needs_data = True

    # What arrives.

    def feed(self, data: bytes | bytearray) -> None:
        """Take bytes of the peer. Behind its goodbye, or a violation, they are dropped."""
        if not self._over:
            self._decoder.feed(data)
            self.needs_data = False

    @property
    def pending(self) -> bool:
        """Whether a part of a message has arrived. If the peer ends now, it is cut off."""
        return self._decoder.pending

    @property
    def is_open(self) -> bool:
        """Whether streams can be opened: the hellos are sent as needed, and no goodbye."""
        return (
            self.hello_sent
            and (self._role == "client" or self._hello_received)
            and not (self.goodbye_sent or self.goodbye_received or self._over)
        )

    def events(self, limit: int = 256) -> list[Event]:
        """Return what the bytes mean that were fed.

        Args:
            limit: How many messages are handled, at most. Others can run before the next call.

        Returns:
            The events, in order. Messages without effect give none, so an empty list does not say
            that all is handled; ``needs_data`` says so.
        """
        self._incoming.forget_ended()
        events: list[Event] = []
        if self._over:
            self.needs_data = True
            return events
        decoder = self._decoder
        left = limit
        try:
            if self._held is not None:
                left -= self._subscribe(self._held, events)
            while left > 0 and not self._over:
                run = decoder.next_elements(left)
                if run is not None:
                    subscriber, elements = run
                    left -= len(elements)
                    if self._incoming.take(subscriber, len(elements)):
                        events.append(ElementsReceived(subscriber, elements))
                    continue
                message = decoder.next_message()
                if message is None:
                    self.needs_data = True
                    return events
                if type(message) is Subscribe and message.subscriber in self._outgoing:
                    # The cancel of the old stream has to be acknowledged first.
                    self._held = message
                    return events
                left -= self._handle(message, events)
        except ProtocolViolation as violation:
            self._over = True
            events.append(_event_of(violation))
        self.needs_data = self._over
        return events

    def _handle(self, message: Message, events: list[Event]) -> int:
        incoming, outgoing = self._incoming, self._outgoing
        match message:
            case OnNext(subscriber, element):
                if incoming.take(subscriber, 1):
                    events.append(ElementsReceived(subscriber, [bytes(element)]))
            case OnNextPacked(subscriber, count, elements, size):
                if incoming.take(subscriber, count):
                    events.append(PackedReceived(subscriber, bytes(elements), size, count))
            case OnNextPart(subscriber, element_id, data):
                incoming.part(subscriber, element_id, bytes(data))
            case OnNextLastPart(subscriber, element_id, data):
                joined = incoming.last_part(subscriber, element_id, bytes(data))
                if joined is not None:
                    events.append(ElementsReceived(subscriber, [joined]))
            case Request(subscriber, demand):
                if demand and outgoing.add_demand(subscriber, demand):
                    events.append(RequestReceived(subscriber, demand))
                elif not demand and outgoing.add_demand(subscriber, 0):
                    events.append(
                        StreamViolation(
                            subscriber,
                            ViolationCode.DEMAND_ZERO,
                            Handling.STREAM_ERROR,
                            ZERO_DEMAND,
                        )
                    )
            case Cancel(subscriber):
                if outgoing.cancel(subscriber):
                    events.append(CancelReceived(subscriber))
            case Subscribe():
                self._subscribe(message, events)
            case Subscribed(subscriber, size):
                if incoming.subscribed(subscriber, size):
                    events.append(SubscribedReceived(subscriber, size))
            case OnComplete(subscriber):
                if incoming.end(subscriber):
                    events.append(CompleteReceived(subscriber))
            case OnError(subscriber, text):
                if incoming.end(subscriber):
                    events.append(ErrorReceived(subscriber, text))
            case Extension(code, content):
                if not self.goodbye_sent:
                    events.append(ExtensionReceived(code, bytes(content)))
            case ClientHello(version, extensions) | ServerHello(version, extensions):
                self._hello_received = True
                self.in_use = frozenset(extensions) & frozenset(self._extensions)
                self._checks.types = _BASE_TYPES
                self.update_types()
                events.append(PeerHello(version, extensions, self.in_use))
            case Goodbye(reason):
                self.goodbye_received = self._over = True
                self._outgoing.close_all()
                self._incoming.close_all()
                events.append(GoodbyeReceived(reason))
        return 1

    def _subscribe(self, message: Subscribe, events: list[Event]) -> int:
        subscriber = message.subscriber
        self._held = None
        if self.goodbye_sent:
            return 1
        if subscriber in self._outgoing:
            raise LocalProtocolError(f"the cancel of stream {subscriber} was not acknowledged")
        excess = self._outgoing.open(subscriber, message.initial_demand)
        events.append(
            SubscribeReceived(subscriber, message.publisher, message.initial_demand, excess)
        )
        return 1

    def update_types(self) -> None:
        """Let the messages of extensions in use come, when both hellos are there."""
        if self.hello_sent and self._hello_received:
            self._extension_types = frozenset(
                code for each in self.in_use for code in self._extensions[each]
            )
            self._checks.types = _BASE_TYPES | self._extension_types

    def is_closing(self) -> bool:
        """Whether one side has sent its goodbye: all streams are closed."""
        return self.goodbye_sent or self.goodbye_received


class _SessionChecks(Checks):
    """Asks the parts of the session while a message arrives."""

    def __init__(self, hello: MessageType, incoming: Incoming, outgoing: Outgoing) -> None:
        super().__init__(incoming.element_size)
        self.types = frozenset((int(hello),))
        # They have the signatures of the methods; a method here would only call them.
        self.credit = incoming.credit  # type: ignore[method-assign]  # see above
        self.subscribe = outgoing.check_subscribe  # type: ignore[method-assign]  # see above
        self.signal = incoming.check_signal  # type: ignore[method-assign]  # see above
        self.packed = incoming.check_packed  # type: ignore[method-assign]  # see above
        self.part = incoming.check_part  # type: ignore[method-assign]  # see above
        self.part_size = incoming.check_part_size  # type: ignore[method-assign]  # see above

    def refuse_type(self, code: int) -> NoReturn:
        if len(self.types) == 1:
            raise ProtocolViolation(ViolationCode.HELLO_EXPECTED, f"not type 0x{code:02x}")
        if code in _HELLOS:
            raise ProtocolViolation(ViolationCode.HELLO_REPEATED, f"type 0x{code:02x}")
        super().refuse_type(code)


def _event_of(violation: ProtocolViolation) -> Violation:
    return Violation(violation.code, violation.handling, violation.reason)
