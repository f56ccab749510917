"""What commands with a spool share: their options, and the statuses of its errors."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from .exits import LOCAL_IO, USAGE, Failure
from .options import above_zero, size

if TYPE_CHECKING:
    from rsocket_trio.errors import RSocketError
    from rsocket_trio.spool import Retention

__all__ = ["add_spool_options", "spool_failure", "spool_retention", "spool_room"]

_DEFAULT_SIZE: Final = 2**30


def add_spool_options(group: argparse._ActionsContainer, option: str, alias: str) -> None:
    """Add how much a spool stores (``option``), and how long: ``--keep-size``, ``--keep-age``."""
    group.add_argument(
        option,
        alias,
        metavar="SIZE",
        type=size,
        help="bytes that the spool may store, for example 500M or 20G (default 1G); the senders"
        " wait when it is full",
    )
    group.add_argument(
        "--keep-size",
        metavar="SIZE",
        type=size,
        help="keep events for readers that come later: with consumers, delete events that all of"
        " them have behind them only when the spool stores more than this; without consumers,"
        " delete the oldest ones then",
    )
    group.add_argument(
        "--keep-age",
        "--max-age",
        metavar="SECONDS",
        type=above_zero,
        help="the same by age: keep events until this long after they were stored. Without"
        " --keep-size and --keep-age, events are deleted as soon as all consumers of the spool have"
        " them behind them, and a spool without consumers keeps all",
    )
    group.add_argument(
        "--group-readers",
        action="store_true",
        default=None,
        help="let the members of the directory's group read the spool: SQLite keeps the locks of"
        " readers in its files, so they can also stop the writer. Without it only this user can",
    )


def spool_room(args: argparse.Namespace, option: str) -> int:
    """Return the bytes that the spool may store.

    Args:
        args: The parsed arguments.
        option: The option that `add_spool_options` has added.

    Raises:
        Failure: ``--keep-size`` is larger.
    """
    given: int | None = getattr(args, option.removeprefix("--").replace("-", "_"))
    room = given or _DEFAULT_SIZE
    if (args.keep_size or 0) > room:
        raise Failure(f"--keep-size is larger than the spool ({room} bytes, {option})", USAGE)
    return room


def spool_retention(args: argparse.Namespace) -> Retention | None:
    """Return how long events are kept, as ``--keep-size`` and ``--keep-age`` say."""
    # Importing it takes time, which the grammar does not need.
    from rsocket_trio.spool import Retention

    if args.keep_size is None and args.keep_age is None:
        return None
    return Retention(max_size=args.keep_size, max_age=args.keep_age)


def spool_failure(error: RSocketError) -> Failure:
    """Return the failure for an error of a spool: it is damaged, or the command is used wrongly."""
    from rsocket_trio.spool import SpoolFailed  # not for `--help`

    return Failure(str(error), LOCAL_IO if isinstance(error, SpoolFailed) else USAGE)
