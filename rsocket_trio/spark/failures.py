"""What a task of Spark fails with: `ReadFailed`, and texts for errors of a responder."""

from __future__ import annotations

from .. import ConnectFailed, RSocketError, SetupError, StreamError
from ..uri import shown

__all__ = ["DataLoss", "ReadFailed", "explain"]


class ReadFailed(RuntimeError):
    """Elements could not be read."""


class DataLoss(RuntimeError):
    """Elements that were not read yet are gone, and ``failOnDataLoss`` is true."""


def explain(error: Exception, what: str, uri: str) -> ReadFailed:
    """Return the error for Spark.

    Args:
        error: What has happened.
        what: What was asked for, e.g. the route.
        uri: The address of the responder.
    """
    uri = shown(uri)
    match error:
        case StreamError():
            text = f"the responder {uri} has answered {what} with {error}"
        case SetupError():
            text = f"the responder {uri} has refused the connection: {error}"
        case ConnectFailed():
            text = f"no connection to {uri}: {error}"
        case RSocketError():
            text = f"the connection to {uri} ended while {what} was read: {error}"
        case _:
            text = f"{what} of {uri} cannot be read: {error}"
    failure = ReadFailed(text)
    failure.__cause__ = error
    return failure
