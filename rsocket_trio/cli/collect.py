"""``collect``: run a collector until a signal stops it, or ask one how it is."""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio import ReloadableContext
from rsocket_trio.collector import Collector, Subscription, collect
from rsocket_trio.lumberjack.addresses import lumberjack_uri
from rsocket_trio.spool import BatchTooLarge, SpoolError, SpoolFailed
from rsocket_trio.uri import parse_uri

from .certificates import asks_certificates, server_context, trusting
from .collect_auth import GivenGrants, given_subscriptions
from .exits import LOCAL_IO, USAGE, Failure
from .logs import log_to_stderr, logger
from .progress import Progress
from .room_reports import RoomReports
from .serving import Deployment, allowed, serve_until_stopped, warn_of_open
from .spool_options import spool_failure, spool_retention, spool_room

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_SIZE_OPTION: Final = "--max-size"
_INTERVAL: Final = 0.5
"""Seconds between two looks at the spool."""

_OF_A_RUN: Final = (
    "spool", "listen", "subscribe", "max_size", "keep_size", "keep_age", "group_readers",
    "max_connections", "allow_origin", "client_cert", "subscribe_ca",
)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Collect on every ``--listen`` address until a signal; or print the ``--status``.

    Returns:
        0 after a graceful stop, else 128 plus the number of the signal that stopped it at once.

    Raises:
        Failure: The options are wrong, an address or the spool cannot be used, or the spool has
            failed; or the collector does not answer.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    if args.status is not None:
        from . import collect_status  # needed by this option only

        for name in _OF_A_RUN:
            if getattr(args, name) is not None:
                raise Failure(f"--{name.replace('_', '-')} does not work with --status", USAGE)
        if args.allow:
            raise Failure("--allow does not work with --status", USAGE)
        _check_forget(args)
        return collect_status.run(args)
    log_to_stderr(
        args,
        normally=logging.INFO,
        as_json=args.json,
        expected=(BatchTooLarge, SpoolFailed),
        over_progress=True,
    )
    return trio.run(_Run(args).run)


class _Run:
    """One run of a collector."""

    def __init__(self, args: argparse.Namespace) -> None:
        _check(args)
        self._room: Final = spool_room(args, _SIZE_OPTION)
        self._args: Final = args
        self._deployment: Final = Deployment(args)
        self._collector: Collector | None = None
        self._failure: SpoolError | None = None
        self._ended: Final = trio.Event()
        encrypted = [uri for uri in args.listen if _is_encrypted(uri)]
        self._context: Final = server_context(args, encrypted, "lumberjacks://, tls:// and wss://")
        others = [uri for uri in args.listen if not _is_lumberjack(uri)]
        self._allow: Final = allowed(args.allow, map(parse_uri, others))
        self._grants: Final = GivenGrants(args) if _asks_tokens(args) else None
        self._warn(others)
        self._subscriptions: Final = given_subscriptions(args)
        self._publishers: Final = _publishers_context(args, self._subscriptions)
        self._progress: Final = Progress(sys.stderr, quiet=args.quiet)

    def _warn(self, others: list[str]) -> None:
        """Say which public addresses ask for no credentials, or for some that can be read."""
        by_certificate = asks_certificates(self._args)
        senders = [lumberjack_uri(each) for each in self._args.listen if _is_lumberjack(each)]
        readers = [parse_uri(each) for each in others]
        if self._grants is not None:
            warn_of_open(
                (each for each in readers if not each.is_encrypted),
                "tokens and events can be read on their way: use tls:// or wss://",
            )
        else:
            warn_of_open(
                (each for each in readers if not (each.is_encrypted and by_certificate)),
                "anybody who can connect may send, read and delete events: ask for tokens"
                " (--auth-bearer)",
            )
            if by_certificate and any(each.is_encrypted for each in senders):
                warn_of_open(
                    (each for each in readers if each.is_encrypted),
                    "the certificate of a sender of Lumberjack lets it read and delete events here:"
                    " ask for tokens (--auth-bearer)",
                )
        warn_of_open(
            (each for each in senders if not (each.is_encrypted and by_certificate)),
            "anybody who can connect may send events: ask for certificates (lumberjacks:// and"
            " --ca)",
        )

    async def run(self) -> int:
        what = "events that have been taken"
        try:
            return await serve_until_stopped(
                self._collect,
                self._deployment,
                what,
                self._watch,
                [self._grants, self._context, self._publishers],
            )
        finally:
            if self._collector is not None:
                numbers = self._collector.statistics()
                logger.info("events: %d stored, %d dropped", numbers.stored, numbers.dropped)

    async def _collect(self, task_status: trio.TaskStatus[Collector]) -> None:
        args = self._args
        try:
            await collect(
                args.spool,
                *args.listen,
                subscribe=self._subscriptions,
                max_size=self._room,
                retention=spool_retention(args),
                group_readers=bool(args.group_readers),
                ssl_context=self._context,
                subscribe_ssl_context=self._publishers,
                max_connections=args.max_connections,
                **self._deployment.options,
                allowed_origins=args.allow_origin,
                allow=self._allow,
                authenticate=None if self._grants is None else self._grants.authenticate,
                task_status=_Started(self, task_status),
            )
        except SpoolError as error:
            if self._collector is None:
                raise spool_failure(error) from error
            # The task that watches raises it: out of this one it would be in a group.
            self._failure = error
        except OSError as error:
            if error.filename is None:  # an address; its text names it
                raise
            text = f"cannot use the spool {args.spool!r}: {error.strerror}"
            raise Failure(text, USAGE) from error
        finally:
            self._ended.set()

    def began(self, collector: Collector) -> None:
        """Note that the collector accepts connections."""
        self._collector = collector

    async def _watch(self, collector: Collector) -> None:
        reports = RoomReports(collector.spool, _SIZE_OPTION)
        try:
            while not self._ended.is_set():
                reports.look()
                self._show(collector)
                with trio.move_on_after(_INTERVAL):
                    await self._ended.wait()
        finally:
            self._progress.clear()
        if self._failure is not None:
            raise Failure(str(self._failure), LOCAL_IO) from self._failure
        # A graceful stop: the task that waits for its end goes on.
        await trio.sleep_forever()

    def _show(self, collector: Collector) -> None:
        if self._progress.shown:
            numbers, kept = collector.statistics(), collector.spool.statistics()
            self._progress.show(
                f"events: {numbers.stored:,}  connections: {numbers.connections:,}  "
                f"spool: {kept.size:,} of {collector.spool.max_size:,} bytes"
            )


