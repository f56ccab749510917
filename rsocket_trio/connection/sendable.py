"""Check what is to be sent as a payload, and make the errors for all other objects.

`rsocket_trio.connection.stream_sender` accepts the common case, a payload of bytes, without a call.
It calls these functions for all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..errors import Canceled, LocalProtocolError
from ..log_policy import logger
from ..payload import Payload
from ..reactive_streams.unread import size_of
from ..streamed import StreamedPayload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..account import Account
    from ..interactions.operation import ResponderOperation
    from ..streamed import AnyPayload

__all__ = [
    "WaitingElements",
    "check_size",
    "check_streamed",
    "not_sendable",
    "take_answer",
]

_TOO_MANY: Final = "too many answers on this connection wait to be read"


def check_streamed(payload: object) -> None:
    """Accept a `StreamedPayload` whose metadata can be sent, and nothing else.

    Raises:
        TypeError: It is something else, or its metadata are not bytes.
    """
    metadata = getattr(payload, "metadata", None)
    if not isinstance(payload, StreamedPayload) or not (
        metadata is None or type(metadata) is bytes
    ):
        raise not_sendable(payload)


def check_size(size: int, at_most: int | None) -> None:
    """Refuse a request for a wire on which requests have no fragments.

    Raises:
        LocalProtocolError: It is larger than a frame can be.
    """
    if at_most is not None and size > at_most:
        raise LocalProtocolError(
            f"a request of {size} bytes or more is too large: the ReactiveSocket draft has no "
            f"fragments of requests, and a frame has room for {at_most} bytes "
            "(Limits.max_frame_size); send it through a request_channel"
        )


def take_answer(answers: Account, operation: ResponderOperation, size: int) -> None:
    """Take memory for an answer or item that may have to wait; `Account.give_back` must follow.

    One alone always may wait, whatever its size.

    Raises:
        Canceled: Too many bytes wait already (`Limits.max_answers_size`). The request has ended,
            and its handler is cancelled: one that absorbs errors must not make item after item.
    """
    if not answers.take_first(size):
        logger.info("a request has ended: %s", answers.refusal)
        error = Canceled(_TOO_MANY)
        operation.fail(error)
        operation.stop(str(error))
        try:
            raise error
        finally:
            del error  # its traceback holds this frame: a cycle, with the payload


class WaitingElements:
    """Counts the elements that a publisher has made behind an item of its stream that waits.

    It is an `rsocket_trio.reactive_streams.unread.ElementCounter`.
    """

    def __init__(self, answers: Account) -> None:
        self._answers = answers

    def add(self, element: AnyPayload, /) -> Canceled | None:
        """Take memory for an element; return the error of its stream if there is none."""
        if self._answers.take_first(size_of(element)):
            return None
        return Canceled(_TOO_MANY)

    def remove(self, element: AnyPayload, /) -> None:
        """An element is going to be sent."""
        self._answers.give_back(size_of(element))

    def remove_all(self, elements: Iterable[AnyPayload], /) -> None:
        """Elements were dropped, or are going to be sent."""
        self._answers.give_back(sum(map(size_of, elements)))


def not_sendable(payload: object) -> TypeError:
    """The error for an object that is not a payload of bytes; it says what is wrong."""
    if not isinstance(payload, Payload | StreamedPayload):
        return TypeError(
            f"a Payload is needed, not {type(payload).__name__}; Payload(b'...') holds bytes"
        )
    data = getattr(payload, "data", None)
    metadata = getattr(payload, "metadata", None)
    # Subclasses of bytes are refused too: they are slower everywhere, and rarely meant.
    if type(data) is not bytes and not isinstance(payload, StreamedPayload):
        return TypeError(
            f"a Payload with data of type bytes is needed, not with {type(data).__name__}; "
            "encode it first, e.g. with rsocket_trio.codecs"
        )
    return TypeError(f"metadata must be bytes or None, not {type(metadata).__name__}")
