"""Every error this package raises, and the error codes of the protocol.

    RSocketError
    ├─ ProtocolError                base: one side broke the rules of the protocol
    │  ├─ LocalProtocolError        you asked for something illegal; nothing was sent
    │  │  └─ StreamIdsExhausted     a connection has sent all requests it can: make a new one
    │  └─ RemoteProtocolError       the peer did; the stream or the connection is over
    │     └─ MalformedFrame         bytes that cannot be read as a frame
    │        └─ MetadataLengthError its metadata runs past its end
    ├─ MetadataError                metadata that does not fit its MIME type
    │  └─ MetadataTooLarge          metadata of more parts than `Limits` allow
    ├─ ConnectFailed                no connection could be made (see ``__cause__``)
    ├─ SetupError                   the peer refused our SETUP: code and reason
    │  ├─ InvalidSetup  ├─ UnsupportedSetup  ├─ RejectedSetup
    ├─ ConnectionClosed             the connection is over; ``__cause__`` says why
    │  ├─ ConnectionLost            the transport broke, or the peer fell silent
    │  ├─ ClosedByPeer              the peer ended it with an ERROR on stream 0
    │  ├─ RejectedResume            the peer refused our RESUME
    │  └─ NotConnected              a client that connects again has no connection now
    ├─ StreamError                  an ERROR on one stream: code, data, stream_id
    │  ├─ ApplicationError  ├─ Rejected  ├─ Canceled  ├─ Invalid  ├─ CustomError
    ├─ MissingLease                 leases are in use, and no lease allows the request
    ├─ CircuitOpen                  too many requests in a row have failed: it was not sent
    └─ InternalError                a task of a connection crashed: the text says where to look

A handler that makes and raises a `StreamError` sends exactly that code and text to the peer. Every
other exception stays in this process (see `rsocket_trio.responder`); so does a `StreamError` that
is the outcome of a request of its own (`RSocketError.of_our_request`). After *your own* close,
operations raise `trio.ClosedResourceError`, as everywhere in trio.
"""

from __future__ import annotations

import copy
import re
from enum import IntEnum
from typing import ClassVar, Final, TypeVar

from .escapes import escaped

__all__ = [
    "ApplicationError",
    "Canceled",
    "CircuitOpen",
    "ClosedByPeer",
    "ConnectFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "CustomError",
    "ErrorCode",
    "Forbidden",
    "FrameTooLong",
    "InternalError",
    "Invalid",
    "InvalidSetup",
    "LimitReached",
    "LocalProtocolError",
    "MalformedFrame",
    "MetadataError",
    "MetadataLengthError",
    "MetadataTooLarge",
    "MissingLease",
    "NotConnected",
    "ProtocolError",
    "RSocketError",
    "Rejected",
    "RejectedResume",
    "RejectedSetup",
    "RemoteProtocolError",
    "SetupError",
    "StreamError",
    "StreamIdsExhausted",
    "Unauthenticated",
    "UnsupportedSetup",
    "addressed",
    "fresh_copy",
    "never_sent",
    "outcome_of_ours",
    "seconds_to_wait",
    "setup_error",
    "setup_refusal",
    "single_error",
    "stream_error",
]

_E = TypeVar("_E", bound=Exception)
_R = TypeVar("_R", bound="RSocketError")


class ErrorCode(IntEnum):
    """The codes of Protocol.md, "Error Codes".

    A peer may send any 32-bit number; 0x301 to 0xFFFFFFFE belong to applications.
    """

    INVALID_SETUP = 0x001
    UNSUPPORTED_SETUP = 0x002
    REJECTED_SETUP = 0x003
    REJECTED_RESUME = 0x004
    CONNECTION_ERROR = 0x101
    CONNECTION_CLOSE = 0x102
    APPLICATION_ERROR = 0x201
    REJECTED = 0x202
    CANCELED = 0x203
    INVALID = 0x204


