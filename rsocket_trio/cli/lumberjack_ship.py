"""``lumberjack ship``: ship the lines of log files."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio import os_support
from rsocket_trio.logfiles import (
    EXPANSION,
    EventWriter,
    Following,
    MultilineRule,
    Reading,
    Registry,
    RegistryError,
    Source,
    check_encoding,
)
from rsocket_trio.lumberjack import LumberjackLimits, ShipperConfig
from rsocket_trio.lumberjack.addresses import lumberjack_uri

from .certificates import client_context
from .exits import USAGE, Failure
from .json_lines import ASIDE, JsonPairWriter, JsonWriter
from .logs import log_to_stderr
from .pair_writer import PairWriter
from .ship_run import ShipRun

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_MAX_LINE: Final = 2 * 2**20
"""The largest ``--max-line``. Its event is then below 16 MiB, the limit of most servers."""
_MAX_FIELDS: Final = 64 * 2**10
"""Bytes of all ``--field`` and ``--host`` together: each event has them."""
_CHUNK_OF_EVENTS: Final = 2048
"""Events of one call of `Shipper.send`, at most."""


def run(args: argparse.Namespace) -> int:
    """Ship the files to the end, or until a signal.

    Returns:
        0 if everything is acknowledged, else 128 plus the number of the signal that stopped it.

    Raises:
        Failure: The options are wrong, a file cannot be read, or no server acknowledges in time.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    # A run without an end says that it is connected again, as it says that it is not.
    normally = logging.INFO if args.follow else logging.WARNING
    log_to_stderr(args, normally=normally, over_progress=True)
    if "-" in args.files:
        raise Failure(
            "standard input cannot be shipped, because it cannot be read again after a failure:"
            " write it to a file, and ship that with --follow (a file named - is ./-)",
            USAGE,
        )
    if not os_support.POSITIONED_READS:
        raise Failure("this system cannot read files in the way that this command needs", USAGE)
    encrypted = any(lumberjack_uri(uri).is_encrypted for uri in args.to)
    context = client_context(args, "lumberjacks://", encrypted=encrypted)
    config = _config(args)
    reading = _reading(args)
    sources = [Source.of(each, follow_links=args.follow_links) for each in args.files]
    registry_file = None if args.no_registry else _registry_file(args.registry)
    try:
        registry = Registry(registry_file)
    except RegistryError as error:
        raise Failure(str(error), USAGE) from error
    try:
        ship = ShipRun(
            args,
            sources,
            registry=registry,
            registry_file=registry_file,
            reading=reading,
            following=_following(args),
            config=config,
            ssl_context=context,
        )
        return trio.run(ship.run)
    finally:
        registry.close()


def _registry_file(given: str | None) -> Path:
    if given is not None:
        return Path(given).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    # By the specification of these variables, a path that is not absolute is ignored.
    try:
        base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise Failure(f"give --registry or --no-registry: {error}", USAGE) from error
    return base / "rsocket-trio" / "ship.json"


def _reading(args: argparse.Namespace) -> Reading:
    if args.max_line > _MAX_LINE:
        raise Failure(
            "--max-line may be 2M at most: servers refuse events above 16 MiB, and a byte of a line"
            f" can become {EXPANSION} bytes",
            USAGE,
        )
    host = socket.gethostname() if args.host is None else args.host
    fields = dict(args.fields)
    if sum(map(len, [host, *fields, *fields.values()])) > _MAX_FIELDS:
        raise Failure("--field and --host are too long: 64K characters in all", USAGE)
    try:
        encoding = check_encoding(args.encoding or "utf-8")
    except ValueError as error:
        raise Failure(f"--encoding: {error}", USAGE) from error
    return Reading(
        max_events=min(args.window, _CHUNK_OF_EVENTS),
        max_line=args.max_line,
        multiline=_multiline(args),
        refuse_wide=args.encoding is None,
        writer=partial(
            _writer(args, fields),
            host=host,
            fields=fields,
            encoding=encoding,
            invalid="replace" if args.invalid_bytes == "replace" else "backslashreplace",
        ),
    )


def _writer(args: argparse.Namespace, fields: dict[str, str]) -> Callable[..., EventWriter]:
    """Return the class that makes the events."""
    key: str | None = args.json_key
    if not args.json:
        if key is not None:
            raise Failure("--json-key needs --json", USAGE)
        return EventWriter if args.lumberjack_version == 2 else PairWriter
    kind = JsonWriter if args.lumberjack_version == 2 else JsonPairWriter
    if key in {"", "error", kind.MESSAGE, *kind.own_names(fields)} - {ASIDE}:
        raise Failure(f"--json-key: give another name: events may have a field {key!r}", USAGE)
    return partial(kind, key=key)


def _multiline(args: argparse.Namespace) -> MultilineRule | None:
    if args.multiline_start is None and args.multiline_continue is None:
        return None
    if args.multiline_start is not None and args.multiline_continue is not None:
        raise Failure("give either --multiline-start or --multiline-continue", USAGE)
    return MultilineRule(
        start=args.multiline_start,
        continues=args.multiline_continue,
        max_lines=args.multiline_max_lines,
        timeout=args.multiline_timeout,
    )


def _following(args: argparse.Namespace) -> Following | None:
    if not args.follow:
        return None
    return Following(poll=args.poll, close_after=args.close_after)


def _config(args: argparse.Namespace) -> ShipperConfig:
    most = LumberjackLimits().max_window
    if args.window > most:
        raise Failure(f"--window may be {most} at most", USAGE)
    return ShipperConfig(
        version=args.lumberjack_version,
        compression_level=args.compression_level,
        max_window=args.window,
        load_balance=args.load_balance,
    )
