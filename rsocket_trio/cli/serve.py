"""``serve``: serve a target until a signal stops it. A second signal stops it at once."""

from __future__ import annotations

import logging
import ssl
from functools import partial
from typing import TYPE_CHECKING

import trio

from rsocket_trio import Lease, LeaseOptions, ServerResume, serve
from rsocket_trio.uri import parse_uri

from .certificates import load_certificate
from .exits import USAGE, Failure
from .logs import log_to_stderr
from .serving import serve_until_stopped
from .target import load_target

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


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
    return trio.run(serve_until_stopped, start, args.grace, "running streams")


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
