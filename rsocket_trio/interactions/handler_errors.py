"""Tell the peer and the log about errors of handlers: `error_frame_for`, `log_handler_failure`.

The peer gets code and text of a `StreamError` that the handler made for it. For every other
exception it gets only the information that the handler failed: their texts stay in this process. So
do the errors of the handler's own requests to other peers (`RSocketError.of_our_request`): their
codes would say to this peer what another one did, e.g. that *its* request was invalid.
"""

from __future__ import annotations

import logging
from typing import Final

from ..errors import (
    FIRST_CUSTOM_CODE,
    LAST_CUSTOM_CODE,
    ErrorCode,
    StreamError,
    addressed,
    single_error,
)
from ..frames.error import encode_error, encode_fitting_error
from ..log_policy import logger

__all__ = ["error_frame_for", "forget_frames", "log_handler_failure"]

HANDLER_FAILED: Final = "the handler failed"
"""The text that a peer gets for an exception that is not meant for it."""

_STREAM_CODES: Final = frozenset(
    (ErrorCode.APPLICATION_ERROR, ErrorCode.REJECTED, ErrorCode.CANCELED, ErrorCode.INVALID)
)


def log_handler_failure(what: str, error: Exception) -> None:
    """Log the error of a handler whose requester gets no answer."""
    try:
        refusal = addressed(error, StreamError)
    except Exception:  # of a class whose own methods fail
        refusal = None
    if refusal is not None:
        # A refusal is meant for the requester. It is expected, so it is not an error in the log.
        logger.info("%s refused: %s", what, refusal)
    else:
        logger.error("%s failed", what, exc_info=error)


def forget_frames(error: Exception) -> None:
    """Drop the traceback of a `StreamError` that the peer has been told.

    An application may raise one object again and again (a constant, say). Its traceback grows each
    time, and keeps the frames of all these requests, with their payloads.
    """
    try:
        alone = single_error(error)
        if isinstance(alone, StreamError):
            # Not by assignment, which a frozen class refuses.
            alone.with_traceback(None)
            error.with_traceback(None)
    except Exception:  # of a class whose own methods fail: it keeps its traceback
        return


def error_frame_for(
    error: Exception, stream_id: int, max_frame_size: int, *, quiet: bool = False
) -> bytes:
    """Return the ERROR frame for an error of a handler, and log the error.

    Args:
        error: A `StreamError` that the handler made is sent as it is, also if it is the only
            exception in a group. For other errors, and for those of the handler's own requests, the
            peer is told only that the handler failed; the details are logged.
        stream_id: The stream that it ends.
        max_frame_size: The text is cut so that the frame is not longer.
        quiet: Log the error at a lower level, because the stream is over already.
    """
    try:
        return _encode_outcome(error, stream_id, max_frame_size, quiet=quiet)
    except Exception:
        # For example an error whose class did not call its base's `__init__`.
        logger.exception("a handler on stream %d raised an error that cannot be sent", stream_id)
        return encode_error(stream_id, ErrorCode.APPLICATION_ERROR, HANDLER_FAILED.encode())


def _encode_outcome(
    error: BaseException, stream_id: int, max_frame_size: int, *, quiet: bool
) -> bytes:
    answer = addressed(error, StreamError)
    if answer is not None:
        code = answer.code
        if code not in _STREAM_CODES and not FIRST_CUSTOM_CODE <= code <= LAST_CUSTOM_CODE:
            logger.error(
                "a handler raised %r, whose code is not for streams; sent as APPLICATION_ERROR",
                answer,
            )
            code = ErrorCode.APPLICATION_ERROR
        return encode_fitting_error(stream_id, code, answer.data, max_frame_size)
    level = logging.DEBUG if quiet else logging.ERROR
    logger.log(level, "a handler failed on stream %d", stream_id, exc_info=error)
    return encode_error(stream_id, ErrorCode.APPLICATION_ERROR, HANDLER_FAILED.encode())
