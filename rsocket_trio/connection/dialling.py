"""Diallers: functions of applications that make transports: `Dial`, `Dialled`, `wait_to_dial`.

An error of a dialler that means "no connection now" becomes `ConnectFailed`, only here. So
`connect` raises one type of error, and resumption knows when to try again. Any other error of a
dialler is a fault in the dialler, and another attempt would only hide it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutine
from types import TracebackType
from typing import NoReturn, TypeAlias

import trio

from ..errors import ConnectFailed, single_error
from ..interactions.isolation import parted
from ..log_policy import logger
from ..sockets.failures import describe_failure
from ..transports.base import FrameTransport
from ..transports.dial import NO_CONNECTION

__all__ = ["Dial", "Dialled", "raise_failure", "wait_to_dial"]

Dial: TypeAlias = Callable[[], AbstractAsyncContextManager[FrameTransport]]
"""Makes a transport, and closes it with the block."""


class Dialled(AbstractAsyncContextManager[FrameTransport]):
    """One call of a dialler, as the context manager that it returned.

    On entering:

    Raises:
        ConnectFailed: There is no connection now; ``__cause__`` holds the error of the dialler.
        TypeError: The dialler returned no asynchronous context manager.
        Exception: Any other error of the dialler, unchanged.

    On leaving, errors that say that the connection is broken are dropped. With
    ``close_timeout`` any other error is logged.

    Args:
        dial: Called on entering.
        close_timeout: How long leaving may take, in seconds, for a caller that has to go on. By
            default there is no limit, and errors are raised.
    """

    def __init__(self, dial: Dial, *, close_timeout: float | None = None) -> None:
        self._dial = dial
        self._close_timeout = close_timeout
        self._manager: AbstractAsyncContextManager[FrameTransport] | None = None

    async def __aenter__(self) -> FrameTransport:
        try:
            manager = _called(self._dial)
            transport = await manager.__aenter__()
        except BaseException as error:  # from the application's dialler
            raise_failure(error, "cannot connect")
        self._manager = manager
        return transport

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        assert self._manager is not None
        try:
            if self._close_timeout is None:
                return await self._manager.__aexit__(kind, error, traceback)
            with trio.move_on_after(self._close_timeout):
                await self._manager.__aexit__(kind, error, traceback)
        except NO_CONNECTION as closing:
            if closing is error:
                raise
            # The connection was to be closed, so it does not matter that it is broken.
        except Exception as closing:  # from the application's dialler
            if self._close_timeout is None or closing is error:
                raise
            logger.exception("the dialler failed to close a connection")
        return False


async def wait_to_dial(delay: float, end: float, per_attempt: float) -> float | None:
    """Wait before an attempt to dial, until ``end`` at most; all times are in seconds.

    Args:
        delay: How long to wait.
        end: The time at which attempts end.
        per_attempt: How long one attempt may take.

    Returns:
        The time by which the attempt must succeed; ``None`` if it is too late for an attempt.

    Checkpoint: always.
    If cancelled: nothing has happened.
    """
    await trio.sleep_until(min(trio.current_time() + delay, end))
    now = trio.current_time()
    return None if now >= end else min(now + per_attempt, end)


def raise_failure(error: BaseException, what: str) -> NoReturn:
    """Raise what a function of the application has failed with.

    Its nursery may give a failure together with the cancellation that it met, e.g. that of the
    time of an attempt. The failure alone is raised then: the scope is cancelled all the same.

    Args:
        error: What it raised.
        what: What has failed, for the text.

    Raises:
        ConnectFailed: It means "not now"; it is the cause, or was a `ConnectFailed` itself.
        Exception: Any other failure.
        BaseException: Only a cancellation, or what ends the program.
    """
    _, failure = parted(error)
    if failure is None:
        raise error
    alone = single_error(failure)
    if isinstance(alone, ConnectFailed):
        raise alone from alone.__cause__
    if _is_no_connection(alone):
        raise ConnectFailed(f"{what}: {describe_failure(alone)}") from alone
    raise failure


def _is_no_connection(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):  # for example of several attempts
        return error.split((ConnectFailed, *NO_CONNECTION))[1] is None
    return isinstance(error, NO_CONNECTION)


def _called(dial: Dial) -> AbstractAsyncContextManager[FrameTransport]:
    manager: object = dial()
    if isinstance(manager, AbstractAsyncContextManager):
        return manager
    if iscoroutine(manager):
        manager.close()  # Avoids the warning that the coroutine was never awaited.
    raise TypeError(
        "a function that dials must return an asynchronous context manager (see "
        f"contextlib.asynccontextmanager), not {type(manager).__name__}"
    )
