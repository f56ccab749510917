"""Objects of classes that users derive from ours: do they override what they mean to?

A method with a misspelt name is never called, and nobody would know why. So it is an error where
the object is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from types import FunctionType
from typing import Final, cast
from weakref import WeakKeyDictionary

__all__ = ["check_overrides"]

_SIMILAR = 0.88
"""Of `difflib`: one letter of eight or more is wrong, missing or too much, or two are swapped."""


def check_overrides(given: object, hooks: AbstractSet[str], *bases: type) -> None:
    """Check that a user's class has one of the methods that are called, and no misspelt one.

    Args:
        given: The object.
        hooks: The names of the methods that are called. None of another name is.
        bases: The classes it is derived from, which have them. Their own objects are not checked.

    Raises:
        TypeError: It overrides none, or has a method whose name is nearly that of one that it does
            not override.
    """
    cls = type(given)
    if cls in bases or bases in _CHECKED.get(cls, ()) or not hooks or vars(given).keys() & hooks:
        return
    name = f"{cls.__module__}.{cls.__qualname__}"
    theirs = {hook: getattr(base, hook) for base in bases for hook in hooks if hasattr(base, hook)}
    inherited = {hook: method for hook, method in theirs.items() if getattr(cls, hook) is method}
    known = {each for base in bases for each in dir(base)}
    for method in sorted(set(dir(cls)) - known):
        arity = _arity(inspect.getattr_static(cls, method))
        if method.startswith("_") or arity is None:
            continue
        for hook in inherited:
            if _plain(method) == _plain(hook) or (
                get_close_matches(method, [hook], cutoff=_SIMILAR)
                and arity == _arity(inherited[hook])
            ):
                raise TypeError(
                    f"{name}.{method} is never called: name it {hook}, or less like that if it is"
                    " a helper"
                )
    if inherited.keys() == theirs.keys():
        raise TypeError(
            f"{name} overrides none of the methods that are called: {', '.join(sorted(hooks))}"
        )
    _CHECKED.setdefault(cls, set()).add(bases)


_CHECKED: Final = WeakKeyDictionary[type, set[tuple[type, ...]]]()
"""The classes without faults, with the bases for which: acceptors give an object for each
connection, and an object may be a responder and a service."""


def _plain(name: str) -> str:
    """A name in whatever style: gRPC's classes have methods as they stand in the .proto file."""
    return name.replace("_", "").lower()


def _arity(method: object) -> int | None:
    """How many arguments a method takes, with its object, whatever decorates it."""
    if not isinstance(method, FunctionType | staticmethod | classmethod):
        return None
    function = inspect.unwrap(cast("Callable[..., object]", method))
    if not isinstance(function, FunctionType):
        return None
    return function.__code__.co_argcount + isinstance(method, staticmethod)
