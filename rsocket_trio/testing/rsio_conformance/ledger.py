"""What both ends of a connection have said, and the rules that hold for each message: `Ledger`.

Most rules are about all messages of all tests: `subscribed` comes first, no element exceeds the
demand, nothing follows an end. So each message of the peer is checked here, whatever the test is
about.
"""

from __future__ import annotations

import attrs

from .parser import Message
from .verdicts import Breach

__all__ = ["Incoming", "Ledger", "Outgoing"]


@attrs.define(kw_only=True)
class Incoming:
    """A stream that we have subscribed to.

    Attributes:
        name: The publisher.
        id: The subscriber.
        demand: What we have asked for, in elements.
        used: How much of it the peer has used.
        element_size: Of ``subscribed``; ``None`` before it.
        elements: The elements, in the order in which they were complete.
        parts: The split elements that are not complete.
        cancelled: Whether we have cancelled it.
        ended: "onComplete" or "onError", or "" while it lasts.
        error: The text of onError.
        messages: All its messages.
    """

    name: str
    id: int
    demand: int
    used: int = 0
    element_size: int | None = None
    elements: list[bytes] = attrs.field(factory=list)
    parts: dict[int, bytes] = attrs.field(factory=dict)
    cancelled: bool = False
    ended: str = ""
    error: str = ""
    messages: list[Message] = attrs.field(factory=list)


@attrs.define(kw_only=True)
class Outgoing:
    """A stream that the peer has subscribed to.

    Attributes:
        name: The publisher.
        id: The subscriber.
        demand: What the peer has asked for, in elements.
        used: How many elements, or first parts, we have sent.
        element_size: Of our ``subscribed``.
        cancelled: Whether the peer has cancelled it.
        ended: Whether we have completed or failed it.
        initial: The demand of the subscribe message.
    """

    name: str
    id: int
    demand: int
    used: int = 0
    element_size: int = 0
    cancelled: bool = False
    ended: bool = False
    initial: int = 0


