"""Work that goes on when its request is answered: `Background`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final, final

import attrs
import trio

from ..entrance import Home
from ..errors import LimitReached
from ..field_checks import COUNT, argument, number
from ..interactions.block import Block
from ..interactions.isolation import parted
from ..interactions.leftovers import isolated
from ..log_policy import logger
from ..sealed import Sealed, make
from .parameters import name_of

__all__ = ["Background", "BackgroundStatistics", "open_background"]

_AT_MOST: Final = 1000
_GRACE: Final = 5.0


@attrs.frozen(kw_only=True)
class BackgroundStatistics:
    """Numbers about work in the background.

    Attributes:
        running: Tasks that run.
        completed: Tasks that have returned.
        failed: Tasks that have raised an error.
        cancelled: Tasks that were cut at the end.
        rejected: Tasks that were not begun, because too many were running.
    """

    running: int
    completed: int
    failed: int
    cancelled: int
    rejected: int


@final
class Background(metaclass=Sealed, given="open_background gives one"):
    """Begins tasks that outlive the requests that begin them, in the nursery of their owner."""

    def __init__(self, nursery: trio.Nursery, at_most: int) -> None:
        self._nursery: trio.Nursery | None = nursery
        self._at_most = at_most
        self._home = Home()
        self._running = self._completed = self._failed = self._cancelled = self._rejected = 0

    def start_soon(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        """Begin a task, which is not waited for.

        It has the context variables of the caller, such as the trace, and neither its deadline nor
        its cancel scope. An error of it is logged and counted, and ends nothing else: what the
        owner cannot do without is a task of the nursery of a lifespan.

        Args:
            function: The async function.
            args: Its arguments.

        Raises:
            LimitReached: Too many are running, or no more may begin: a handler that lets it through
                rejects its request.
            RuntimeError: The caller is in another thread.
        """
        self._home.check("this background")
        if self._nursery is None or self._running >= self._at_most:
            self._rejected += 1
            raise LimitReached(
                "no more work is taken on"
                if self._nursery is None
                else f"{self._at_most} tasks are running: retry after one of them has ended"
            )
        self._running += 1
        self._nursery.start_soon(partial(self._run, function, *args), name=function)

    def statistics(self) -> BackgroundStatistics:
        """Return numbers about the tasks so far."""
        return BackgroundStatistics(
            running=self._running,
            completed=self._completed,
            failed=self._failed,
            cancelled=self._cancelled,
            rejected=self._rejected,
        )

    async def _run(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        try:
            error = await isolated(partial(function, *args))
            if error is None:
                self._completed += 1
                return
            cancelled, failure = parted(error)
            if failure is not None:
                self._failed += 1
                logger.error("%s failed in the background", name_of(function), exc_info=failure)
            if cancelled is not None:
                self._cancelled += failure is None
                raise cancelled
        finally:
            self._running -= 1

    def _close(self, grace: float) -> None:
        """Begin no more, and cancel after some seconds what has not ended."""
        assert self._nursery is not None  # it is closed once
        self._nursery.cancel_scope.deadline = trio.current_time() + grace
        self._nursery = None


async def open_background(
    *, at_most: int = _AT_MOST, grace: float = _GRACE
) -> AsyncIterator[Background]:
    """Give a `Background`: a provider, for the application or for each connection.

    ``router.provide(Background, open_background, scope="application")``, or with
    ``partial(open_background, at_most=50)``. When its owner ends, no task begins any more, and the
    running ones have some time.

    Args:
        at_most: Tasks that may run at once. 1000: some MB.
        grace: How long they may finish at the end, in seconds. For the application that begins
            when the last connection is over; the tasks of a connection are cancelled with it, when
            the grace of a server that stops is over.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: It is out of range.

    Checkpoint: at the end, always.
    If cancelled: the tasks are cancelled.
    """
    argument("at_most", at_most, COUNT)
    argument("grace", grace, number(at_least=0))
    block = Block()
    with block.around():
        async with trio.open_nursery() as nursery:
            background = make(Background, nursery, at_most)
            try:
                with block.body():
                    yield background
            finally:
                background._close(grace)  # noqa: SLF001 - this function made it
