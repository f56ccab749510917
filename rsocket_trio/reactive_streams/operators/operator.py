"""What an operator is: `Operator`; and what it makes of a source: `Operated`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ..checks import check_subscriber
from ..interfaces import Publisher, Subscriber
from ..iterating import IterablePublisher
from .guarded import check_publisher
from .joints import attach

__all__ = ["Operated", "Operator"]

T = TypeVar("T")
R = TypeVar("R")

Operator: TypeAlias = Callable[[Publisher[T]], IterablePublisher[R]]
"""A function that takes a publisher and returns one. It subscribes to nothing: subscribers do."""


class Operated(IterablePublisher[R], Generic[T, R]):
    """A source with an operator behind it. Each subscriber gets a subscription of its own.

    Args:
        source: The source.
        between: Makes what stands between the source and a subscriber: the subscriber of the source
            that passes signals on.

    Raises:
        TypeError: The source is no publisher.
    """

    def __init__(self, source: Publisher[T], between: Callable[[Subscriber[R]], Any]) -> None:
        check_publisher(source)
        self._source: Final = source
        self._between: Final = between

    def subscribe(self, subscriber: Subscriber[R], /) -> None:
        """Subscribe to the source, with the operator between.

        Raises:
            TypeError: ``subscriber`` is ``None`` or no subscriber (rule 1.9).
        """
        check_subscriber(subscriber)
        attach(self._source, self._between(subscriber))
