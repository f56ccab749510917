"""What tests of a whole collector share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import trio

from rsocket_trio.collector import collect, stored_payloads
from rsocket_trio.spool import read_range
from rsocket_trio.spool.description import describe_spool


@asynccontextmanager
async def running(directory, *listen, **options):
    """A collector; it is stopped at once when the block ends, if it still runs."""
    async with trio.open_nursery() as nursery:
        yield await nursery.start(
            partial(collect, directory, *(listen or ("tcp://127.0.0.1:0",)), **options)
        )
        nursery.cancel_scope.cancel()


def stored(directory):
    """The batches in a spool."""
    found = describe_spool(directory)
    return list(read_range(directory, found.oldest, found.head))


def payloads(directory):
    """The payloads in a spool."""
    return [each for batch in stored(directory) for each in stored_payloads(batch)]


def data(directory):
    """Their data."""
    return [each.data for each in payloads(directory)]
