"""Attempts to connect to one of several addresses, within a time: `connected_to`."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import Final, TypeVar

import trio

from .. import ConnectFailed, ConnectionClosed, Retry
from ..log_policy import logger
from ..uri import shown
from .failures import ReadFailed, explain

__all__ = ["RETRY", "connected_to"]

_T = TypeVar("_T")

RETRY: Final = Retry(initial_delay=0.05, max_delay=5.0)
"""The waits between attempts. A server that restarts is back within a second, often."""

ATTEMPT_TIMEOUT: Final = 10.0
"""Seconds for one attempt. A lost packet can make one hang for minutes, while the next succeeds."""

WARN_AFTER: Final = 2.0
"""Seconds without a connection until the log says so. A server that restarts takes less."""

_SILENT: Final = "it did not answer"


@asynccontextmanager
async def connected_to(
    uris: Sequence[str],
    dial: Callable[[str], AbstractAsyncContextManager[_T]],
    *,
    timeout: float,  # noqa: ASYNC109 - the text of the option timeoutMs needs it
    first: int = 0,
    within: float | None = None,
    random_number: Callable[[], float] = random.random,
) -> AsyncIterator[tuple[_T, str]]:
    """Connect to one of the addresses; leaving closes the connection.

    Args:
        uris: The addresses.
        dial: Returns a connection to an address, as a context manager.
        timeout: The option ``timeoutMs``, in seconds.
        first: Begin with this address. A higher number than there are addresses begins anew.
        within: The time for all attempts, in seconds; by default ``timeout``.
        random_number: As for `Retry.delays`.

    Returns:
        A context manager for the connection, and its address.

    Raises:
        ReadFailed: None could be reached in this time, or one has refused the connection.

    Checkpoint: entering and leaving, as the connections that ``dial`` makes.
    If cancelled: the connection is closed.
    """
    began = trio.current_time()
    deadline = began + (timeout if within is None else within)
    warned = False
    failure: Exception | None = None
    uri = ""
    for attempt, delay in enumerate(RETRY.delays(random_number)):
        uri = uris[(first + attempt) % len(uris)]
        entered = False
        try:
            # An address that does not answer must leave time for the others.
            left = max(0.0, deadline - trio.current_time())  # a wait can end a little too late
            with trio.move_on_after(min(left / len(uris), ATTEMPT_TIMEOUT)) as scope:
                async with dial(uri) as connection:
                    entered = True
                    scope.deadline = inf
                    yield connection, uri
            if entered:
                return
        except (ConnectFailed, ConnectionClosed) as error:
            if entered:
                raise
            failure = error
        except Exception as error:  # of any kind: the next attempt would not be better
            if entered:
                raise
            raise explain(error, "the connection", uri) from error
        # All addresses are tried once before the first wait.
        wait = delay if (attempt + 1) % len(uris) == 0 else 0
        if trio.current_time() + wait >= deadline:
            break
        if not warned and trio.current_time() >= began + WARN_AFTER:
            warned = True
            logger.warning(
                "%s: %s; trying again for up to %.0f s (option timeoutMs)",
                shown(uri), failure or _SILENT, deadline - trio.current_time(),
            )  # fmt: skip
        await trio.sleep(wait)
    reason = str(failure or _SILENT)
    others = f" and {len(uris) - 1} more" if len(uris) > 1 else ""
    raise ReadFailed(
        f"no connection to {shown(uri)}{others} within {timeout:g} s (option timeoutMs): {reason}"
    ) from failure
