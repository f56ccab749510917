"""The errors of rsio.

    RSocketError
    └─ RsioError
       ├─ DifferentSizes      elements without a fixed size cannot be read in blocks
       ├─ PublisherError      a publisher has ended with an error: its text
       ├─ HelloRefused        connecting failed: the peer said goodbye; also a `ConnectFailed`
       │  └─ VersionMismatch  connecting failed: the peer has another version of the protocol
       └─ GoodbyeReceived     the peer has closed the connection; also a `ConnectionClosed`

A publisher of ours that ends with a `PublisherError` (or a `rsocket_trio.StreamError`) of its own
sends exactly its text. The text of any other exception stays in this process, also of an error that
another peer has sent. Other ends of a connection
are a `rsocket_trio.ConnectionClosed`, as with RSocket.

A text of the peer is escaped and cut in the text of an error. Its attribute has it as it came.
"""

from __future__ import annotations

from ..errors import ConnectFailed, ConnectionClosed, RSocketError
from ..escapes import printable
from ..uri import without_query

__all__ = [
    "DifferentSizes",
    "GoodbyeReceived",
    "HelloRefused",
    "PublisherError",
    "RsioError",
    "VersionMismatch",
]


class RsioError(RSocketError):
    """The base class of the errors of rsio."""


class DifferentSizes(RsioError):
    """The publisher does not declare one size for its elements, so that they come one by one."""


class PublisherError(RsioError):
    """A publisher has ended with an error.

    A subscriber gets one for the onError of the peer. A publisher that is served may end with one:
    its text is sent to the peer.

    Args:
        text: A text for people.
        publisher: The name of the publisher. It is not sent.

    Raises:
        TypeError: The text is not text.

    Attributes:
        text: The text.
        publisher: The name under which the subscriber asked for the publisher, with its query,
            which the ``str`` of the error hides; ``None`` if the error comes from no peer.
    """

    def __init__(self, text: str, *, publisher: str | None = None) -> None:
        if not isinstance(text, str):
            raise TypeError(f"the text of an error must be a str, not {type(text).__name__}")
        super().__init__(text)
        self.text = text
        self.publisher = publisher

    def __str__(self) -> str:
        text = printable(self.text)
        if self.publisher is None:
            return text
        name = printable(repr(without_query(self.publisher)))
        return f"publisher {name}: {text or 'no reason was given'}"


class HelloRefused(RsioError, ConnectFailed):
    """The peer refused the connection: it said goodbye in place of a hello, or right behind it.

    Attributes:
        reason: The text of its goodbye.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(printable(message))
        self.reason = reason


class VersionMismatch(HelloRefused):
    """The peer has another version of the protocol. It has ignored everything that was sent."""


class GoodbyeReceived(RsioError, ConnectionClosed):
    """The peer has closed the connection in the orderly way.

    Attributes:
        reason: The text of its goodbye, which may be empty.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the peer closed the connection: {printable(self.reason) or 'goodbye'}"
