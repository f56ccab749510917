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
    place = shown(uri)
    match error:
        case StreamError():
            text = f"the responder {place} has answered {what} with {error}"
        case SetupError():
            text = f"the responder {place} has refused the connection: {error}"
        case ConnectFailed():
            text = f"no connection to {place}: {error}"
        case RSocketError():
            text = f"the connection to {place} ended while {what} was read: {error}"
        case _:
            text = f"{what} of {place} cannot be read: {error}"
    failure = ReadFailed(text)
    failure.__cause__ = error
    return failure
