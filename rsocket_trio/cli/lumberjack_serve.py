"""``lumberjack serve``: receive log events and print them."""

from __future__ import annotations

import logging
import ssl
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from rsocket_trio.lumberjack import LumberjackConfig, LumberjackLimits, serve
from rsocket_trio.lumberjack.addresses import lumberjack_uri

from .certificates import load_authority, load_certificate
from .event_printer import EventPrinter
from .exits import USAGE, Failure
from .logs import log_to_stderr
from .serving import serve_until_stopped

if TYPE_CHECKING:
    import argparse

    from rsocket_trio.lumberjack import LumberjackServer

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Receive events on every ``--listen`` address until a signal, or ``--take`` events.

    Returns:
        0 after a graceful stop, else 128 plus the number of the signal that stopped it at once.

    Raises:
        Failure: The options are wrong, an address cannot be used, or the output has failed.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    log_to_stderr(args, normally=logging.INFO)
    context = _ssl_context(args)
    config = _config(args)
    return trio.run(partial(_print_events, args, config, context))


async def _print_events(
    args: argparse.Namespace, config: LumberjackConfig, context: ssl.SSLContext | None
) -> int:
    printer = EventPrinter(
        as_json=args.json, close_at_invalid=args.invalid == "close", take=args.take
    )

    async def work(server: LumberjackServer) -> None:
        await printer.run()
        await server.aclose(grace=0)

    start = partial(
        serve,
        printer.handle,
        *args.listen,
        config=config,
        ssl_context=context,
        max_connections=args.max_connections,
    )
    return await serve_until_stopped(start, args.grace, "events that have been read", work)


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


def _ssl_context(args: argparse.Namespace) -> ssl.SSLContext | None:
    encrypted = [uri for uri in args.listen if lumberjack_uri(uri).is_encrypted]
    given = [f"--{name}" for name in ("key", "ca", "client-cert") if _given(args, name)]
    if args.cert is None:
        if encrypted or given:
            raise Failure(f"{encrypted[0] if encrypted else given[0]} needs --cert", USAGE)
        return None
    if not encrypted:
        raise Failure("--cert works only with lumberjacks:// addresses", USAGE)
    if args.client_cert is not None and args.ca is None:
        raise Failure("--client-cert needs --ca", USAGE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load_certificate(context, args.cert, args.key)
    if args.ca is not None:
        load_authority(context, args.ca)
        optional = args.client_cert == "optional"
        context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
    return context


def _given(args: argparse.Namespace, name: str) -> bool:
    return getattr(args, name.replace("-", "_")) is not None
