"""The errors of calls: `CallError`, with a class for each status code of gRPC.

    RSocketError
    └─ CallError                    a call has failed: code, message, details
       ├─ CallCancelled  ├─ Unknown  ├─ InvalidArgument  ├─ DeadlineExceeded  ├─ NotFound
       ├─ AlreadyExists  ├─ PermissionDenied  ├─ ResourceExhausted  ├─ FailedPrecondition
       ├─ Aborted  ├─ OutOfRange  ├─ Unimplemented  ├─ Internal  ├─ Unavailable  ├─ DataLoss
       ├─ Unauthenticated

A handler that makes and raises one sends exactly this code, text and these details. The text of any
other exception stays in this process, also of an error that a call of the handler has ended with. A
client gets the class that belongs to the code, so ``except ttrpc.NotFound`` works; codes that no
class has give a plain `CallError`.

The end of a connection is a `rsocket_trio.ConnectionClosed`, as with RSocket.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar, Final

from ..errors import RSocketError, outcome_of_ours, seconds_to_wait
from ..escapes import printable
from .wire.envelopes import AnyMessage, Status

__all__ = [
    "Aborted",
    "AlreadyExists",
    "CallCancelled",
    "CallError",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "ResourceExhausted",
    "StatusCode",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unknown",
    "call_error",
]


class StatusCode(IntEnum):
    """The codes of google.rpc.Code. A peer may send any 32-bit number."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallError(RSocketError):
    """A call has failed.

    Args:
        message: A text for people. It is sent to the peer.
        code: The status code; by default that of the class.
        details: Messages with more facts, as google.rpc.Status has them.

    Raises:
        TypeError: The message is not text, or a detail is no `AnyMessage`.
        ValueError: The code is OK (0), or has more than 32 bits.

    Attributes:
        code: The status code: a `StatusCode`, or another number.
        message: The text.
        details: The messages with more facts.
    """

    default_code: ClassVar[StatusCode] = StatusCode.UNKNOWN

    def __init__(
        self, message: str = "", *, code: int | None = None, details: Iterable[AnyMessage] = ()
    ) -> None:
        if not isinstance(message, str):
            raise TypeError(f"the message must be text, not {type(message).__name__}")
        if code is not None and not -(2**31) <= code < 2**31:
            raise ValueError(f"{code} does not fit into the 32 bits of a status code")
        super().__init__(message)
        self.code: int = self.default_code if code is None else _known(code)
        if self.code == StatusCode.OK:
            raise ValueError("a CallError needs a code other than OK (0)")
        self.message = message
        self.details = tuple(details)
        for each in self.details:
            if not isinstance(each, AnyMessage):
                raise TypeError(
                    f"a detail must be an AnyMessage, not {type(each).__name__}: write "
                    "AnyMessage(type_url, message.SerializeToString())"
                )

    def __str__(self) -> str:
        name = self.code.name if isinstance(self.code, StatusCode) else f"code {self.code}"
        return f"{name}: {printable(self.message)}" if self.message else name

    @property
    def status(self) -> Status:
        """The status as it is sent."""
        return Status(int(self.code), self.message, self.details)


class CallCancelled(CallError):
    """The other end has cancelled the call; a cancel scope here raises `trio.Cancelled`."""

    default_code = StatusCode.CANCELLED


class Unknown(CallError):
    """The handler has failed, and said no more."""


class InvalidArgument(CallError):
    """The request is wrong, whatever the state of the server is."""

    default_code = StatusCode.INVALID_ARGUMENT


class DeadlineExceeded(CallError):
    """The server did not answer before the deadline that the call had sent."""

    default_code = StatusCode.DEADLINE_EXCEEDED


class NotFound(CallError):
    """What the request names does not exist."""

    default_code = StatusCode.NOT_FOUND


class AlreadyExists(CallError):
    """What the request should make exists already."""

    default_code = StatusCode.ALREADY_EXISTS


class PermissionDenied(CallError):
    """The caller may not do this."""

    default_code = StatusCode.PERMISSION_DENIED


class ResourceExhausted(CallError):
    """A limit is reached; also a message that is longer than the protocol allows."""

    default_code = StatusCode.RESOURCE_EXHAUSTED

    @property
    def retry_after(self) -> float | None:
        """As of a `rsocket_trio.Rejected`."""
        return seconds_to_wait(self.message)


class FailedPrecondition(CallError):
    """The server is not in a state in which it can do this."""

    default_code = StatusCode.FAILED_PRECONDITION


class Aborted(CallError):
    """The operation was ended, e.g. because another one was faster."""

    default_code = StatusCode.ABORTED


class OutOfRange(CallError):
    """The request goes past the end of something."""

    default_code = StatusCode.OUT_OF_RANGE


class Unimplemented(CallError):
    """The server has no such service or method."""

    default_code = StatusCode.UNIMPLEMENTED


class Internal(CallError):
    """A message cannot be read as the type that its method has, or a rule is broken."""

    default_code = StatusCode.INTERNAL


class Unavailable(CallError):
    """The server takes no calls now, e.g. because it is being stopped."""

    default_code = StatusCode.UNAVAILABLE
    transient = True


class DataLoss(CallError):
    """Data are lost or damaged."""

    default_code = StatusCode.DATA_LOSS


class Unauthenticated(CallError):
    """The server does not know who the caller is."""

    default_code = StatusCode.UNAUTHENTICATED


_CLASSES: Final[dict[int, type[CallError]]] = {
    each.default_code: each for each in CallError.__subclasses__()
}


def call_error(status: Status) -> CallError:
    """Return the error for a status that a peer has sent; its code is not OK."""
    kind = _CLASSES.get(status.code, CallError)
    return outcome_of_ours(kind(status.message, code=status.code, details=status.details))


def _known(code: int) -> int:
    try:
        return StatusCode(code)
    except ValueError:
        return code
