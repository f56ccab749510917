"""Connections to responders: `connected` tries again until one is there, within a time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import trio

from ... import ConnectFailed, ConnectionClosed, Metadata, Requester, Retry, connect
from ...log_policy import logger
from .failures import ReadFailed, explain
from .settings import SourceSettings

__all__ = ["RETRY", "Responder", "connected"]

RETRY: Final = Retry(initial_delay=0.05, max_delay=5.0)
"""The waits between attempts. A responder that restarts is back within a second, often."""

ATTEMPT_TIMEOUT: Final = 10.0
"""Seconds for one attempt. A lost packet can make one hang for minutes, while the next succeeds."""

WARN_AFTER: Final = 2.0
"""Seconds without a connection until the log says so. A responder that restarts takes less."""


class Responder:
    """A connection to a responder.

    Attributes:
        requester: Sends requests to it.
        uri: Its address.
    """

    def __init__(self, requester: Requester, uri: str) -> None:
        self.requester: Final = requester
        self.uri: Final = uri


@asynccontextmanager
async def connected(
    settings: SourceSettings,
    *,
    first: int = 0,
    within: float | None = None,
    random_number: Callable[[], float] = random.random,
) -> AsyncIterator[Responder]:
    """Connect to one of the responders; leaving closes the connection.

    Args:
        settings: The addresses, and how to connect.
        first: Begin with this address. A higher number than there are addresses begins anew.
        within: The time for all attempts, in seconds; by default ``timeoutMs``.
        random_number: As for `Retry.delays`.

    Raises:
        ReadFailed: No responder could be reached in this time, or one has refused the connection.
    """
    began = trio.current_time()
    deadline = began + (settings.timeout if within is None else within)
    warned = False
    failure: Exception | None = None
    uri = ""
    for attempt, delay in enumerate(RETRY.delays(random_number)):
        uri = settings.uris[(first + attempt) % len(settings.uris)]
        entered = False
        try:
            # An address that does not answer must leave time for the others.
            left = max(0.0, deadline - trio.current_time())  # a wait can end a little too late
            with trio.move_on_after(min(left / len(settings.uris), ATTEMPT_TIMEOUT)) as scope:
                async with connect(
                    uri,
                    data_mime_type=settings.data_mime_type,
                    metadata_mime_type=settings.metadata_mime_type,
                    setup_metadata=None if settings.auth is None else Metadata(auth=settings.auth),
                    ssl_context=settings.tls.context() if _uses_tls(uri) else None,
                ) as requester:
                    entered = True
                    scope.deadline = inf
                    yield Responder(requester, uri)
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
        wait = delay if (attempt + 1) % len(settings.uris) == 0 else 0
        if trio.current_time() + wait >= deadline:
            break
        if not warned and trio.current_time() >= began + WARN_AFTER:
            warned = True
            logger.warning(
                "%s: %s; trying again for up to %.0f s (option timeoutMs)",
                uri, failure or _SILENT, deadline - trio.current_time(),
            )  # fmt: skip
        await trio.sleep(wait)
    reason = str(failure or _SILENT)
    others = f" and {len(settings.uris) - 1} more" if len(settings.uris) > 1 else ""
    raise ReadFailed(
        f"no connection to {uri}{others} within {settings.timeout:g} s (option timeoutMs): {reason}"
    ) from failure


_SILENT: Final = "it did not answer"


def _uses_tls(uri: str) -> bool:
    return uri.lower().startswith(("tls:", "wss:"))
