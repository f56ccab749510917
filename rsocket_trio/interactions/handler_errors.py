"""What a peer and the log learn of what a handler raised.

The peer learns of a `StreamError`, which is meant for it, and of its own mistakes. Of every other
exception it learns only that the handler failed: texts of exceptions stay in this process.
"""

from __future__ import annotations

import logging
from typing import Final

from ..errors import (
    FIRST_CUSTOM_CODE,
    LAST_CUSTOM_CODE,
    ConnectionClosed,
    ErrorCode,
    RemoteProtocolError,
    StreamError,
    single_error,
)
from ..frames.error import encode_error, encode_fitting_error
from ..log_policy import logger

__all__ = ["error_frame_for", "forget_frames", "log_unheard"]

HANDLER_FAILED: Final = "the handler failed"
"""All that a peer learns of an exception that was not meant for it."""

_STREAM_CODES: Final = frozenset(
    (ErrorCode.APPLICATION_ERROR, ErrorCode.REJECTED, ErrorCode.CANCELED, ErrorCode.INVALID)
)


def log_unheard(what: str, error: Exception) -> None:
    """What a handler raised whose requester hears nothing: nobody's business but the log's."""
    alone = single_error(error)
    if isinstance(alone, StreamError):
        # Meant for the requester: expected, and nothing to fill the log with.
        logger.info("%s refused: %s", what, alone)
    else:
        logger.error("%s failed", what, exc_info=error)


def forget_frames(error: Exception) -> None:
    """Drop the traceback of a `StreamError` that the peer has been told.

    An application may raise one object again and again (a constant, say). Its traceback grows each
    time, and keeps the frames of all these requests, with their payloads.
    """
    alone = single_error(error)
    if isinstance(alone, StreamError):
        # Not by assignment, which a frozen class refuses.
        alone.with_traceback(None)
        error.with_traceback(None)


def error_frame_for(
    error: Exception, stream_id: int, max_frame_size: int, *, quiet: bool = False
) -> bytes:
    """The ERROR frame for what a handler raised.

    Args:
        error: A `StreamError` is sent as it is, alone in a group too; of all else only the log
            (unless ``quiet``, when nobody waits for the answer any more) learns more than that
            it happened.
        stream_id: The stream it ends.
        max_frame_size: What does not fit a frame of so many bytes is not sent.
        quiet: Log a failure that came out of a stream already over at a lower level.
    """
    try:
        return _encode_outcome(error, stream_id, max_frame_size, quiet=quiet)
    except Exception:
        # An error whose class forgot what its base needs, or that was changed since.
        logger.exception("a handler on stream %d raised what cannot be sent", stream_id)
        return encode_error(stream_id, ErrorCode.APPLICATION_ERROR, HANDLER_FAILED.encode())


def _encode_outcome(
    error: BaseException, stream_id: int, max_frame_size: int, *, quiet: bool
) -> bytes:
    alone = single_error(error)
    if isinstance(alone, StreamError):
        error = alone
        code = error.code
        if code not in _STREAM_CODES and not FIRST_CUSTOM_CODE <= code <= LAST_CUSTOM_CODE:
            # One that came from a peer and is passed on must not let that peer fill the log.
            level = logging.ERROR if error.stream_id is None else logging.DEBUG
            logger.log(
                level,
                "a handler raised %r, whose code is not for streams; sent as APPLICATION_ERROR",
                error,
            )
            code = ErrorCode.APPLICATION_ERROR
        return encode_fitting_error(stream_id, code, error.data, max_frame_size)
    if isinstance(error, RemoteProtocolError):
        text = str(error).encode("utf-8", "replace")
        return encode_fitting_error(stream_id, error.code, text, max_frame_size)
    level = logging.DEBUG if quiet or isinstance(error, ConnectionClosed) else logging.ERROR
    logger.log(level, "a handler failed on stream %d", stream_id, exc_info=error)
    return encode_error(stream_id, ErrorCode.APPLICATION_ERROR, HANDLER_FAILED.encode())
