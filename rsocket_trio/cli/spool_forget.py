"""``spool forget``: forget a consumer of a spool."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from rsocket_trio.escapes import escaped
from rsocket_trio.spool import (
    Retention,
    SpoolConfig,
    SpoolError,
    SpoolLocked,
    describe_spool,
    open_spool,
)

from .exits import DONE, LOCAL_IO, USAGE, Failure
from .spool_options import spool_failure
from .standard_streams import print_bytes
from .status_table import instance_name

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_KEEP_ALL: Final = Retention(max_age=1e12)
"""This command deletes no events: the collector does, by the options that it has been given."""


def run(args: argparse.Namespace) -> int:
    """Forget the consumer, and print where it was.

    Raises:
        Failure: There is no such spool or consumer, or another process writes to the spool.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    name = escaped(instance_name(args.consumer, args.instance or ""))
    try:
        stored = describe_spool(args.directory).instances
        wanted = [
            each.offset
            for each in stored
            if each.consumer == args.consumer and args.instance in (None, each.name)
        ]
        if not wanted:
            names = sorted({instance_name(*each.key) for each in stored})
            known = ", ".join(map(escaped, names)) or "none"
            raise Failure(f"{args.directory} has no consumer {name}: there are {known}", USAGE)
        # Readers of its group keep their access.
        group = bool(Path(args.directory, "spool.sqlite3").stat().st_mode & stat.S_IWGRP)
        config = SpoolConfig(group_readers=group)
        trio.run(partial(_forget, args.directory, args.consumer, args.instance, config))
    except OSError as error:
        raise Failure(f"cannot use the spool {args.directory!r}: {error}", LOCAL_IO) from error
    except SpoolLocked as error:
        hint = "if it is a collector, ask it: collect --status URI --forget CONSUMER"
        raise Failure(f"{error} ({hint})", USAGE) from error
    except SpoolError as error:
        raise spool_failure(error) from error
    print_bytes(f"forgot {name}, which was at {min(wanted):,}\n".encode())
    return DONE


async def _forget(directory: str, consumer: str, instance: str | None, config: SpoolConfig) -> None:
    async with open_spool(directory, retention=_KEEP_ALL, config=config) as spool:
        await spool.forget(consumer, instance=instance)
