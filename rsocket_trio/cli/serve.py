"""``serve``: serve a target until a signal stops it. A second signal stops it at once."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio import Lease, LeaseOptions, ServerResume, serve
from rsocket_trio.os_support import STOP_SIGNALS
from rsocket_trio.uri import parse_uri

from .certificates import load_certificate
from .exits import DONE, UNREACHABLE, USAGE, Failure
from .logs import log_to_stderr
from .stdio import Writer
from .target import load_target

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Server

__all__ = ["run"]

_logger: Final = logging.getLogger("rsocket_trio.cli")


def run(args: argparse.Namespace) -> int:
    """Serve the target on every ``--listen`` address.

    Returns:
        0 after a graceful stop, else 128 plus the number of the signal that stopped it at once.

    Raises:
        Failure: The target or the certificate cannot be loaded, or an address cannot be used.
    """
    log_to_stderr(args, normally=logging.INFO)
    context = _ssl_context(args)
    target = load_target(args.target)
    start = partial(
        serve,
        target,
        *args.listen,
        ssl_context=context,
        lease=_lease(args),
        resume=None if args.resume is None else ServerResume(session_lifetime=args.resume),
        max_connections=args.max_connections,
        allowed_origins=_origins(args),
    )
    return trio.run(_serve, start, args.grace)


def _ssl_context(args: argparse.Namespace) -> ssl.SSLContext | None:
    encrypted = [uri for uri in args.listen if parse_uri(uri).is_encrypted]
    if args.cert is None:
        if encrypted or args.key is not None:
            raise Failure(f"{encrypted[0] if encrypted else '--key'} needs --cert", USAGE)
        return None
    if not encrypted:
        raise Failure("--cert works only with tls:// and wss:// addresses", USAGE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(context, args.cert, args.key)
    return context


def _origins(args: argparse.Namespace) -> list[str] | None:
    origins: list[str] | None = args.allow_origin
    if origins is not None and not any(parse_uri(uri).is_websocket for uri in args.listen):
        raise Failure("--allow-origin works only with ws:// and wss:// addresses", USAGE)
    return origins


def _lease(args: argparse.Namespace) -> LeaseOptions | None:
    if args.lease is None:
        return None
    try:
        return LeaseOptions(Lease(*args.lease))
    except ValueError as error:
        raise Failure(f"--lease: {error}", USAGE) from error


async def _serve(start: Callable[..., Awaitable[None]], grace: float) -> int:
    failure: Exception | None = None
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:
            stop = _Stop(nursery, grace)
            nursery.start_soon(stop.watch, signals)
            try:
                stop.server = await _start(nursery, start)
                lines = "".join(f"listening on {uri}\n" for uri in stop.server.uris)
                await Writer().write(lines.encode())
            # Raised below: the nursery would wrap it in a group.
            except (Failure, BrokenPipeError) as error:
                failure = error
                nursery.cancel_scope.cancel(reason="cannot listen, or cannot print the addresses")
    if failure is not None:
        raise failure
    return stop.status


async def _start(nursery: trio.Nursery, start: Callable[..., Awaitable[None]]) -> Server:
    try:
        server: Server = await nursery.start(start)
    except OSError as error:
        raise Failure(str(error.strerror or error), UNREACHABLE) from error
    return server


class _Stop:
    """Stops the server when signals arrive.

    Attributes:
        server: The server, or ``None`` until it accepts connections.
        status: The exit status after the signals so far.
    """

    def __init__(self, nursery: trio.Nursery, grace: float) -> None:
        self.server: Server | None = None
        self.status = DONE
        self._nursery = nursery
        self._grace = grace
        self._stopping = False

    async def watch(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if self._stopping or self.server is None:
                self.status = 128 + number
                self._nursery.cancel_scope.cancel(reason="a signal came")
            else:
                self._stopping = True
                self._nursery.start_soon(self._close, self.server)

    async def _close(self, server: Server) -> None:
        _logger.info("stopping: running streams have %g s to finish", self._grace)
        await server.aclose(grace=self._grace)
        self._nursery.cancel_scope.cancel(reason="stopped")
