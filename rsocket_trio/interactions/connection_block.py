"""The block of the application around one connection: `around_connection`.

It has a task of its own in the nursery of the connection, because it is entered within a time limit
and outlives that. It is left when the last handler has ended, also if the connection is cancelled.
If it fails before, the connection ends first, and then the block is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from ..errors import RejectedSetup, setup_refusal
from ..log_policy import logger
from .block import Block
from .isolation import failure_of, parted

__all__ = ["NotEntered", "around_connection", "run_within"]

_REFUSED = "the connection was not admitted"
_ENDED = "the application has ended the connection"
_LAST_WORDS = 2.0
"""How long the peer may take to get the text, in seconds."""


@asynccontextmanager
async def around_connection(
    block: AbstractAsyncContextManager[object] | None,
    peer: str,
    patience: float,
    end: Callable[[str], object],
    *,
    refuses: bool = True,
) -> AsyncIterator[None]:
    """Run what is inside as one connection within the block of a responder.

    Args:
        block: The block; ``None`` is none.
        peer: What the log calls the peer.
        patience: The time for entering the block, in seconds.
        end: Ends the connection, with a text for the peer, if the block ends before it.
        refuses: An error before the connection has begun is for the peer, without its text.

    Raises:
        SetupError: The block has refused the connection, failed or ended, before it had begun.
        NotEntered: The same, if that does not refuse.

    Checkpoint: as the block does.
    If cancelled: the connection is cancelled, then the block is left.
    """
    if block is None:
        yield
        return
    held, own = _Held(block, peer, end), Block()
    failure: Exception | None = None
    with own.around():
        async with trio.open_nursery() as nursery:
            failure = await held.enter(nursery, patience)
            if failure is None:
                try:
                    with held.connection, own.body():
                        yield
                finally:
                    held.over.set()
    if failure is None:
        return
    if not refuses:
        raise NotEntered(failure)
    refusal = setup_refusal(failure)
    if refusal is not None:
        raise refusal from None
    logger.error("the block of the connection from %s failed", peer, exc_info=failure)
    raise RejectedSetup(_REFUSED) from failure


class NotEntered(Exception):
    """A block of a connection that is made here could not be entered.

    Args:
        error: Why.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


async def run_within(
    block: AbstractAsyncContextManager[object] | None,
    peer: str,
    patience: float,
    end: Callable[[str], object],
    run: Callable[..., Awaitable[object]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a connection that is made here within its block.

    Args:
        block: The block; ``None`` is none.
        peer: What the log calls the peer.
        patience: The time for entering the block, in seconds.
        end: As for `around_connection`.
        run: Runs the connection.
        task_status: Is given to ``run``.

    Raises:
        NotEntered: The block could not be entered.

    Checkpoint: as ``run`` does.
    If cancelled: the connection is cancelled, then the block is left.
    """
    async with around_connection(block, peer, patience, end, refuses=False):
        await run(task_status=task_status)


class _Held:
    """A block in a task of its own.

    Attributes:
        connection: The scope of what is inside of the block.
        over: Is set when that has ended.
    """

    def __init__(
        self, block: AbstractAsyncContextManager[object], peer: str, end: Callable[[str], object]
    ) -> None:
        self._block = block
        self._peer = peer
        self._end = end
        self.connection = trio.CancelScope()
        self.over = trio.Event()

    async def enter(self, nursery: trio.Nursery, patience: float) -> Exception | None:
        """Enter the block within some time; return why it was not entered."""
        try:
            with trio.move_on_after(patience):
                await nursery.start(self._hold)
                return None
        except BaseException as error:  # `failure_of` re-raises cancellation and the like
            return failure_of(error)
        return trio.TooSlowError(f"its block was not entered within {patience:g} s")

    async def _hold(self, task_status: trio.TaskStatus[None]) -> None:
        has_begun = False
        try:
            with trio.CancelScope() as scope:
                async with self._block:
                    await trio.lowlevel.checkpoint_if_cancelled()  # it may have been too late
                    task_status.started()
                    has_begun = True
                    await self._wait(scope)
        except BaseException as error:  # `parted` re-raises those that end the program
            if not has_begun:
                raise
            cancelled, failure = parted(error)
            if failure is not None:
                what = "the block of the connection from %s failed, which ended it"
                logger.error(what, self._peer, exc_info=failure)
            if cancelled is not None:
                raise cancelled from None
        if not has_begun:
            raise RuntimeError(
                "the block of the connection was over when it was entered: a deadline of it has "
                "passed, or it absorbed a cancellation"
            )

    async def _wait(self, scope: trio.CancelScope) -> None:
        """Wait until the connection is over; a scope of the block that ends before ends it."""
        scope.shield = True  # those around the connection cancel the handlers, which end before
        try:
            await self.over.wait()
        except BaseException:  # also a cancellation: the handlers end before the block
            self._end(_ENDED)
            with trio.CancelScope(shield=True):
                with trio.move_on_after(_LAST_WORDS):
                    await self.over.wait()
                self.connection.cancel(reason=_ENDED)
                await self.over.wait()
            raise
        finally:
            scope.shield = False
