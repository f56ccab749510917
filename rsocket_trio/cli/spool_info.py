"""``spool info``: print what a spool holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rsocket_trio.spool import SpoolError, describe_spool

from .exits import DONE
from .output import json_line, utc
from .spool_options import spool_failure
from .standard_streams import print_bytes
from .status_table import moment, table

if TYPE_CHECKING:
    import argparse

    from rsocket_trio.spool import ConsumerInstance, SpoolDescription

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print one line for each number, or one JSON object.

    Raises:
        Failure: The directory has no spool, or it cannot be read.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    try:
        found = describe_spool(args.directory)
    except SpoolError as error:
        raise spool_failure(error) from error
    fields = _fields(found)
    print_bytes(json_line(fields) if args.json else table(fields, 12))
    return DONE


def _fields(found: SpoolDescription) -> dict[str, object]:
    return {
        "spool_id": found.spool_id,
        "created_at": utc(found.created_at),
        "oldest": found.oldest,
        "head": found.head,
        "events": found.head - found.oldest,
        "oldest_at": moment(found.oldest_at),
        "newest_at": moment(found.newest_at),
        "batches": found.batches,
        "size": found.size,
        "consumers": dict(found.positions),
        "instances": [_instance(each, found) for each in found.instances],
    }


def _instance(each: ConsumerInstance, found: SpoolDescription) -> dict[str, object]:
    now = time.time()
    # It needs none yet, or the spool is damaged: then it counts as just stored.
    needed_at = found.needed_at.get(each.offset, now)
    return {
        "consumer": each.consumer,
        "instance": each.name,
        "offset": each.offset,
        "lag": found.head - each.offset,
        "lag_seconds": max(now - needed_at, 0.0),
        "age": max(now - each.seen_at, 0.0),
        "lease": each.lease,
        "lease_left": None if each.lease is None else max(each.lease - each.absent, 0.0),
    }
