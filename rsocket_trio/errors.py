"""Every error this package raises, and the codes of the wire.

    RSocketError
    ├─ ProtocolError                abstract: somebody broke the rules of the protocol
    │  ├─ LocalProtocolError        you asked for something illegal; nothing was sent
    │  └─ RemoteProtocolError       the peer did; the stream or the connection is over
    │     └─ MalformedFrame         bytes that are no frame
    │        └─ MetadataLengthError its metadata runs past its end
    ├─ MetadataError                metadata that is not what its MIME type says
    │  └─ MetadataTooLarge          metadata of more parts than `Limits` allow
    ├─ ConnectFailed                no connection came about (see ``__cause__``)
    ├─ SetupError                   the peer refused our SETUP: code and reason
    │  ├─ InvalidSetup  ├─ UnsupportedSetup  ├─ RejectedSetup
    ├─ RejectedResume               the peer refused our RESUME
    ├─ ConnectionClosed             the connection is over; ``__cause__`` says why
    │  ├─ ConnectionLost            the transport broke, or the peer fell silent
    │  └─ ClosedByPeer              the peer ended it with an ERROR on stream 0
    ├─ StreamError                  an ERROR on one stream: code, data, stream_id
    │  ├─ ApplicationError  ├─ Rejected  ├─ Canceled  ├─ Invalid  ├─ CustomError
    ├─ MissingLease                 leases are in use, and none allows the request
    └─ InternalError                a fault of this package: please report it

A handler that raises a `StreamError` sends exactly that code and text to the peer. The text of
any other exception stays in this process (see `rsocket_trio.responder`). After *your own* close,
operations raise `trio.ClosedResourceError`, as everywhere in trio.
"""

from __future__ import annotations

import copy
from enum import IntEnum
from typing import ClassVar, Final, TypeVar

__all__ = [
    "ApplicationError",
    "Canceled",
    "ClosedByPeer",
    "ConnectFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "CustomError",
    "ErrorCode",
    "InternalError",
    "Invalid",
    "InvalidSetup",
    "LocalProtocolError",
    "MalformedFrame",
    "MetadataError",
    "MetadataLengthError",
    "MetadataTooLarge",
    "MissingLease",
    "ProtocolError",
    "RSocketError",
    "Rejected",
    "RejectedResume",
    "RejectedSetup",
    "RemoteProtocolError",
    "SetupError",
    "StreamError",
    "UnsupportedSetup",
    "fresh_copy",
    "setup_error",
    "single_error",
    "stream_error",
]

_E = TypeVar("_E", bound=Exception)


class ErrorCode(IntEnum):
    """Protocol.md, "Error Codes". Any u32 may arrive: 0x301 and up belong to applications."""

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


