"""The state of one connection: `Session`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rsocket_trio.errors import LocalProtocolError

from ..wire.messages import (
    VERSION,
    Buffer,
    Cancel,
    ClientHello,
    Extension,
    Goodbye,
    Request,
    ServerHello,
    Subscribe,
    encode,
    truncated,
)
from ..wire.varint import MAX_VARINT
from .arrivals import Arrivals

__all__ = ["Session"]


class Session(Arrivals):
    """The state of one connection: what each side may send, and what it means.

    `feed` takes what has arrived, and `events` says what it means, some at a time. The other
    methods are what we do. They return the bytes to send, in the order of the calls, and change the
    state at once. They return no bytes if there is nothing to send, because the stream or the
    connection is already over; they raise `LocalProtocolError` if they would break a rule.

    `events` is ahead of its caller by the events it has returned last. So ids stay valid until its
    next call: a stream that has ended in these events has no other stream under its id yet.

    Args:
        role: The side of the connection: a client has opened it.
        limits: The memory that the peer may take.
        extensions: The extensions that we support: their ids, each with the types of its messages.

    Attributes:
        hello_sent: Whether `hello` was called.
        goodbye_sent: Whether `goodbye` was called. Nothing may be sent any more.
        goodbye_received: Whether the peer has sent its goodbye. Without it, an end is not clean.
        in_use: The ids of the extensions that both sides support, after `PeerHello`.
        needs_data: Whether `events` has returned all that can be known. It is false if it has
            reached its limit, and has to be called again before more is fed.
    """

    # The connection.

    def hello(self) -> bytes:
        """Return our hello. A client sends it at once; a server may too."""
        if self.hello_sent:
            raise LocalProtocolError("hello was already sent")
        self.hello_sent = True
        self.update_types()
        ids = tuple(sorted(self._extensions))
        kind = ClientHello if self._role == "client" else ServerHello
        return encode(kind(VERSION, ids))

    def goodbye(self, reason: str) -> bytes:
        """Return our goodbye, and our hello before it if that was not sent.

        All streams are closed by it, and nothing is sent behind it. There is only one: later calls
        return no bytes.
        """
        if self.goodbye_sent:
            return b""
        first = b"" if self.hello_sent else self.hello()
        self.goodbye_sent = True
        self._outgoing.close_all()
        self._incoming.close_all()
        return first + encode(Goodbye(truncated(reason, self._limits.sent_text_size)))

    def extension(self, code: int, content: Buffer) -> bytes:
        """Return a message of an extension, which has to be in use."""
        if self.is_closing():
            return b""
        if code not in self._extension_types or not self.hello_sent:
            raise LocalProtocolError(f"type 0x{code:02x} is of no extension in use")
        return encode(Extension(code, content))

    # Streams of the peer's publishers.

    def subscribe(self, publisher: str, demand: int) -> tuple[int, bytes]:
        """Subscribe to a publisher of the peer.

        Args:
            publisher: Its name.
            demand: How many elements we take at first; may be 0.

        Returns:
            The id of the stream, and the bytes to send.

        Raises:
            LocalProtocolError: ``is_open`` is false, the name is too long or cannot be encoded, the
                demand is not from 0 to 2^63-1, or the peer has yet to confirm
                `RsioLimits.max_cancelled` streams that we have cancelled.
        """
        if not self.is_open:
            raise LocalProtocolError("streams cannot be opened now")
        try:
            size = len(publisher.encode())
        except UnicodeEncodeError:
            raise LocalProtocolError("the name of a publisher has a lone surrogate") from None
        if size > self._limits.max_publisher_size:
            raise LocalProtocolError(
                f"the name of a publisher has {size} bytes, at most"
                f" {self._limits.max_publisher_size}"
            )
        _check_demand(demand, 0)
        self._incoming.check_room()
        subscriber = self._incoming.open(demand)
        return subscriber, encode(Subscribe(publisher, subscriber, demand))

    def request(self, subscriber: int, demand: int) -> bytes:
        """Ask for more elements: from 1 to 2^63-1."""
        _check_demand(demand, 1)
        if self.is_closing() or not self._incoming.add_demand(subscriber, demand):
            return b""
        return encode(Request(subscriber, demand))

    def cancel(self, subscriber: int) -> bytes:
        """Want no more of a stream. Its elements and its end give no events from now on."""
        if self.is_closing() or not self._incoming.cancel(subscriber):
            return b""
        return encode(Cancel(subscriber))

    # Streams of our publishers.

    def demand(self, subscriber: int) -> int:
        """Return how many elements of a stream of ours may be sent now."""
        return 0 if self.is_closing() else self._outgoing.demand(subscriber)

    def subscribed(self, subscriber: int, element_size: int = 0) -> bytes:
        """Accept a subscription. With a size, all elements have it, in bytes."""
        return b"" if self.is_closing() else self._outgoing.subscribed(subscriber, element_size)

    def refuse(self, subscriber: int, text: str) -> bytes:
        """Refuse a subscription: `subscribed` and `error`."""
        return b"" if self.is_closing() else self._outgoing.refuse(subscriber, text)

    def next(self, subscriber: int, element: Buffer) -> bytes:
        """Send one element as one message, however long."""
        return self.elements(subscriber, [element])

    def elements(self, subscriber: int, elements: Sequence[Buffer]) -> bytes:
        """Send elements, each as one message. It is faster than single calls of `next`."""
        return b"" if self.is_closing() else self._outgoing.elements(subscriber, elements)

    def packed(self, subscriber: int, block: Buffer) -> bytes:
        """Send the elements of a block, one behind the other, as one message."""
        return b"" if self.is_closing() else self._outgoing.packed(subscriber, block)

    def split(self, subscriber: int, element: Buffer) -> Iterator[bytes]:
        """Send one element in parts of `RsioLimits.split_size` bytes.

        Returns:
            The messages. Others may be sent between them. If the stream ends before all are sent,
            take no more: end it with `error`, not with `complete`.
        """
        return iter(()) if self.is_closing() else self._outgoing.split(subscriber, element)

    def complete(self, subscriber: int) -> bytes:
        """End a stream."""
        return b"" if self.is_closing() else self._outgoing.complete(subscriber)

    def error(self, subscriber: int, text: str) -> bytes:
        """End a stream with an error. The text goes to the peer, and is cut if it is long."""
        return b"" if self.is_closing() else self._outgoing.error(subscriber, text)

    def acknowledge_cancel(self, subscriber: int) -> bytes:
        """Confirm a `CancelReceived`. The id may be used again from now on."""
        return b"" if self.is_closing() else self._outgoing.acknowledge_cancel(subscriber)


def _check_demand(demand: int, least: int) -> None:
    if not least <= demand <= MAX_VARINT:
        raise LocalProtocolError(f"a demand of {demand} is not from {least} to 2**63-1")
