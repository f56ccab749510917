"""Verifications in one call: classes for factories that are at hand, without a class statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .processor import ProcessorVerification
from .publisher import PublisherVerification
from .subscriber import SubscriberVerification
from .trials import Verification

__all__ = ["verify_processor", "verify_publisher", "verify_subscriber"]

V = TypeVar("V", bound=Verification)


def verify_publisher(
    publisher: Callable[..., Any], **capabilities: Any
) -> type[PublisherVerification]:
    """Return a class that verifies the publishers of a factory.

    Assign it to a name that pytest collects: ``TestMine = verify_publisher(...)``.

    Args:
        publisher: The factory: see `PublisherVerification`.
        capabilities: The attributes of that class.

    Raises:
        TypeError: There is no such capability.
    """
    return _class(PublisherVerification, {"publisher": publisher, **capabilities})


def verify_subscriber(
    subscriber: Callable[..., Any], **capabilities: Any
) -> type[SubscriberVerification]:
    """Return a class that verifies the subscribers of a factory.

    Args:
        subscriber: The factory: see `SubscriberVerification`.
        capabilities: The attributes of that class.

    Raises:
        TypeError: There is no such capability.
    """
    return _class(SubscriberVerification, {"subscriber": subscriber, **capabilities})


def verify_processor(
    processor: Callable[..., Any], **capabilities: Any
) -> type[ProcessorVerification]:
    """Return a class that verifies the processors of a factory.

    Args:
        processor: The factory: see `ProcessorVerification`.
        capabilities: The attributes of that class.

    Raises:
        TypeError: There is no such capability.
    """
    return _class(ProcessorVerification, {"processor": processor, **capabilities})


def _class(base: type[V], attributes: dict[str, Any]) -> type[V]:
    known = {name for each in base.__mro__ for name in vars(each)}
    known |= {name for each in base.__mro__ for name in getattr(each, "__annotations__", {})}
    for name in attributes:
        if name.startswith(("_", "test_")) or name not in known:
            raise TypeError(f"{base.__name__} has no capability {name!r}")
    # Functions are no methods here: they take the arguments of a factory, and no self.
    plain = {
        name: staticmethod(value) if callable(value) else value
        for name, value in attributes.items()
    }
    return type(base.__name__, (base,), plain)
