"""What can be served: a Router, a mapping, or a resolver function. `resolver_of`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from ..reactive_streams.interfaces import Publisher
from ..responder import Acceptor, Responder
from .connection.connection import Connection

__all__ = ["Resolver", "Served", "check_served", "is_acceptor", "resolver_of"]

Resolver: TypeAlias = Callable[
    [str, Connection], Publisher[Any] | Awaitable[Publisher[Any] | None] | None
]
"""Finds the publisher of a name; ``None`` if there is none. It may be async."""

Served: TypeAlias = Responder | Acceptor | Mapping[str, Publisher[Any]] | Resolver
"""What can be served. The names of a mapping are whole names: a query is a part of them."""

_SETUP: Final = "setup"


def check_served(target: object) -> None:
    """Check the type of a target at the start, not with the first connection.

    Raises:
        TypeError: It cannot be served; the text says what can.
    """
    if isinstance(target, type):
        raise TypeError(f"an object is needed, not the class {target.__name__}")
    if isinstance(target, Responder):
        return
    if isinstance(target, Mapping):
        for name, publisher in target.items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a publisher must be a str, not {name!r}")
            if not callable(getattr(publisher, "subscribe", None)):
                raise TypeError(
                    f"{name!r} is no Publisher, but an object of type {type(publisher).__name__}"
                )
        return
    if not callable(target):
        raise TypeError(
            "a Router, a mapping of names to publishers, or a function of a name and a connection "
            f"is needed, not {type(target).__name__}"
        )
    try:
        inspect.signature(target).bind(None, None)
    except TypeError:
        raise TypeError(
            f"{target!r} cannot find publishers: it must take two arguments, the name and the "
            "connection"
        ) from None
    except ValueError:  # some functions written in C have no signature
        return


def is_acceptor(target: object) -> bool:
    """Whether a function is an acceptor, of a setup and a requester, and no resolver.

    Both take two arguments. The first one of an acceptor is called ``setup``, or annotated so.
    """
    if isinstance(target, Responder | Mapping) or not callable(target):
        return False
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters:
        return False
    first = parameters[0]
    annotation = first.annotation
    named = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return first.name == _SETUP or named.rpartition(".")[2] == "Setup"


def resolver_of(target: Mapping[str, Publisher[Any]] | Resolver | None) -> Resolver:
    """Return the function that finds publishers in a mapping, or is given."""
    if target is None:
        return _nothing
    if isinstance(target, Mapping):
        publishers = target
        return lambda name, _connection: publishers.get(name)
    return target


def _nothing(_name: str, _connection: Connection) -> None:
    return None
