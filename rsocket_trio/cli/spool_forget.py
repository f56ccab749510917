"""``spool forget``: forget a consumer of a spool that no process writes to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio.spool import SpoolError, SpoolLocked, describe_spool, open_spool

from .exits import DONE, USAGE, Failure

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_ANY_SIZE: Final = 2**62
"""Bytes; the spool is opened with room, so nothing is deleted to make some."""


def run(args: argparse.Namespace) -> int:
    """Forget the consumer.

    Raises:
        Failure: There is no such spool or consumer, or another process writes to the spool.
    """
    try:
        # First, as opening makes a spool where there is none.
        known = describe_spool(args.directory).positions
        if args.consumer not in known:
            names = ", ".join(map(repr, sorted(known))) or "none"
            raise Failure(f"there is no consumer {args.consumer!r}; there are: {names}", USAGE)
        trio.run(_forget, args.directory, args.consumer)
    except SpoolLocked as error:
        raise Failure(
            f"{error}; if that is a collector, ask it: rsocket-trio collect --status URI --forget"
            " CONSUMER",
            USAGE,
        ) from error
    except SpoolError as error:
        raise Failure(str(error), USAGE) from error
    print(f"forgot {args.consumer!r}", file=sys.stderr)
    return DONE


async def _forget(directory: str, consumer: str) -> None:
    async with open_spool(directory, max_size=_ANY_SIZE) as spool:
        await spool.forget(consumer)
