"""What the peer is told about the errors of publishers: `text_for_peer`.

The peer gets the text of a `PublisherError` or a `rsocket_trio.StreamError`, which are meant for
it. For every other exception it gets only the information that the publisher failed: the texts of
other exceptions stay in this process.
"""

from __future__ import annotations

import logging
from typing import Final

from ...errors import ConnectionClosed, StreamError, single_error
from ...log_policy import logger
from ..errors import PublisherError

__all__ = ["FAILED", "text_for_peer"]

FAILED: Final = "the publisher failed"


def text_for_peer(error: Exception, name: str) -> str:
    """Return the text of an onError, and log the error.

    Args:
        error: What the publisher has ended with.
        name: The name of the publisher.
    """
    try:
        alone = single_error(error)
        if isinstance(alone, PublisherError):
            text = alone.text
        elif isinstance(alone, StreamError):
            text = alone.message
        else:
            text = None
        if isinstance(text, str):
            logger.info("the publisher %r ended with an error: %s", name, text)
            alone.with_traceback(None)  # an application may raise one object again and again
            return text
    except Exception:  # of a class whose own methods fail
        logger.exception("the publisher %r ended with an error that cannot be sent", name)
        return FAILED
    level = logging.DEBUG if isinstance(error, ConnectionClosed) else logging.ERROR
    logger.log(level, "the publisher %r failed", name, exc_info=error)
    return FAILED
