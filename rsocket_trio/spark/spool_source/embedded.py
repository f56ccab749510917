"""A collector in the process of a query, for notebooks and tests: `Embedded`.

A spool has one writer, and Spark can have several readers of one: ``df.union(df)``, two queries, or
a query that was started again while the old one still ends. So the first reader runs the collector,
and all of them are its clients, by a Unix socket whose path follows from the directory of the
spool. When the first one goes, another one takes over.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Never

import trio

from ...collector import Collector, Subscription, collect
from ...errors import single_error
from ...log_policy import logger
from ...spool import SpoolLocked
from ...uri import Uri
from ..tls_options import TlsSettings

__all__ = ["Embedded", "socket_uri"]

TAKE_OVER_PAUSE: Final = 0.2
"""Seconds until a reader tries again to open the spool, or to listen."""

MAX_PATH: Final = 100
"""Bytes of the path of a Unix socket: Linux allows 107, macOS 103."""


class Embedded:
    """Runs the collector, or waits until it may.

    Args:
        directory: The directory of the spool.
        listen: Where the collector listens.
        max_size: The size of the spool in bytes.
        timeout: Seconds that an address may be in use, e.g. by a query that ends.
        subscribe: Publishers whose streams the collector stores.
        tls: The TLS settings for publishers.

    Attributes:
        uri: Where the readers find the collector, whichever of them runs it.
        locked: What to do if the process that has the spool does not answer there.
    """

    def __init__(
        self,
        directory: str,
        listen: Sequence[str],
        *,
        max_size: int,
        timeout: float,
        subscribe: Sequence[Subscription] = (),
        tls: TlsSettings | None = None,
    ) -> None:
        self.directory: Final = directory
        self.uri: Final = socket_uri(directory)
        self.locked = ""
        self._listen: Final = tuple(listen)
        self._max_size: Final = max_size
        self._timeout: Final = timeout
        self._subscribe: Final = tuple(subscribe)
        self._tls: Final = tls or TlsSettings()

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> Never:
        """Run the collector as soon and as long as no other process does.

        Started when it is known that there is one.

        Raises:
            OSError: An address cannot be listened on.
            SpoolError: The spool cannot be opened, or has failed for good.
        """
        in_use_since: float | None = None
        started = False
        while True:
            try:
                async with trio.open_nursery() as nursery:
                    collector = await nursery.start(self._collect)
                    in_use_since, self.locked = None, ""
                    logger.info("listening on %s", ", ".join(collector.uris))
                    if not started:
                        started = True
                        task_status.started()
            except BaseExceptionGroup as group:  # of the nursery: what matters is the one error
                error = single_error(group)
                if isinstance(error, SpoolLocked):
                    self.locked = (
                        f"{error}; if that process is a collector, let it run, and read with the"
                        " option collectors and its RSocket address, e.g. collectors=127.0.0.1:7878"
                    )
                    if not started:
                        logger.info("%s; this query is a reader of it", error)
                        started = True
                        task_status.started()
                elif isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                    # A query that ends may still have it; another program will not give it back.
                    now = trio.current_time()
                    in_use_since = now if in_use_since is None else in_use_since
                    if now - in_use_since > self._timeout:
                        raise
                else:
                    raise
            await trio.sleep(TAKE_OVER_PAUSE)

    async def _collect(self, *, task_status: trio.TaskStatus[Collector]) -> None:
        await collect(
            self.directory,
            *self._listen,
            self.uri,
            max_size=self._max_size,
            subscribe=self._subscribe,
            subscribe_ssl_context=self._tls.context(),
            task_status=task_status,
        )


def socket_uri(directory: str) -> str:
    """Return the address of the collector in the queries of this user that have this spool.

    Raises:
        OSError: The directory for such sockets cannot be made, or belongs to another user.
    """
    # The path of a Unix socket has at most about 100 bytes, so the name is a digest.
    digest = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:24]
    name = f"{digest}.sock"
    return str(Uri(scheme="unix", path=str(_own_directory(len(name)) / name)))


def _own_directory(room: int) -> Path:
    """Return a directory that only this user can use.

    Args:
        room: The length of a name in it.
    """
    paths = [Path(tempfile.gettempdir()) / f"rsocket-trio-{os.getuid()}"]
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base) and os.access(base, os.W_OK):
        paths.insert(0, Path(base) / "rsocket-trio")
    short = [each for each in paths if len(os.fsencode(each)) + 1 + room <= MAX_PATH]
    path = short[0] if short else Path("/tmp") / f"rsocket-trio-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            errno.EPERM,
            "the directory must belong to this user alone (chmod 700, or remove it)",
            str(path),
        )
    return path
