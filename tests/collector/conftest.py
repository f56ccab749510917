"""A spool in memory, and a collector's routes over it."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio import connect, serve_transport
from rsocket_trio.collector import reading_router
from rsocket_trio.collector.client import READER_CONFIG, CollectorClient
from rsocket_trio.sealed import make
from rsocket_trio.spool import open_spool
from rsocket_trio.transports.memory import memory_transport_pair
from tests.given_back import everything_is_given_back
from tests.spool.conftest import directory

__all__ = ["directory", "everything_is_given_back"]


@pytest.fixture
async def spool(directory):
    async with open_spool(directory) as spool:
        yield spool


@asynccontextmanager
async def connected(router):
    """A client of a router over memory."""
    here, there = memory_transport_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, router, there)
        async with connect(here, config=READER_CONFIG) as requester:
            yield make(CollectorClient, requester)
        nursery.cancel_scope.cancel()


@pytest.fixture
def reading(spool):
    """``async with reading(**limits) as client``."""

    def begin(limits=None):
        return connected(reading_router(spool, limits=limits))

    return begin
