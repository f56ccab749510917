"""Objects of classes that users derive from ours: do they override what they mean to?

A method with a misspelt name is never called, and nobody would know why. So it is an error where
the object is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from typing import Final
from weakref import WeakSet

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
    if cls in bases or cls in _CHECKED or not hooks or vars(given).keys() & hooks:
        return
    name = f"{cls.__module__}.{cls.__qualname__}"
    theirs = {hook: getattr(base, hook) for base in bases for hook in hooks if hasattr(base, hook)}
    inherited = {hook: method for hook, method in theirs.items() if getattr(cls, hook) is method}
    known = {each for base in bases for each in dir(base)}
    for method in sorted(set(dir(cls)) - known):
        function = inspect.getattr_static(cls, method)
        if method.startswith("_") or not inspect.isfunction(function):
            continue
        for hook in inherited:
            if _plain(method) == _plain(hook) or (
                get_close_matches(method, [hook], cutoff=_SIMILAR)
                and _arity(function) == _arity(inherited[hook])
            ):
                raise TypeError(f"{name}.{method} is never called: name it {hook}")
    if inherited.keys() == theirs.keys():
        raise TypeError(
            f"{name} overrides none of the methods that are called: {', '.join(sorted(hooks))}"
        )
    _CHECKED.add(cls)


_CHECKED: Final = WeakSet[type]()
"""The classes without faults: acceptors give an object for each connection."""


def _plain(name: str) -> str:
    """A name in whatever style: gRPC's classes have methods as they stand in the .proto file."""
    return name.replace("_", "").lower()


def _arity(function: object) -> int:
    return function.__code__.co_argcount if inspect.isfunction(function) else -1