FIRST_CUSTOM_CODE: Final = 0x301
LAST_CUSTOM_CODE: Final = 0xFFFFFFFE
_OUR_NAMES: Final = {4401: "UNAUTHENTICATED", 4403: "FORBIDDEN"}


def code_name(code: int) -> str:
    """Return the name of ``code`` here or in the specification, or the number in hexadecimal."""
    try:
        return _OUR_NAMES.get(code) or ErrorCode(code).name
    except ValueError:
        return f"0x{code:08x}"


class RSocketError(Exception):
    """The base class of the errors of this package.

    Attributes:
        of_our_request: Whether this is what a request, a call or a connection of ours has ended
            with. Such an error speaks about another peer than the one whose request a handler
            answers. So a handler that lets it fall through has failed, and does not answer with it.
        sent: Of an error with which a request of ours has ended: false if nothing of the request
            has left this process. True if it has left, or may have.
        unprocessed: Whether it is certain that the peer has not begun to process that request, so
            that it may be repeated: it was not sent, or the peer says so.
        transient: Whether the same request may succeed in a moment: the peer was too busy, or has
            stopped.
    """

    of_our_request: bool = False
    sent: bool = True
    unprocessed: bool = False
    transient: ClassVar[bool] = False


class ProtocolError(RSocketError):
    """One side broke the rules of the protocol; the two subclasses say which side."""


class LocalProtocolError(ProtocolError):
    """You asked for something the protocol does not allow; nothing was sent."""

    sent = False
    unprocessed = True


class StreamIdsExhausted(LocalProtocolError):
    """The connection has sent as many requests as it can; nothing was sent.

    Each request has an id of its own, and a connection of RSocket has 2^30 of them for each side.
    Open streams go on. For more requests make a new connection: a client with
    ``reconnect=`` does so itself, before the ids are used up.
    """