class Ledger:
    """Both directions of a connection.

    Args:
        peer_hello: The name of the hello that the peer has to send.

    Attributes:
        hello: The hello of the peer.
        goodbye: The goodbye of the peer.
        incoming: What we have subscribed to, the oldest first.
        outgoing: What the peer has subscribed to, the oldest first.
        extended: Whether messages of extensions are allowed.
    """

    def __init__(self, peer_hello: str) -> None:
        self.hello: Message | None = None
        self.goodbye: Message | None = None
        self.incoming: list[Incoming] = []
        self.outgoing: list[Outgoing] = []
        self.extended = False
        self._peer_hello = peer_hello
        # The streams that have not ended, by subscriber: two if it was used again after a cancel.
        self._open: dict[int, list[Incoming]] = {}
        self._parts_sent: set[tuple[int, int]] = set()

    def size_of_incoming(self, subscriber: int) -> int:
        """Return the size of the elements that the peer sends to a subscriber of ours."""
        stream = self._current("an element", subscriber)
        if stream.element_size is None:
            raise Breach("RSIO-23", f"an element for {subscriber} precedes its subscribed")
        return stream.element_size

    def size_of_outgoing(self, subscriber: int) -> int:
        """Return the size of the elements that we send to a subscriber of the peer."""
        stream = self._latest(subscriber)
        return stream.element_size if stream else 0

    def _latest(self, subscriber: int) -> Outgoing | None:
        streams = (each for each in reversed(self.outgoing) if each.id == subscriber)
        return next(streams, None)

    def _current(self, what: str, subscriber: int) -> Incoming:
        streams = self._open.get(subscriber)
        if streams:
            return streams[0]
        if any(each.id == subscriber for each in self.incoming):
            raise Breach("RSIO-26", f"{what} for {subscriber} follows the end of its stream")
        raise Breach("RSIO-32", f"{what} for {subscriber}, which we have not subscribed")

    def sent(self, message: Message) -> None:
        """Record a message of ours."""
        subscriber = message.id
        if message.name == "subscribe":
            stream = Incoming(name=message.text, id=subscriber, demand=message.number)
            self.incoming.append(stream)
            self._open.setdefault(subscriber, []).append(stream)
        elif message.name in {"request", "cancel"}:
            for each in self._open.get(subscriber, [])[-1:]:
                each.demand += message.number
                each.cancelled = each.cancelled or message.name == "cancel"
        else:
            self._published(message)

    def _published(self, message: Message) -> None:
        stream = self._latest(message.id)
        if stream is None:
            return
        if message.name == "subscribed":
            stream.element_size = message.number
        elif message.name == "onNext":
            stream.used += 1
        elif message.name == "onNextPacked":
            stream.used += message.number
        elif message.name == "onNextPart":
            if (message.id, message.number) not in self._parts_sent:
                self._parts_sent.add((message.id, message.number))
                stream.used += 1
        elif message.name == "onNextLastPart":
            self._parts_sent.discard((message.id, message.number))
        elif message.name in {"onComplete", "onError"}:
            stream.ended = True

    def received(self, message: Message) -> None:
        """Check and record a message of the peer.

        Raises:
            Breach: It breaks a rule.
        """
        name = message.name
        if self.goodbye is not None:
            rule = "RSIO-57" if name == "goodbye" else "B19"
            raise Breach(rule, f"{name} follows the goodbye of the peer")
        if name in {"clientHello", "serverHello"}:
            self._greeted(message)
            return
        if self.hello is None:
            rule = "RSIO-07" if self._peer_hello == "clientHello" else "RSIO-08"
            raise Breach(rule, f"the first message of the peer is {name}, not {self._peer_hello}")
        if name == "goodbye":
            self.goodbye = message
        elif name == "extension":
            if not self.extended:
                raise Breach("RSIO-13", f"a message of type 0x{message.id:02x} was not negotiated")
        elif name in {"subscribe", "request", "cancel"}:
            self._subscribing(message)
        else:
            self._publishing(message)

    def _greeted(self, message: Message) -> None:
        if self.hello is not None:
            raise Breach("B02", "the peer sends a second hello")
        if message.name != self._peer_hello:
            raise Breach("RSIO-08", f"the peer sends {message.name}, not {self._peer_hello}")
        self.hello = message

    def _subscribing(self, message: Message) -> None:
        name, subscriber = message.name, message.id
        stream = self._latest(subscriber)
        if name == "subscribe":
            if stream and not stream.cancelled and not stream.ended:
                raise Breach("RSIO-38", f"subscribe takes the id {subscriber}, which is in use")
            demand = message.number
            self.outgoing.append(
                Outgoing(name=message.text, id=subscriber, demand=demand, initial=demand)
            )
            return
        if stream is None:
            raise Breach("RSIO-37", f"{name} for {subscriber}, which the peer has not subscribed")
        if stream.cancelled:
            raise Breach(
                "RSIO-37", f"{name} for {subscriber} follows the cancel of that subscription"
            )
        if name == "cancel":
            stream.cancelled = True
        elif not message.number:
            raise Breach("RSIO-39", f"the peer requests 0 elements for {subscriber}")
        else:
            stream.demand += message.number

    def _publishing(self, message: Message) -> None:
        name, subscriber = message.name, message.id
        stream = self._current(name, subscriber)
        stream.messages.append(message)
        if name == "subscribed":
            if stream.element_size is not None:
                raise Breach("RSIO-23", f"a second subscribed for {subscriber}")
            stream.element_size = message.number
            return
        if stream.element_size is None:
            raise Breach("RSIO-23", f"{name} for {subscriber} precedes its subscribed")
        if name in {"onComplete", "onError"}:
            self._ended(stream, message)
        elif name == "onNext":
            self._took(stream, 1)
            stream.elements.append(message.data)
        elif name == "onNextPacked":
            self._took(stream, message.number)
            size = stream.element_size
            data = message.data
            stream.elements += [data[at : at + size] for at in range(0, len(data), size)]
        else:
            self._split(stream, message)

    def _took(self, stream: Incoming, count: int) -> None:
        stream.used += count
        if stream.used > stream.demand:
            text = f"{stream.used} elements for {stream.id}, whose demand is {stream.demand}"
            raise Breach("RSIO-24", text)

    def _split(self, stream: Incoming, message: Message) -> None:
        number = message.number
        if number not in stream.parts:
            if message.name == "onNextLastPart":
                raise Breach("RSIO-49", f"a last part for {stream.id} with no part before it")
            self._took(stream, 1)
        data = stream.parts.pop(number, b"") + message.data
        if message.name == "onNextPart":
            stream.parts[number] = data
            return
        if stream.element_size and len(data) != stream.element_size:
            text = f"parts of {len(data)} octets, where elements have {stream.element_size}"
            raise Breach("RSIO-35", text)
        stream.elements.append(data)

    def _ended(self, stream: Incoming, message: Message) -> None:
        if stream.parts and message.name == "onComplete":
            raise Breach("B12", f"onComplete for {stream.id}, with an element that is not complete")
        stream.ended = message.name
        stream.error = message.text
        streams = self._open[stream.id]
        streams.remove(stream)
        if not streams:
            del self._open[stream.id]
