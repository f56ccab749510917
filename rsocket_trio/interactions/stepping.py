"""Run coroutines by hand: one step in the current task, then the rest: `step`, `go_on`.

Most handlers end without waiting. One step of their coroutine shows this, and costs less than a
task, a queue or even an ``await``.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Protocol

__all__ = ["Steppable", "first_step", "go_on", "step"]


class Steppable(Protocol):
    """The part of `rsocket_trio.connection.job.Job` that `first_step` uses."""

    def work(self) -> Coroutine[Any, Any, object]: ...

    def close(self, error: Exception | None) -> None: ...


def step(awaitable: Awaitable[Any]) -> tuple[Coroutine[Any, Any, Any], object]:
    """Run a coroutine up to its first wait, in the current task.

    Returns:
        The coroutine and the value it yielded: for `go_on`, which must be awaited next, in this
        task.

    Raises:
        StopIteration: It ended without waiting; ``value`` is its result.
        BaseException: It raised this before it waited.
    """
    # Of a coroutine that waits already (a handler that is cached, say) `await` says so; to send it
    # anything would end the wait of another request.
    if type(awaitable) is not types.CoroutineType or awaitable.cr_suspended:
        awaitable = _awaited(awaitable)
    return awaitable, awaitable.send(None)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def first_step(job: Steppable) -> Awaitable[object] | None:
    """Run a job up to its first wait, in the current task.

    Returns:
        The rest of its work: the caller awaits it at once, in this task, and closes the job.
        ``None`` if the work has ended and the job is closed.

    Raises:
        BaseException: The error of the work; the caller closes the job.
    """
    work = job.work()  # not below: a handler may raise StopIteration when it is called
    try:
        rest = go_on(*step(work))
    except StopIteration:
        job.close(None)
        return None
    return rest


@types.coroutine
def go_on(coroutine: Coroutine[Any, Any, Any], trap: object) -> Generator[Any, Any, Any]:
    """Await the rest of a coroutine that `step` has begun.

    Returns:
        Its result.

    Raises:
        BaseException: The error of the coroutine.
    """
    try:
        while True:
            try:
                value = yield trap
            except BaseException as error:  # as `yield from` does
                trap = coroutine.throw(error)
            else:
                try:
                    trap = coroutine.send(value)
                finally:
                    # It may hold the error that this raises (trio sends outcomes), whose traceback
                    # holds this frame: a cycle, with the frames and the request of the handler.
                    del value
    except StopIteration as done:
        return done.value