class _Started(trio.TaskStatus[Collector]):
    """Notes the collector before it is passed on."""

    def __init__(self, run: _Run, inner: trio.TaskStatus[Collector]) -> None:
        self._run = run
        self._inner = inner

    def started(self, value: Collector | None = None) -> None:
        if value is not None:
            self._run.began(value)
            self._inner.started(value)


def _check(args: argparse.Namespace) -> None:
    for name in ("spool", "listen"):
        if getattr(args, name) is None:
            raise Failure(f"collect needs --{name} (or --status URI)", USAGE)
    for name in ("insecure", "tls-server-name"):
        if getattr(args, name.replace("-", "_")):
            raise Failure(f"--{name} works only with --status", USAGE)
    _check_forget(args)
    if args.forget is not None:
        raise Failure("--forget works only with --status URI; see also spool forget", USAGE)
    if _asks_tokens(args) and all(_is_lumberjack(uri) for uri in args.listen):
        raise Failure(
            "--auth-bearer and --auth-simple are for RSocket: name an address of RSocket with"
            " --listen; senders of Lumberjack can be asked for a certificate (--ca)",
            USAGE,
        )
    if args.allow_origin is not None and not any(
        uri.lower().startswith(("ws:", "wss:")) for uri in args.listen
    ):
        raise Failure("--allow-origin works only with ws:// and wss:// addresses", USAGE)


def _asks_tokens(args: argparse.Namespace) -> bool:
    return bool(args.auth_bearer or args.auth_simple)


def _is_lumberjack(uri: str) -> bool:
    return uri.lower().startswith(("lumberjack:", "lumberjacks:"))


def _is_encrypted(uri: str) -> bool:
    if _is_lumberjack(uri):
        return uri.lower().startswith("lumberjacks:")
    return parse_uri(uri).is_encrypted


def _publishers_context(
    args: argparse.Namespace, subscriptions: list[Subscription]
) -> ReloadableContext | None:
    encrypted = any(each.uri.is_encrypted for each in subscriptions)
    if args.subscribe_ca is None:
        return None
    if not encrypted:
        raise Failure("--subscribe-ca works only with --subscribe tls:// or wss://", USAGE)
    return ReloadableContext(partial(trusting, args.subscribe_ca))


def _check_forget(args: argparse.Namespace) -> None:
    for option, given in (("--force", args.force), ("--instance", args.instance is not None)):
        if given and args.forget is None:
            raise Failure(f"{option} works only with --forget", USAGE)
