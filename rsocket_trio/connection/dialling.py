"""Diallers: functions that make transports, as applications write them: `Dial`, `Dialled`.

Whatever a dialler raises because there is no connection now becomes `ConnectFailed`, here and
nowhere else: so `connect` raises one type of error, and resumption knows what to try again. All
else that it raises is a fault in it, which trying again would only hide.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutine
from types import TracebackType
from typing import TypeAlias

import trio

from ..errors import ConnectFailed, single_error
from ..log_policy import logger
from ..transports.base import FrameTransport
from ..transports.dial import NO_CONNECTION, describe_failure

__all__ = ["Dial", "Dialled"]

Dial: TypeAlias = Callable[[], AbstractAsyncContextManager[FrameTransport]]
"""Makes a transport, and closes it with the block."""


class Dialled(AbstractAsyncContextManager[FrameTransport]):
    """One call of a dialler, as the context manager that it returned.

    On entering:

    Raises:
        ConnectFailed: There is no connection now; ``__cause__`` holds what the dialler raised.
        TypeError: The dialler returned no asynchronous context manager.
        Exception: Whatever else it raised, as it is.

    On leaving, what it raises because its connection is broken already is of no interest. Where
    nobody could be told of anything else (``patience``), that is logged.

    Args:
        dial: Called on entering.
        patience: How long leaving may take, in seconds, for those who have to go on. By default it
            may take as long as it likes, and what it raises is raised.
    """

    def __init__(self, dial: Dial, *, patience: float | None = None) -> None:
        self._dial = dial
        self._patience = patience
        self._manager: AbstractAsyncContextManager[FrameTransport] | None = None

    async def __aenter__(self) -> FrameTransport:
        try:
            manager = _called(self._dial)
            transport = await manager.__aenter__()
        except Exception as error:
            alone = single_error(error)
            if isinstance(alone, ConnectFailed):
                raise alone from alone.__cause__
            if _is_no_connection(alone):
                text = f"cannot connect: {describe_failure(alone)}"
                raise ConnectFailed(text) from alone
            raise
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
            if self._patience is None:
                return await self._manager.__aexit__(kind, error, traceback)
            with trio.move_on_after(self._patience):
                await self._manager.__aexit__(kind, error, traceback)
        except NO_CONNECTION as closing:
            if closing is error:
                raise
            # It was to be closed, and closed it is; how it broke is nobody's concern any more.
        except Exception as closing:
            if self._patience is None or closing is error:
                raise
            logger.exception("the dialler failed to close a connection")
        return False


def _is_no_connection(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):  # of several attempts, say
        return error.split((ConnectFailed, *NO_CONNECTION))[1] is None
    return isinstance(error, NO_CONNECTION)


def _called(dial: Dial) -> AbstractAsyncContextManager[FrameTransport]:
    manager: object = dial()
    if isinstance(manager, AbstractAsyncContextManager):
        return manager
    if iscoroutine(manager):
        manager.close()  # It is not going to be awaited, and need not say so too.
    raise TypeError(
        "a function that dials returns an asynchronous context manager (see "
        f"contextlib.asynccontextmanager), not {type(manager).__name__}"
    )
