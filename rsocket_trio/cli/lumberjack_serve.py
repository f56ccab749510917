"""``lumberjack serve``: receive log events, and print them or keep them in a spool."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from rsocket_trio import ReloadableContext, Router
from rsocket_trio.lumberjack import (
    Batch,
    InvalidEvent,
    LumberjackConfig,
    LumberjackLimits,
    LumberjackServer,
    serve,
)
from rsocket_trio.lumberjack.addresses import lumberjack_uri
from rsocket_trio.spool import BatchTooLarge, SpoolConfig, SpoolError, SpoolFailed, open_spool

from .certificates import asks_certificates, server_context
from .event_printer import EventPrinter
from .event_storage import EventStorage
from .exits import DONE, USAGE, Failure
from .logs import log_to_stderr, logger
from .serving import Deployment, serve_until_stopped, warn_of_open
from .spool_options import spool_failure, spool_retention, spool_room
from .stdio import Writer

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Receive events on every ``--listen`` address until a signal, or ``--take`` events.

    Returns:
        0 after a graceful stop, else 128 plus the number of the signal that stopped it at once.

    Raises:
        Failure: The options are wrong, an address or a spool cannot be used, or the output or the
            spool has failed.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    log_to_stderr(
        args,
        normally=logging.INFO,
        as_json=args.json,
        expected=(InvalidEvent, BatchTooLarge, SpoolFailed),
        over_progress=True,
    )
    _check_spool(args)
    encrypted = [uri for uri in args.listen if lumberjack_uri(uri).is_encrypted]
    context = server_context(args, encrypted, "lumberjacks://")
    uris = map(lumberjack_uri, args.listen)
    warn_of_open(
        (uri for uri in uris if not (uri.is_encrypted and asks_certificates(args))),
        "anybody who can connect may send events: ask for certificates (lumberjacks:// and --ca)",
    )
    config = _config(args)
    run_with = _print_events if args.spool is None else _spool_events
    return trio.run(partial(run_with, args, partial(_run, args, config, context)))


_Run = Callable[..., Awaitable[int]]
"""`_run`, without its first arguments."""


async def _print_events(args: argparse.Namespace, run: _Run) -> int:
    printer = EventPrinter(
        Writer(),
        Writer(2, "standard error"),
        as_json=args.json,
        close_at_invalid=args.invalid == "close",
        take=args.take,
    )

    async def work(server: LumberjackServer) -> None:
        await printer.run()
        await server.aclose(grace=0)

    return await run(printer.handle, work)


async def _spool_events(args: argparse.Namespace, run: _Run) -> int:
    opened = open_spool(
        args.spool,
        max_size=spool_room(args, "--spool-size"),
        retention=spool_retention(args),
        config=SpoolConfig(group_readers=bool(args.group_readers)),
    )
    status = DONE
    async with AsyncExitStack() as stack:
        try:
            spool = await stack.enter_async_context(opened)
        except SpoolError as error:
            raise spool_failure(error) from error
        except OSError as error:
            text = f"cannot use the spool {args.spool!r}: {error.strerror}"
            raise Failure(text, USAGE) from error
        storage = EventStorage(spool, quiet=args.quiet)
        status = await run(storage.handle, storage.watch)
    return status  # noqa: RET504  mypy does not know that the stack suppresses no exception


async def _run(
    args: argparse.Namespace,
    config: LumberjackConfig,
    context: ReloadableContext | None,
    handler: Callable[[Batch], Awaitable[None]],
    work: Callable[[LumberjackServer], Awaitable[None]],
) -> int:
    running: LumberjackServer | None = None

    async def watched(server: LumberjackServer) -> None:
        nonlocal running
        running = server
        await work(server)

    deployment = Deployment(args)
    router = Router()
    router.events(handler)
    is_observed = args.metrics or args.access_log is not None  # it takes 8 us for each batch
    start = partial(
        serve,
        router if is_observed else handler,
        *args.listen,
        config=config,
        ssl_context=context,
        max_connections=args.max_connections,
        **deployment.options,
    )
    try:
        with deployment.observing(router):
            return await serve_until_stopped(
                start,
                deployment,
                "events that have been read",
                watched,
                [context],
                prints=args.spool is None,
            )
    finally:
        if running is not None:
            numbers = running.statistics()
            logger.info(
                "connections: %d, events: %d, acknowledged: %d",
                numbers.accepted,
                numbers.events,
                numbers.acknowledged,
            )


def _check_spool(args: argparse.Namespace) -> None:
    with_spool, without = (
        ("spool-size", "keep-size", "keep-age", "group-readers"),
        ("take", "invalid"),
    )
    if args.spool is None:
        if args.access_log == "-":
            raise Failure("standard output has the events: --access-log needs a FILE", USAGE)
        for name in with_spool:
            if _given(args, name):
                raise Failure(f"--{name} needs --spool", USAGE)
        return
    for name in without:
        if _given(args, name):
            raise Failure(f"--{name} does not work with --spool", USAGE)
    spool_room(args, "--spool-size")  # for its check, before anything is made


def _config(args: argparse.Namespace) -> LumberjackConfig:
    limits = LumberjackLimits()
    try:
        if args.max_event_size is not None:
            limits = attrs.evolve(limits, max_event_size=args.max_event_size)
        if args.max_batch_size is not None:
            limits = attrs.evolve(limits, max_batch_size=args.max_batch_size)
    except ValueError as error:
        raise Failure(f"--max-event-size, --max-batch-size: {error.args[0]}", USAGE) from error
    return LumberjackConfig(limits=limits, idle_timeout=args.idle_timeout)


def _given(args: argparse.Namespace, name: str) -> bool:
    return getattr(args, name.replace("-", "_")) is not None
