"""Why a connection is over, told to each of its streams: `again`."""

from __future__ import annotations

import copy
from typing import TypeVar

__all__ = ["again"]

_E = TypeVar("_E", bound=Exception)


def again(error: _E) -> _E:
    """The same error, to be raised once more.

    Each task gets an error of its own, because raising one gives it that task's traceback; and
    each keeps the cause, which `copy.copy` forgets.
    """
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin
