"""Connections to responders: `connected` tries again until one is there, within a time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final

from ... import Metadata, Requester, connect
from ..attempts import connected_to
from .settings import SourceSettings

__all__ = ["Responder", "connected"]


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
        first: As for `connected_to`.
        within: The time for all attempts, in seconds; by default ``timeoutMs``.
        random_number: As for `Retry.delays`.

    Raises:
        ReadFailed: No responder could be reached in this time, or one has refused the connection.
    """
    async with connected_to(
        settings.uris,
        partial(_dial, settings),
        timeout=settings.timeout,
        first=first,
        within=within,
        random_number=random_number,
    ) as (requester, uri):
        yield Responder(requester, uri)


def _dial(settings: SourceSettings, uri: str) -> AbstractAsyncContextManager[Requester]:
    return connect(
        uri,
        data_mime_type=settings.data_mime_type,
        metadata_mime_type=settings.metadata_mime_type,
        setup_metadata=None if settings.auth is None else Metadata(auth=settings.auth),
        ssl_context=settings.tls.context() if _uses_tls(uri) else None,
    )


def _uses_tls(uri: str) -> bool:
    return uri.lower().startswith(("tls:", "wss:"))