def code_name(code: int) -> str:
    """The specification's name of ``code``, or its number in hexadecimal."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"0x{code:08x}"


class RSocketError(Exception):
    """The root of every error this package raises on its own account."""


class ProtocolError(RSocketError):
    """Somebody broke the rules; see the two subclasses for who."""


class LocalProtocolError(ProtocolError):
    """You asked for something the protocol does not allow; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer did something the protocol does not allow.

    Attributes:
        code: What we tell the peer.
        stream_id: The stream that ends, or 0 for the connection.
    """

    def __init__(
        self, message: str, *, code: int = ErrorCode.CONNECTION_ERROR, stream_id: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.stream_id = stream_id


class MalformedFrame(RemoteProtocolError):
    """Bytes that are no frame.

    Attributes:
        ignorable: The sender set the I flag: skip the frame instead of failing the connection
            (Protocol.md, "Frame Header Format").
    """

    def __init__(self, message: str, *, stream_id: int = 0, ignorable: bool = False) -> None:
        super().__init__(message, stream_id=stream_id)
        self.ignorable = ignorable


class MetadataLengthError(MalformedFrame):
    """The metadata of a frame, or its length, runs past the end of the frame.

    Told apart because it has a rule of its own: CONNECTION_ERROR, also in place of a SETUP
    (Protocol.md, "Metadata Optional Header").
    """


class MetadataError(RSocketError):
    """Metadata that is not what its MIME type says. Ends a request, never a connection."""


class MetadataTooLarge(MetadataError):
    """Metadata of more entries, routing tags or types than are read (`rsocket_trio.Limits`).

    Its text names the limit, and may go to the peer.
    """


class ConnectFailed(RSocketError):
    """No connection came about: resolving, dialling, TLS or the WebSocket handshake failed."""


def _encoded(data: str | bytes) -> bytes:
    if type(data) is bytes:
        return data  # Not copied: every stream that ends by this error has one of its own.
    # Not `bytes(data)` of anything: that of 404 is 404 zeros.
    return data.encode() if isinstance(data, str) else bytes(memoryview(data))


_MAX_SHOWN: Final = 1000
"""Bytes of error data in the text of an error. A peer may send sixteen million, and the text is
made for the log, for every stream that ends by it, and for a reason of each cancellation."""


class _CodedError(RSocketError):
    """What an ERROR frame carries. ``message`` is ``data`` as text, all of it."""

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
        """The error data as text; what is not UTF-8 is replaced (it only SHOULD be UTF-8)."""
        return self.data.decode("utf-8", "replace")

    def __str__(self) -> str:
        name = code_name(self.code)
        if not self.data:
            return name
        shown = self.data[:_MAX_SHOWN].decode("utf-8", "replace")
        return f"{name}: {shown}{self._cut()}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data[:_MAX_SHOWN]!r}{self._cut()}, code={self.code})"

    def _cut(self) -> str:
        size = len(self.data)
        return f"... ({size} bytes)" if size > _MAX_SHOWN else ""


class SetupError(_CodedError):
    """The connection was not set up: the acceptor refused it, with a code and a reason.

    Raised by `rsocket_trio.connect`; raised *in* an acceptor it refuses the connection and tells
    the client why.

    Attributes:
        code: `ErrorCode.INVALID_SETUP`, `ErrorCode.UNSUPPORTED_SETUP`, `ErrorCode.REJECTED_SETUP`
            or whatever else the peer sent.
        data: The reason as sent; `message` is the same as text.
    """

    default_code: ClassVar[int] = ErrorCode.REJECTED_SETUP

    def __init__(self, data: str | bytes = "", *, code: int | None = None) -> None:
        super().__init__(data, code=self.default_code if code is None else code)


class InvalidSetup(SetupError):
    """The SETUP frame is invalid for the server."""

    default_code: ClassVar[int] = ErrorCode.INVALID_SETUP


class UnsupportedSetup(SetupError):
    """Something the client asked for is not supported by the server."""

    default_code: ClassVar[int] = ErrorCode.UNSUPPORTED_SETUP


class RejectedSetup(SetupError):
    """The server refused the connection; ``data`` says why."""

    default_code: ClassVar[int] = ErrorCode.REJECTED_SETUP


class RejectedResume(_CodedError):
    """The server does not resume the session: its streams are lost.

    Attributes:
        code: `ErrorCode.REJECTED_RESUME`, or whatever else the server sent.
        data: The reason as sent; `message` is the same as text.
    """

    def __init__(self, data: str | bytes = "", *, code: int = ErrorCode.REJECTED_RESUME) -> None:
        super().__init__(data, code=code)


class ConnectionClosed(RSocketError):
    """The connection is over; ``__cause__`` says why, where anything is known."""


class ConnectionLost(ConnectionClosed):
    """The transport broke or ended, or the peer was silent for longer than its lifetime."""


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
    """An ERROR on one stream. The connection lives on.

    Raise one in a handler to answer with exactly its code and text.

    Attributes:
        code: A code of `ErrorCode`, or an application's own.
        data: The error data as sent; `message` is the same as text.
        stream_id: The stream it ended, or ``None`` before it was sent.
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
    """The responder refused the request and certainly did not process it: it may be retried."""

    default_code: ClassVar[int] = ErrorCode.REJECTED


class Canceled(StreamError):
    """The responder gave the request up, and may have begun to process it."""

    default_code: ClassVar[int] = ErrorCode.CANCELED


class Invalid(StreamError):
    """The request was invalid, e.g. for a route that does not exist."""

    default_code: ClassVar[int] = ErrorCode.INVALID


class CustomError(StreamError):
    """An application's own code, 0x301 to 0xFFFFFFFE: ``CustomError("text", code=0x301)``."""


class MissingLease(RSocketError):
    """Leases are in use, the peer's allows no request now, and this one may not wait.

    Nothing was sent. See `rsocket_trio.LeaseOptions` for which requests wait.
    """


class InternalError(RSocketError):
    """A fault of this package. ``__cause__`` holds what happened; please report it."""


_STREAM_ERRORS: Final[dict[int, type[StreamError]]] = {
    ErrorCode.APPLICATION_ERROR: ApplicationError,
    ErrorCode.REJECTED: Rejected,
    ErrorCode.CANCELED: Canceled,
    ErrorCode.INVALID: Invalid,
}
_SETUP_ERRORS: Final[dict[int, type[SetupError]]] = {
    ErrorCode.INVALID_SETUP: InvalidSetup,
    ErrorCode.UNSUPPORTED_SETUP: UnsupportedSetup,
    ErrorCode.REJECTED_SETUP: RejectedSetup,
}


def stream_error(code: int, data: bytes, stream_id: int | None = None) -> StreamError:
    """The typed error for an ERROR frame on a stream; unknown codes give `CustomError`."""
    return _STREAM_ERRORS.get(code, CustomError)(data, code=code, stream_id=stream_id)


def single_error(error: BaseException) -> BaseException:
    """What is in an exception group, and in those in it, if that is one exception; else ``error``.

    A nursery puts what is raised in its block into a group, also where that is all there is.
    """
    alone = error
    while isinstance(alone, BaseExceptionGroup):
        if len(alone.exceptions) != 1:
            return error
        alone = alone.exceptions[0]
    return alone


def fresh_copy(error: _E) -> _E:
    """The same error, to be raised once more.

    Raising one gives it the traceback of the task that does. So each task gets one of its own, and
    what keeps an error for later does not keep that task's frames, and their variables.
    """
    try:
        twin = copy.copy(error)
    except Exception:
        return error  # one of the application's, whose class cannot be copied
    twin.__cause__ = error.__cause__
    return twin


def setup_error(code: int, data: bytes) -> SetupError:
    """The typed error for an ERROR frame that refuses a SETUP."""
    return _SETUP_ERRORS.get(code, SetupError)(data, code=code)
