"""Serve within the block of an application: `served_within`.

The block is entered and left in the task of the caller; what is served has a task beside it. So if
the block fails meanwhile, what is served is not cut at that moment: the peers are told first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio

from .interactions.block import ungrouped
from .interactions.isolation import cancellation_of

__all__ = ["served_within"]

_LAST_WORDS: Final = 2.0
"""How long connections may take to end when the block has failed, in seconds."""


async def served_within(
    block: AbstractAsyncContextManager[object],
    serve: Callable[[], Awaitable[object]],
    stop: Callable[[], object],
) -> None:
    """Enter a block, serve, and leave it.

    Args:
        block: The block.
        serve: Serves; its task has the context variables that the block has set.
        stop: Begins to end what is served gracefully, as the block has failed.

    Raises:
        BaseException: What the block or ``serve`` raises, as it is raised.

    Checkpoint: always.
    If cancelled: what is served is cancelled; then the block is left.
    """
    failing, over = trio.Event(), trio.Event()
    serving = trio.CancelScope()
    failure: BaseException | None = None
    own: list[BaseException] = []

    async def run() -> None:
        nonlocal failure
        try:
            with serving:
                await serve()
        except BaseException as error:  # raised in the block, unless it is only cancelled
            if cancellation_of(error) is not None:
                raise
            failure = error
        finally:
            over.set()

    async def part() -> None:
        await failing.wait()  # cancelled with the caller, who gives no time
        stop()
        serving.deadline = trio.current_time() + _LAST_WORDS

    with ungrouped(own):
        async with trio.open_nursery() as nursery:
            try:
                async with block:
                    nursery.start_soon(part)
                    nursery.start_soon(run)
                    try:
                        await over.wait()
                    except trio.Cancelled:
                        failing.set()
                        with trio.CancelScope(shield=True):
                            await over.wait()
                        if failure is None:
                            raise
                    if failure is not None:
                        own.append(failure)
                        raise failure
            finally:
                failure = None  # its traceback has this frame
                nursery.cancel_scope.cancel(reason="nothing is served any more")
