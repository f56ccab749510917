"""``spool info``: print what a spool holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rsocket_trio.spool import SpoolError, describe_spool

from .exits import DONE
from .output import json_line, utc
from .spool_options import spool_failure
from .standard_streams import print_bytes
from .status_table import table

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
        "batches": found.batches,
        "size": found.size,
        "consumers": dict(found.positions),
        "instances": [_instance(each, found.head) for each in found.instances],
    }


def _instance(each: ConsumerInstance, head: int) -> dict[str, object]:
    return {
        "consumer": each.consumer,
        "instance": each.name,
        "offset": each.offset,
        "lag": head - each.offset,
        "age": max(time.time() - each.seen_at, 0.0),
        "lease": each.lease,
        "lease_left": None if each.lease is None else max(each.lease - each.absent, 0.0),
    }
