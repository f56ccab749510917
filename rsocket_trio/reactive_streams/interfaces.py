"""The four interfaces of Reactive Streams, as protocols: any class with these methods will do.

A signal is a synchronous call, made in the thread of trio. The sequence that a subscriber sees is::

    on_subscribe  on_next*  (on_error | on_complete)?

No element comes that the subscriber has not requested, and nothing comes after the last signal or
after `Subscription.cancel`. ``None`` is no element.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, TypeVar, runtime_checkable

__all__ = ["Processor", "Publisher", "Subscriber", "Subscription"]

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


@runtime_checkable
class Subscription(Protocol):
    """The link between one subscriber and one publisher. Only its subscriber uses it.

    Neither method ever raises (rules 3.15, 3.16), and both may be called from inside any signal.
    """

    @abstractmethod
    def request(self, n: int, /) -> None:
        """Request ``n`` more elements; requests add up. Does nothing after the end.

        A wrong ``n`` ends the subscription with `Subscriber.on_error`: a `ValueError` if it is not
        positive (rule 3.9), a `TypeError` if it is no integer. A demand of 2**63-1 or more has no
        limit (rule 3.17).
        """

    @abstractmethod
    def cancel(self) -> None:
        """Ask for no more signals. Does nothing after the end (rule 3.7)."""


@runtime_checkable
class Subscriber(Protocol[T_contra]):
    """Receives the elements of a publisher. It has one subscription at a time (rule 2.5).

    No method may raise, except a `TypeError` for an argument that is ``None`` (rule 2.13). Two
    subscribers are the same if they are the same object (rule 2.12).
    """

    @abstractmethod
    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Receive the subscription: always the first signal."""

    @abstractmethod
    def on_next(self, element: T_contra, /) -> None:
        """Receive an element that was requested."""

    @abstractmethod
    def on_error(self, error: Exception, /) -> None:
        """Receive the reason why no more elements come; it needs no demand."""

    @abstractmethod
    def on_complete(self) -> None:
        """Receive the end: there are no more elements. It needs no demand."""


@runtime_checkable
class Publisher(Protocol[T_co]):
    """A source of elements, as many as its subscribers request."""

    @abstractmethod
    def subscribe(self, subscriber: Subscriber[T_co], /) -> None:
        """Begin to send the elements to ``subscriber``, which first gets ``on_subscribe``.

        Each call needs another subscriber (rule 1.10). A failure is a signal, not an exception
        (rule 1.9).

        Raises:
            TypeError: ``subscriber`` is ``None`` or no subscriber.
        """


@runtime_checkable
class Processor(Subscriber[T_contra], Publisher[R_co], Protocol[T_contra, R_co]):
    """A subscriber and a publisher at once: it keeps the rules of both (rule 4.1)."""
