"""What an exception of a handler becomes on the wire: `status_of`.

A `CallError` that the handler made is sent as it is. For some exceptions of Python there is a code
that says the same, but their texts stay in this process, as they may have paths and secrets. Any
other exception is UNKNOWN with a text without details, and is logged: so is the error of a call
that the handler itself has made (`RSocketError.of_our_request`).
"""

from __future__ import annotations

from typing import Final

import trio

from ...errors import (
    ErrorCode,
    Forbidden,
    LimitReached,
    StreamError,
    Unauthenticated,
    addressed,
    single_error,
)
from ...log_policy import logger
from ..errors import CallError, StatusCode
from ..wire.envelopes import Status

__all__ = ["HANDLER_FAILED", "note_answer", "status_of"]

HANDLER_FAILED: Final = "the handler failed"

_BY_TYPE: Final[tuple[tuple[type[BaseException], StatusCode, str], ...]] = (
    (FileExistsError, StatusCode.ALREADY_EXISTS, "already exists"),
    (FileNotFoundError, StatusCode.NOT_FOUND, "not found"),
    (PermissionError, StatusCode.PERMISSION_DENIED, "permission denied"),
    (trio.TooSlowError, StatusCode.DEADLINE_EXCEEDED, "the handler was too slow"),
    (TimeoutError, StatusCode.DEADLINE_EXCEEDED, "the handler was too slow"),
    (NotImplementedError, StatusCode.UNIMPLEMENTED, "not implemented"),
    (EOFError, StatusCode.OUT_OF_RANGE, "end of file"),
)
"""As the Go implementation maps the same errors."""

_BY_STREAM_CODE: Final[dict[int, StatusCode]] = {
    ErrorCode.REJECTED: StatusCode.PERMISSION_DENIED,
    ErrorCode.CANCELED: StatusCode.CANCELLED,
    ErrorCode.INVALID: StatusCode.INVALID_ARGUMENT,
    Unauthenticated.default_code: StatusCode.UNAUTHENTICATED,
    Forbidden.default_code: StatusCode.PERMISSION_DENIED,
}
"""For handlers of a `rsocket_trio.Router`; guards raise REJECTED."""


def status_of(error: Exception, path: str, *, quiet: bool = False) -> Status:
    """Return the status for an exception of a handler, and log what the peer is not told.

    Args:
        error: The exception; if it is a group with one exception, that one counts.
        path: The method, for the log.
        quiet: Log at a lower level, because nobody waits for the answer any more.
    """
    try:
        answer = addressed(error, CallError, StreamError)
        if isinstance(answer, CallError):
            if answer.__cause__ is not None:
                logger.info("%s: %s", path, answer, exc_info=answer)
            return answer.status
        if isinstance(answer, StreamError):
            text = answer.data.decode("utf-8", "replace")
            if isinstance(answer, LimitReached):
                return Status(StatusCode.RESOURCE_EXHAUSTED, text)
            return Status(_BY_STREAM_CODE.get(answer.code, StatusCode.UNKNOWN), text)
        alone = single_error(error)
        for kind, code, text in _BY_TYPE:
            if isinstance(alone, kind):
                logger.info("%s: the handler raised %s", path, type(alone).__name__, exc_info=error)
                return Status(code, text)
        if quiet:
            logger.debug("%s: the handler failed", path, exc_info=error)
        else:
            logger.error("%s: the handler failed", path, exc_info=error)
    except Exception:  # of a class whose own methods fail
        logger.exception("%s: the handler raised an error that cannot be sent", path)
    return Status(StatusCode.UNKNOWN, HANDLER_FAILED)


def note_answer(error: Exception, path: str, answer: object) -> None:
    """Say in an error of a codec whose answer it is: no frame of its traceback is the handler's."""
    error.add_note(f"the handler of {path} returned an object of type {type(answer).__name__}")
