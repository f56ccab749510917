"""Values nested so deeply that an encoder in C might end the process: `is_too_deep`."""

from __future__ import annotations

from gc import get_referents
from sys import getrecursionlimit
from typing import Any, Final

__all__ = ["is_too_deep"]

_USUAL: Final = 1000
"""Python's own limit of recursion: there an encoder raises an error long before its stack ends."""
_NESTED: Final = (list, tuple, dict, set, frozenset)


def is_too_deep(value: object, most: int) -> bool:
    """Return whether a value has too many levels, in a program that has raised Python's limit.

    In others it is not looked at: there encoders raise a `RecursionError`.

    Args:
        value: The value, which may contain itself.
        most: The levels that it may have.
    """
    if getrecursionlimit() <= _USUAL:
        return False
    level: list[Any] = [value]
    for _ in range(most + 1):
        nested = {id(each): each for each in level if isinstance(each, _NESTED)}
        if not nested:
            return False
        level = get_referents(*nested.values())
    return True