class RemoteProtocolError(ProtocolError):
    """The peer did something the protocol does not allow.

    Attributes:
        code: The error code that we send to the peer.
        stream_id: The stream that ends, or 0 for the connection.
    """

    def __init__(
        self, message: str, *, code: int = ErrorCode.CONNECTION_ERROR, stream_id: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.stream_id = stream_id


class FrameTooLong(RemoteProtocolError):
    """The peer announced a frame that is longer than it may be. None of its bytes is kept.

    Attributes:
        size: The bytes of the frame, as far as they were announced.
        limit: The most that it may have.
    """

    def __init__(self, message: str, *, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class MalformedFrame(RemoteProtocolError):
    """Bytes that cannot be read as a frame.

    Attributes:
        ignorable: The sender set the I flag: skip the frame and keep the connection (Protocol.md,
            "Frame Header Format").
    """

    def __init__(self, message: str, *, stream_id: int = 0, ignorable: bool = False) -> None:
        super().__init__(message, stream_id=stream_id)
        self.ignorable = ignorable


class MetadataLengthError(MalformedFrame):
    """The metadata of a frame, or its length, runs past the end of the frame.

    It has its own class because it has its own rule: CONNECTION_ERROR, also for a SETUP
    (Protocol.md, "Metadata Optional Header").
    """


class MetadataError(RSocketError):
    """Metadata that does not fit its MIME type. It ends a request, never a connection."""


class MetadataTooLarge(MetadataError):
    """Metadata with more entries, routing tags or types than `rsocket_trio.Limits` allow.

    Its text names the limit, and may be sent to the peer.
    """


class ConnectFailed(RSocketError):
    """No connection could be made: resolving, dialling, TLS or the WebSocket handshake failed.

    Attributes:
        status: The HTTP status with which the server refused a WebSocket; ``None`` if it did not.
        headers: The headers of this answer, names in lower case, in order.
        body: The beginning of its body, at most 16 KiB.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = body


def _encoded(data: str | bytes) -> bytes:
    if type(data) is bytes:
        return data  # Not copied: one error may end many streams, each with its own object.
    # Not `bytes(data)`: for the int 404 that gives 404 zeros.
    return data.encode() if isinstance(data, str) else bytes(memoryview(data))


_MAX_SHOWN: Final = 1000
"""Bytes of error data in the text of an error. A peer may send sixteen million, and the text goes
into the log, into every stream that the error ends, and into the reason of each cancellation."""


class _CodedError(RSocketError):
    """An error with the code and data of an ERROR frame."""

    code: int
    data: bytes

    def __init__(self, data: str | bytes = "", *, code: int) -> None:
        if not isinstance(code, int):
            raise TypeError(f"an error code is an int, not {type(code).__name__}")
        self.code = code
        self.data = _encoded(data)
        super().__init__(self.data)

    @property
    def message(self) -> str:
        """The whole error data as text; bytes that are not UTF-8 (a SHOULD) are replaced."""
        return self.data.decode("utf-8", "replace")

    def __str__(self) -> str:
        name = code_name(self.code)
        if not self.data:
            return name
        shown = escaped(self.data[:_MAX_SHOWN].decode("utf-8", "replace"))
        return f"{name}: {shown}{self._cut()}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data[:_MAX_SHOWN]!r}{self._cut()}, code={self.code})"

    def _cut(self) -> str:
        size = len(self.data)
        return f"... ({size} bytes)" if size > _MAX_SHOWN else ""


class SetupError(_CodedError):
    """The acceptor refused the connection, with a code and a reason.

    `rsocket_trio.connect` raises it. Raise one in an acceptor to refuse a connection and tell the
    client why.

    Attributes:
        code: `ErrorCode.INVALID_SETUP`, `ErrorCode.UNSUPPORTED_SETUP`, `ErrorCode.REJECTED_SETUP`
            or another code that the peer sent.
        data: The reason as sent; `message` is the same as text.
    """

    default_code: ClassVar[int] = ErrorCode.REJECTED_SETUP
    unprocessed = True

    def __init__(self, data: str | bytes = "", *, code: int | None = None) -> None:
        super().__init__(data, code=self.default_code if code is None else code)


class InvalidSetup(SetupError):
    """The SETUP frame is invalid for the server."""

    default_code: ClassVar[int] = ErrorCode.INVALID_SETUP


class UnsupportedSetup(SetupError):
    """The server does not support something the client asked for."""

    default_code: ClassVar[int] = ErrorCode.UNSUPPORTED_SETUP


class RejectedSetup(SetupError):
    """The server refused the connection; ``data`` says why."""

    default_code: ClassVar[int] = ErrorCode.REJECTED_SETUP


class ConnectionClosed(RSocketError):
    """The connection is over; ``__cause__`` says why, if the reason is known."""

    transient = True


class ConnectionLost(ConnectionClosed):
    """The transport broke or ended, or the peer was silent for longer than its lifetime."""


class NotConnected(ConnectionClosed):
    """A client with ``reconnect=`` has no connection now, and the request may not wait (longer).

    Nothing was sent. ``__cause__`` says why, as far as is known. See `rsocket_trio.Reconnect`.
    """

    sent = False
    unprocessed = True
    transient = False  # `Reconnect.wait` is how long it was to be tried


class RejectedResume(_CodedError, ConnectionClosed):
    """The server does not resume the session: its streams are lost.

    Attributes:
        code: `ErrorCode.REJECTED_RESUME`, or another code that the server sent.
        data: The reason as sent; `message` is the same as text.
    """

    def __init__(self, data: str | bytes = "", *, code: int = ErrorCode.REJECTED_RESUME) -> None:
        super().__init__(data, code=code)


class ClosedByPeer(_CodedError, ConnectionClosed):
    """The peer ended the connection with an ERROR on stream 0.

    Attributes:
        code: `ErrorCode.CONNECTION_ERROR`, `ErrorCode.CONNECTION_CLOSE` or another.
        data: The reason as sent; `message` is the same as text.
    """

    def __init__(self, data: str | bytes = "", *, code: int = ErrorCode.CONNECTION_ERROR) -> None:
        super().__init__(data, code=code)

    def __str__(self) -> str:
        return f"the peer closed the connection: {super().__str__()}"


class StreamError(_CodedError):
    """An ERROR on one stream. The connection stays open.

    Raise one in a handler to answer with exactly its code and text.

    Attributes:
        code: A code of `ErrorCode`, or an application's own.
        data: The error data as sent; `message` is the same as text.
        stream_id: The stream that the error ended, or ``None`` before it was sent.
    """

    default_code: ClassVar[int] = ErrorCode.APPLICATION_ERROR

    def __init__(
        self, data: str | bytes = "", *, code: int | None = None, stream_id: int | None = None
    ) -> None:
        super().__init__(data, code=self.default_code if code is None else code)
        self.stream_id = stream_id


class ApplicationError(StreamError):
    """The application failed; ``data`` is its message."""

    default_code: ClassVar[int] = ErrorCode.APPLICATION_ERROR


class Rejected(StreamError):
    """The responder refused the request without processing any of it: you may retry it."""

    default_code: ClassVar[int] = ErrorCode.REJECTED
    unprocessed = True
    transient = True

    @property
    def retry_after(self) -> float | None:
        """The seconds after which the text says to retry, as limits of a `Router` do."""
        return seconds_to_wait(self.message)


class LimitReached(Rejected):
    """A limit on calls is reached; ``data`` says when to try again. The requester gets `Rejected`.

    On ttrpc it is RESOURCE_EXHAUSTED.
    """


class Canceled(StreamError):
    """The responder gave up the request, and may have begun to process it."""

    default_code: ClassVar[int] = ErrorCode.CANCELED
    transient = True


class Invalid(StreamError):
    """The request was invalid, e.g. for a route that does not exist."""

    default_code: ClassVar[int] = ErrorCode.INVALID

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The places where data were refused, up to 16, each with the reason.

        For example ``("order.lines[2].quantity", "expected int, got str")``. Empty if it is not
        about data, or if the `rsocket_trio.Router` of the peer does not tell (``explain=``).
        """
        found = _EXPLAINED.match(self.message)
        pieces = [] if found is None else found[1].split("; ")
        if pieces and pieces[-1].endswith("..."):  # cut off
            pieces.pop()
        parts = [piece.partition(": ") for piece in pieces]
        return tuple([(place, reason) for place, _, reason in parts])


class CustomError(StreamError):
    """An application's own code, 0x301 to 0xFFFFFFFE: ``CustomError("text", code=0x301)``."""


class Unauthenticated(CustomError):
    """Who the requester is, is not known or not known any more: it may log in and try again.

    The code is 4401, as WebSocket applications use it.
    """

    default_code: ClassVar[int] = 4401


class Forbidden(CustomError):
    """This requester may not do this: trying again does not help. See `Rejected` for "not now".

    The code is 4403, as WebSocket applications use it.
    """

    default_code: ClassVar[int] = 4403


class MissingLease(RSocketError):
    """The peer's lease does not allow a request now, and this request may not wait.

    Nothing was sent. `rsocket_trio.LeaseOptions` says which requests wait.
    """

    sent = False
    unprocessed = True


class CircuitOpen(RSocketError):
    """Too many requests in a row have failed, so this one was not sent. See `rsocket_trio.Circuit`.

    ``__cause__`` is the failure of the last one.

    Attributes:
        retry_after: In how many seconds one request may be sent.
    """

    sent = False
    unprocessed = True

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class InternalError(RSocketError):
    """A task of a connection crashed. ``__cause__`` holds the original exception.

    The text says whether this is a fault of this package, to be reported, or of a transport or
    another object that the application gave.
    """


_STREAM_ERRORS: Final[dict[int, type[StreamError]]] = {
    ErrorCode.APPLICATION_ERROR: ApplicationError,
    ErrorCode.REJECTED: Rejected,
    ErrorCode.CANCELED: Canceled,
    ErrorCode.INVALID: Invalid,
    Unauthenticated.default_code: Unauthenticated,
    Forbidden.default_code: Forbidden,
}
_SETUP_ERRORS: Final[dict[int, type[SetupError]]] = {
    ErrorCode.INVALID_SETUP: InvalidSetup,
    ErrorCode.UNSUPPORTED_SETUP: UnsupportedSetup,
    ErrorCode.REJECTED_SETUP: RejectedSetup,
}


_EXPLAINED: Final = re.compile(
    r"(?:route |this request).*? expects .*? as '[^']*': (.*)", re.DOTALL
)
"""The text of a `rsocket_trio.Router` that has refused data."""


_RETRY_AFTER: Final = re.compile(r"\bretry after (\d{1,9}(?:\.\d{1,9})?) s\b")


def seconds_to_wait(text: str) -> float | None:
    """Return the seconds after which the text of a refusal says to retry."""
    found = _RETRY_AFTER.search(text, 0, _MAX_SHOWN)
    return None if found is None else float(found[1])


def stream_error(code: int, data: bytes, stream_id: int | None = None) -> StreamError:
    """Return the typed error for an ERROR frame on a stream; `CustomError` for unknown codes."""
    kind = _STREAM_ERRORS.get(code, CustomError)
    return outcome_of_ours(kind(data, code=code, stream_id=stream_id))


def outcome_of_ours(error: _R) -> _R:
    """Note that a request of ours has ended with this error, and return it."""
    error.of_our_request = True
    return error


def never_sent(error: RSocketError) -> None:
    """Note that nothing of a request of ours has left; the error is the caller's own."""
    error.sent = False
    error.unprocessed = True


def addressed(error: BaseException, *kinds: type[_R]) -> _R | None:
    """Return the error of these kinds with which the application answers its peer.

    Args:
        error: What a handler or a hook of the application raised; it may be alone in a group.
        kinds: The classes of errors that are meant for peers.

    Returns:
        The error; ``None`` if it is of another kind, or the outcome of a request of ours.
    """
    alone = single_error(error)
    return alone if isinstance(alone, kinds) and not alone.of_our_request else None


def setup_refusal(error: BaseException) -> SetupError | None:
    """Return the error with which the application refuses a connection; ``None`` if it failed.

    `Forbidden` and `Unauthenticated` keep their codes: a client that connects again must know that
    this is not "busy".

    Args:
        error: What a hook, an acceptor or a block of a connection raised.
    """
    refusal = addressed(error, SetupError, StreamError, RejectedResume)
    if refusal is None or isinstance(refusal, SetupError):
        return refusal
    if isinstance(refusal, Forbidden | Unauthenticated):
        return SetupError(refusal.data, code=refusal.code)
    return RejectedSetup(refusal.data)


def single_error(error: BaseException) -> BaseException:
    """Return the only exception in a group of groups; ``error`` itself if there are several.

    A nursery puts an exception into a group even if there is only one.
    """
    alone = error
    while isinstance(alone, BaseExceptionGroup):
        if len(alone.exceptions) != 1:
            return error
        alone = alone.exceptions[0]
    return alone


def fresh_copy(error: _E) -> _E:
    """Return a copy of the error, to be raised once more.

    Raising an error gives it the traceback of the task that raises. So each task gets its own copy,
    and an error kept for later does not keep that task's frames and their variables in memory.
    """
    try:
        twin = copy.copy(error)
    except Exception:  # copying runs the application's code, which may raise anything
        return error
    twin.__cause__ = error.__cause__
    return twin


def setup_error(code: int, data: bytes) -> SetupError:
    """Return the typed error for an ERROR frame that refuses a SETUP."""
    return outcome_of_ours(_SETUP_ERRORS.get(code, SetupError)(data, code=code))
