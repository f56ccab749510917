"""What runs beside Spark's calls in the process of a stream reader: `SourceDriver`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import Final, Never

import trio

from ...spool import NotASpool, describe_spool
from ..trio_thread import TrioThread
from .fleet import Fleet
from .settings import SourceSettings

__all__ = ["SourceDriver", "stop_on_sigterm"]


class SourceDriver:
    """A thread with the connections to the collectors, and the embedded collector if there is one.

    Args:
        settings: The options of the read.

    Attributes:
        fleet: The collectors.
        thread: Where its methods are called.
    """

    def __init__(self, settings: SourceSettings) -> None:
        self.thread: Final = TrioThread("rsocket-trio lumberjack source")
        uris = settings.collectors
        if not uris and settings.spool is not None:
            if not settings.listen and not settings.subscribe:
                _check_spool(settings.spool)
            # The readers of collectors need no server.
            from .embedded import Embedded

            embedded = Embedded(
                settings.spool,
                settings.listen,
                max_size=settings.max_spool_size,
                timeout=settings.collector_timeout,
                subscribe=settings.subscribe,
                tls=settings.tls,
            )
            self.thread.serve(embedded.serve)
            uris = (embedded.uri,)
            self.fleet: Fleet = self.thread.serve(
                _serve_fleet, uris, settings, lambda: embedded.locked
            )
        else:
            self.fleet = self.thread.serve(_serve_fleet, uris, settings, str)

    def close(self) -> None:
        """End the thread, with all connections."""
        self.thread.close()


def _check_spool(directory: str) -> None:
    """See that there is a spool: without a sender, a new one would stay empty for ever.

    Raises:
        NotASpool: There is none.
    """
    try:
        describe_spool(directory)
    except NotASpool as error:
        raise NotASpool(
            f"{error}. A stream with the option spool alone reads the directory of a collector that"
            " has ended: see whether the name is right; or set the option listen too, and the query"
            " receives events itself"
        ) from error


async def _serve_fleet(
    uris: Sequence[str],
    settings: SourceSettings,
    hint: Callable[[], str],
    *,
    task_status: trio.TaskStatus[Fleet],
) -> None:
    await Fleet(uris, settings, hint=hint).serve(task_status=task_status)


def stop_on_sigterm() -> None:
    """Let SIGTERM end this process as an exception, so that Spark calls ``stop`` of its reader.

    Spark sends SIGTERM twice when a query is stopped; the second one must not interrupt the end.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> Never:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)
