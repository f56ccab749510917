"""What is left to do when Python's stack is used up: `on_short_stack`, `exhausted`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import trio

from ..log_policy import logger
from .errors import StackExhausted

__all__ = ["exhausted", "on_short_stack", "reported"]


def exhausted(signal: str, cause: RecursionError) -> StackExhausted:
    """Make the last signal of a subscription for which there was no stack.

    Args:
        signal: What was called.
        cause: What it has raised.
    """
    if isinstance(cause, StackExhausted):
        return cause
    error = StackExhausted(signal)
    # Its frames, hundreds of them, refer to the elements.
    error.__cause__ = cause.with_traceback(None)
    return error


def on_short_stack(call: Callable[..., object], *arguments: Any) -> None:
    """Call something in a later turn of trio, as the stack is used up; without trio, now."""
    if trio.lowlevel.in_trio_run():
        token = trio.lowlevel.current_trio_token()
        try:
            token.run_sync_soon(copy_context().run, reported, call, *arguments)
        except trio.RunFinishedError:
            pass
        else:
            return
    call(*arguments)


def reported(call: Callable[..., object], *arguments: Any) -> None:
    """Call something; what it raises is logged."""
    try:
        call(*arguments)
    except BaseException as error:  # whatever leaves this function ends the whole run of trio
        logger.error("a last signal failed", exc_info=error)
