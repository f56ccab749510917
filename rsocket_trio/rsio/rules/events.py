"""What a peer has done: the events of a `Session`. In all of them ``subscriber`` is an id."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ..wire.violations import Handling, ViolationCode

__all__ = [
    "CancelReceived",
    "CompleteReceived",
    "ElementsReceived",
    "ErrorReceived",
    "Event",
    "ExtensionReceived",
    "GoodbyeReceived",
    "PackedReceived",
    "PeerHello",
    "RequestReceived",
    "StreamViolation",
    "SubscribeReceived",
    "SubscribedReceived",
    "Violation",
]


@attrs.frozen
class PeerHello:
    """The hello of the peer, its first message.

    Attributes:
        version: 0.
        extensions: The ids of the extensions that the peer supports.
        in_use: Those that both sides support.
    """

    version: int
    extensions: tuple[int, ...]
    in_use: frozenset[int]


@attrs.frozen
class SubscribeReceived:
    """The peer subscribes to a publisher of ours.

    Answer with `Session.subscribed`, or `Session.refuse` if there is no such publisher.

    Attributes:
        subscriber: The id of the stream.
        publisher: The name of the publisher.
        initial_demand: How many elements the peer takes; may be 0.
        excess: The peer has more streams open than `RsioLimits.max_subscriptions`: refuse it.
    """

    subscriber: int
    publisher: str
    initial_demand: int
    excess: bool = False


@attrs.frozen
class RequestReceived:
    """The peer takes more elements of a publisher of ours: ``demand`` more, at least 1."""

    subscriber: int
    demand: int


@attrs.frozen
class CancelReceived:
    """The peer wants no more of a publisher of ours.

    Drop what is not sent yet, and answer with `Session.acknowledge_cancel` before the next call of
    `Session.events`.
    """

    subscriber: int


@attrs.frozen
class SubscribedReceived:
    """A publisher of the peer has accepted our subscription.

    Attributes:
        subscriber: The id of the stream.
        element_size: The size of all elements in bytes; 0 if they have different sizes.
    """

    subscriber: int
    element_size: int


@attrs.frozen
class ElementsReceived:
    """Elements of a publisher of the peer, at least one, in order."""

    subscriber: int
    elements: list[bytes]


@attrs.frozen
class PackedReceived:
    """Packed elements of a publisher of the peer, one behind the other in one object.

    Those of one message come in several of these, as they arrive.

    Attributes:
        subscriber: The id of the stream.
        elements: The elements.
        size: The size of one, in bytes.
        count: How many there are; at least 1.
    """

    subscriber: int
    elements: bytes
    size: int
    count: int


@attrs.frozen
class CompleteReceived:
    """A stream of the peer has ended."""

    subscriber: int


@attrs.frozen
class ErrorReceived:
    """A stream of the peer has failed, with a text of the peer."""

    subscriber: int
    text: str


@attrs.frozen
class GoodbyeReceived:
    """The peer ends the connection, with a text of the peer. All streams are closed.

    Answer with `Session.goodbye`, if that was not sent yet.
    """

    reason: str


@attrs.frozen
class ExtensionReceived:
    """A message of an extension that is in use."""

    type: int
    content: bytes


@attrs.frozen
class StreamViolation:
    """The peer broke a rule, and one stream ends by it. Answer with `Session.error`.

    Attributes:
        subscriber: The id of the stream.
        code: The kind of violation.
        handling: `Handling.STREAM_ERROR`.
        reason: The text for the peer.
    """

    subscriber: int
    code: ViolationCode
    handling: Handling
    reason: str


@attrs.frozen
class Violation:
    """The peer broke a rule, and the connection ends by it. It is the last event.

    Send `Session.goodbye` with the reason and close the connection without waiting for the peer.

    Attributes:
        code: The kind of violation.
        handling: `Handling.CONNECTION_ERROR` or `Handling.VERSION_MISMATCH`.
        reason: The text for the peer.
    """

    code: ViolationCode
    handling: Handling
    reason: str


Event: TypeAlias = (
    PeerHello
    | SubscribeReceived
    | RequestReceived
    | CancelReceived
    | SubscribedReceived
    | ElementsReceived
    | PackedReceived
    | CompleteReceived
    | ErrorReceived
    | GoodbyeReceived
    | ExtensionReceived
    | StreamViolation
    | Violation
)
