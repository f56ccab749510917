"""What a class may declare: checked when it is made, so no misspelt word switches tests off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final

import attrs

__all__ = ["Allowed", "check_declarations", "count", "one_of", "seconds", "yes_or_no"]


@attrs.frozen
class Allowed:
    """The values of one declaration.

    Attributes:
        text: What they are, for the error.
        holds: Whether a value is one of them.
    """

    text: str
    holds: Callable[[Any], bool]


def one_of(*words: str) -> Allowed:
    """Allow some words."""
    return Allowed(" or ".join(map(repr, words)), lambda value: value in words)


def count(least: int, *, or_none: bool = False) -> Allowed:
    """Allow integers from a least one."""
    return Allowed(
        f"an integer, at least {least}" + (", or None" if or_none else ""),
        lambda value: (or_none and value is None) or (type(value) is int and value >= least),
    )


def seconds(*, or_none: bool = False) -> Allowed:
    """Allow times: finite numbers above 0."""
    return Allowed(
        "a number of seconds above 0" + (", or None" if or_none else ""),
        lambda value: (
            (or_none and value is None)
            or (type(value) in (int, float) and isfinite(value) and value > 0)
        ),
    )


yes_or_no: Final = Allowed("True or False", lambda value: type(value) is bool)


def check_declarations(
    name: str,
    declared: Mapping[str, object],
    allowed: Mapping[str, Allowed],
    hooks: tuple[str, ...],
) -> None:
    """Check what a class declares.

    Args:
        name: The name of the class.
        declared: Its own attributes.
        allowed: The values of each declaration.
        hooks: The optional factories and hooks, which are functions.

    Raises:
        TypeError: A value is none of those that are allowed; or a name is not known, and is nearly
            one that is: whoever wrote it would believe in tests that are never run.
    """
    for attribute, value in declared.items():
        if attribute.startswith(("_", "test")) or isinstance(value, property):
            continue
        if attribute in allowed:
            if not allowed[attribute].holds(value):
                text = allowed[attribute].text
                raise TypeError(f"{name}.{attribute} is {value!r}, and has to be {text}")
        elif attribute in hooks:
            if not (callable(value) or isinstance(value, classmethod)):
                raise TypeError(f"{name}.{attribute} is {value!r}, and has to be a function")
        else:
            known = hooks if callable(value) or isinstance(value, staticmethod) else [*allowed]
            for meant in get_close_matches(attribute, known, n=1, cutoff=0.8):
                raise TypeError(
                    f"{name}.{attribute} is nothing that the kit knows: {meant} is, and has to be"
                    + (f" {allowed[meant].text}" if meant in allowed else " a function")
                )
