"""What the peer is told about the errors of publishers: `text_for_peer`.

The peer gets the text of a `PublisherError` or a `rsocket_trio.StreamError` that was made for it.
For every other exception it gets only the information that the publisher failed: the texts of other
exceptions stay in this process, also of an error with which another peer has ended a subscription
or a request of ours (`RSocketError.of_our_request`).
"""

from __future__ import annotations

from typing import Final

from ...errors import StreamError, addressed
from ...log_policy import logger
from ...uri import without_query
from ..errors import PublisherError

__all__ = ["FAILED", "text_for_peer"]

FAILED: Final = "the publisher failed"


def text_for_peer(error: Exception, name: str) -> str:
    """Return the text of an onError, and log the error.

    Args:
        error: What the publisher has ended with.
        name: The name of the publisher.
    """
    name = without_query(name)
    try:
        answer = addressed(error, PublisherError, StreamError)
        text = answer.text if isinstance(answer, PublisherError) else None
        if isinstance(answer, StreamError):
            text = answer.message
        if answer is not None and text is not None:
            logger.info("the publisher %r ended with an error: %s", name, text)
            answer.with_traceback(None)  # an application may raise one object again and again
            return text
    except Exception:  # of a class whose own methods fail
        logger.exception("the publisher %r ended with an error that cannot be sent", name)
        return FAILED
    logger.error("the publisher %r failed", name, exc_info=error)
    return FAILED
