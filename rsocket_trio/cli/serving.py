"""Run a server until a signal stops it: `serve_until_stopped`. A second signal stops it at once."""

from __future__ import annotations

import ipaddress
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from rsocket_trio import (
    Allow,
    ConnectionAge,
    Health,
    Responder,
    Router,
)
from rsocket_trio.os_support import STOP_SIGNALS
from rsocket_trio.sockets.systemd import notify, watchdog_interval
from rsocket_trio.sockets.workplace import workplace
from rsocket_trio.uri import AddressKind, Uri, kind_of, shown

from .access_log import access_log
from .exits import DONE, UNREACHABLE, USAGE, Failure
from .hangup import Reloadable, reload_at_hangup
from .logs import logger
from .stdio import Writer, reader_gone

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import AccessLog, Middleware, Page

    from .metrics import Metrics

__all__ = [
    "Deployment",
    "RunningServer",
    "allowed",
    "asks_nobody",
    "serve_until_stopped",
    "warn_of_open",
]


class RunningServer(Protocol):
    """What the servers of this package have in common."""

    @property
    def uris(self) -> Any:
        """The addresses it listens on."""

    async def aclose(self, *, delay: float = ..., spread: float = ..., grace: float = ...) -> None:
        """Stop gracefully."""


class Deployment:
    """What probes are told of a server, and how it ends, by the options of `add_deployment`.

    Args:
        args: The options.

    Attributes:
        health: What ``/ready`` says.
        options: Arguments that all functions which serve have.
        phases: Arguments that end a server.
        pages: More pages by their paths, at the addresses of ``--health``.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        is_worker = workplace() is not None
        self.health: Final = Health()
        max_age = None
        if args.connection_age is not None:
            limit, grace = args.connection_age
            max_age = ConnectionAge(limit, grace=grace)
        self.options: Final[dict[str, Any]] = {"health": self.health, "max_age": max_age}
        self.phases: Final = {
            "delay": 0.0 if is_worker else args.stop_delay,  # its parent has waited
            "spread": args.stop_spread,
            "grace": args.grace,
        }
        self.pages: Final[dict[str, Callable[[], Awaitable[Page]]]] = {}
        self._addresses: Final[list[str]] = [] if is_worker else args.health
        self._args: Final = args
        self._metrics: Metrics | None = None
        self._log: AccessLog | None = None

    @contextmanager
    def observing(self, target: object, *, lines: bool = True) -> Iterator[list[Middleware]]:
        """Count the calls of a target in the block, as the options of `add_observation` say.

        Args:
            target: What is served; a Router gets middleware.
            lines: Also write a line for each call, and write at last what waits.

        Yields:
            The middleware for a target that is no Router.

        Raises:
            Failure: The page cannot be served, or the file cannot be opened.
        """
        args = self._args
        around: list[Middleware] = []
        if args.metrics:
            if not args.health:
                raise Failure("--metrics needs --health URL: the page is /metrics there", USAGE)
            # Importing it takes time, which other servers do not need.
            from .metrics import Metrics

            self._metrics = Metrics(target)
            self.pages["/metrics"] = self._metrics.page
            around += self._metrics.meters
        with access_log(args) if lines else nullcontext() as log:
            self._log = log
            if log is not None and isinstance(target, Router):
                target._surround(log)  # noqa: SLF001 - not for applications
            elif log is not None:
                around.insert(0, log)
            yield [] if isinstance(target, Router) else around

    def started(self, server: Any) -> None:
        """Show a server that has started."""
        if self._metrics is not None:
            self._metrics.count(server)

    @contextmanager
    def last_lines(self) -> Iterator[None]:
        """Write at the end of the block, in trio, how many lines were left out."""
        try:
            yield
        finally:
            if self._log is not None:
                self._log.settle(all_of_it=True)

    async def serve_pages(self, nursery: trio.Nursery) -> list[str]:
        """Begin to answer probes; return the addresses.

        Raises:
            OSError: An address cannot be used.
        """
        if not self._addresses:
            return []
        # Importing it takes time, which other servers do not need.
        from rsocket_trio import health_pages, serve_pages

        pages = {**health_pages(self.health), **self.pages}
        start = partial(serve_pages, pages, *self._addresses)
        uris: list[str] = await nursery.start(start)
        return uris


async def serve_until_stopped(
    start: Callable[..., Awaitable[None]],
    deployment: Deployment,
    rest: str,
    work: Callable[[Any], Awaitable[None]] | None = None,
    files: Sequence[Reloadable | None] = (),
    *,
    prints: bool = False,
) -> int:
    """Start a server, print its addresses, and wait until signals stop it.

    Args:
        start: Runs the server, and gives it to ``task_status``.
        deployment: What probes are told, and how it ends after the first signal.
        rest: What may go on then, for the log.
        work: Runs while the server runs, and gets it. When it returns, the server is stopped.
        files: See `reload_at_hangup`.
        prints: ``work`` prints what comes, so all of it also ends with the reader of the output.

    Returns:
        0 after a graceful stop or the end of ``work``, else 128 plus the number of the signal that
        stopped it at once.

    Raises:
        Failure: An address cannot be used, or ``work`` has failed.
        BrokenPipeError: The reader of the output has closed the pipe.

    Checkpoint: always.
    If cancelled: the server is stopped at once.
    """
    failure: Exception | None = None

    async def run(*, task_status: trio.TaskStatus[Any]) -> None:
        nonlocal failure
        try:
            await start(task_status=task_status)
        except Exception as error:  # e.g. of a task of the router's lifespan
            if stop.server is None:
                raise  # by `nursery.start`
            failure = error
            nursery.cancel_scope.cancel(reason="the server has failed")

    async def watch_reader() -> None:
        nonlocal failure
        await reader_gone()
        failure = BrokenPipeError()
        nursery.cancel_scope.cancel(reason="nobody reads the output")

    with deployment.last_lines(), trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            stop = _Stop(nursery, deployment, rest)
            nursery.start_soon(stop.watch, signals)
            nursery.start_soon(_watchdog)
            nursery.start_soon(stop.watch_parent)
            await nursery.start(reload_at_hangup, files, stop.stop)
            try:
                pages = await _start(deployment.serve_pages, nursery)  # before it is ready
                server = stop.server = await _start(nursery.start, run)
                deployment.started(server)
                if workplace() is None:  # the parent of workers says it
                    lines = [f"listening on {shown(uri)}\n" for uri in server.uris]
                    lines += [f"answering probes at {shown(uri)}\n" for uri in pages]
                    await Writer().write("".join(lines).encode())
                notify("READY=1")
                if prints:
                    nursery.start_soon(watch_reader)
                if work is not None:
                    await work(server)
                    nursery.cancel_scope.cancel(reason="the work is done")
            # Raised below: the nursery would wrap it in a group.
            except Exception as error:  # of the command, of its output or of a lifespan
                failure = error
                nursery.cancel_scope.cancel(reason="cannot listen, or cannot print")
    if failure is not None:
        raise failure
    return stop.status


async def _start(start: Callable[[Any], Awaitable[Any]], argument: object) -> Any:
    try:
        return await start(argument)
    except OSError as error:
        raise Failure(str(error.strerror or error), UNREACHABLE) from error


async def _watchdog() -> None:
    """Tell systemd that this process is alive, as often as it asks for."""
    interval = watchdog_interval()
    if interval is not None:
        while True:
            notify("WATCHDOG=1")
            await trio.sleep(interval)


class _Stop:
    """Stops the server when signals arrive.

    Attributes:
        server: The server, or ``None`` until it accepts connections.
        status: The exit status after the signals so far.
    """

    def __init__(self, nursery: trio.Nursery, deployment: Deployment, rest: str) -> None:
        self.server: RunningServer | None = None
        self.status = DONE
        self._nursery = nursery
        self._phases = deployment.phases
        self._rest = rest
        self._stopping = False

    async def watch(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self.stop(number)

    async def watch_parent(self) -> None:
        """Stop gracefully when the parent of this worker wants it."""
        place = workplace()
        if place is not None:
            await place.wait_stopping()
            if not self._stopping:
                self.stop(signal.SIGTERM)
            await place.keep_telling()

    def stop(self, number: int) -> None:
        """Stop gracefully for the first signal, and at once for a further one."""
        if self._stopping or self.server is None:
            self.status = 128 + number
            self._nursery.cancel_scope.cancel(reason="a signal came")
        else:
            self._stopping = True
            self._nursery.start_soon(self._close, self.server)

    async def _close(self, server: RunningServer) -> None:
        notify("STOPPING=1")
        delay, spread, grace = self._phases.values()
        before = ""
        if delay or spread:
            before = f"serving for {delay:g} s, goodbyes within {spread:g} s, then "
        logger.info("stopping: %s%s have %g s to finish", before, self._rest, grace)
        await server.aclose(**self._phases)
        self._nursery.cancel_scope.cancel(reason="stopped")


def warn_of_open(uris: Iterable[Uri], why: str) -> None:
    """Say in one line of the log which addresses others than this host can reach, if any.

    Args:
        uris: Addresses without what they need there.
        why: What is missing, and what to do.
    """
    found = [shown(each) for each in uris if _is_public(each)]
    place = workplace()
    if found and (place is None or place.is_first):
        logger.warning("%s: %s, or listen on 127.0.0.1 or a Unix socket", ", ".join(found), why)


def _is_public(uri: Uri) -> bool:
    if kind_of(uri) is not AddressKind.INTERNET or uri.host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(uri.host.partition("%")[0]).is_loopback
    except ValueError:  # a name, or * for all addresses
        return True


def asks_nobody(target: object) -> bool:
    """Whether a target serves every peer that connects, as far as its type says."""
    if isinstance(target, Router):
        return not target.is_guarded
    if isinstance(target, Responder):
        return type(target).accept is Responder.accept
    return not callable(target)  # A function is given each connection.


def allowed(who: Sequence[tuple[str, int | bool]], uris: Iterable[Uri]) -> Allow | None:
    """Return whom the options ``--allow`` let in; ``None`` without such an option.

    Args:
        who: The options.
        uris: The addresses of the server; at TCP nobody is known.

    Raises:
        Failure: Nobody could connect to one of the addresses.
    """
    if not who:
        return None
    for uri in uris:
        if kind_of(uri) is AddressKind.INTERNET:
            text = f"--allow does not work with TCP: nobody could connect to {shown(uri)}"
            raise Failure(text, USAGE)
    flags = dict(who)
    ids = {
        kind: [value for name, value in who if name == kind] for kind in ("uids", "gids", "cids")
    }
    return Allow(**ids, same_user="same_user" in flags, root="root" in flags)
