"""Run trio in a task or in the driver of Spark, whose code is not async: `run`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from ...errors import single_error

__all__ = ["run"]

T = TypeVar("T")


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end, and raise its error without a group.

    A task of Spark has the main thread of its process for itself. So trio runs in this thread, and
    nothing is left over when the task ends.
    """
    try:
        return trio.run(function)
    except BaseExceptionGroup as group:  # one error happened: Spark is to show that one
        alone = single_error(group)
        if alone is group:
            raise
        raise alone from alone.__cause__
