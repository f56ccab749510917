"""The routes of a collector for its readers: `reading_router`."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any, cast

import attrs

from ..errors import Invalid
from ..payload import Payload
from ..requester import Requester
from ..routing import Router
from ..spool import Spool, SpoolError
from .consumers import Consumers, lag_seconds
from .limits import CollectorLimits
from .messages import (
    FORGET,
    INFO,
    POSITION,
    READ,
    ForgetRequest,
    InfoRequest,
    PositionRequest,
    ReadRequest,
    SpoolInfo,
)
from .reads import Reads
from .refusals import refusal, wrong_spool

__all__ = ["reading_router"]

_MAX_SIZE = 2**62
"""Bytes; a size beyond it has no meaning, and SQLite counts with 64 bits."""


def reading_router(spool: Spool, *, limits: CollectorLimits | None = None) -> Router:
    """Return a router whose routes give the batches of a spool, and take positions.

    The routes are ``spool.info``, ``spool.read``, ``spool.position`` and ``spool.forget``;
    `connect_collector` is their client. Include the router in one of your own to serve more, or to
    let an authenticator guard it: `admit` makes one.

    Args:
        spool: The spool. It is open as long as the router is served.
        limits: What readers may take.
    """
    router = Router()
    bounds = CollectorLimits() if limits is None else limits
    reads = Reads(bounds)
    consumers = Consumers(spool, bounds)

    def check_spool(spool_id: str) -> None:
        if spool_id != spool.spool_id:
            raise wrong_spool(spool_id, spool.spool_id)

    @router.request_response(INFO)
    async def info(request: InfoRequest) -> SpoolInfo:
        start, size = request.reach_from, request.reach_size
        more: dict[str, Any] = {}
        try:
            if start is not None and size is not None:
                more["reach"] = await spool.reach(start, min(size, _MAX_SIZE))
            if request.since is not None:
                more["since"] = await spool.since(request.since)
            if request.lag_from is not None:
                lags = await lag_seconds(spool, [request.lag_from])
                more["lag_seconds"] = lags.get(request.lag_from)
            if request.instances:
                more["instances"] = tuple(await consumers.instances())
        except (SpoolError, ValueError) as error:
            raise refusal(error) from None
        return attrs.evolve(_info_of(spool, request.epoch), **more)

    @router.request_stream(READ)
    async def read(request: ReadRequest, peer: Requester) -> AsyncIterable[Payload]:
        check_spool(request.spool_id)
        if request.size is not None and request.size < 1:
            raise Invalid(f"size must be at least 1, not {request.size}")
        try:
            spool.check_epoch(request.epoch, request.stop)
            reader = spool.read(request.start, request.stop)
        except (SpoolError, ValueError) as error:
            raise refusal(error) from None
        # Large batches are payloads in chunks, which the router passes on as well.
        batches = reads.begin(reader, request.size, peer)
        return cast("AsyncIterable[Payload]", batches)

    @router.request_response(POSITION)
    async def position(request: PositionRequest, peer: Requester) -> SpoolInfo:
        check_spool(request.spool_id)
        try:
            spool.check_epoch(request.epoch, request.offset)
            await consumers.commit(
                request.consumer, request.instance, request.offset, peer, request.lease
            )
        except (SpoolError, ValueError) as error:
            raise refusal(error) from None
        return _info_of(spool, request.epoch)

    @router.request_response(FORGET)
    async def forget(request: ForgetRequest) -> SpoolInfo:
        check_spool(request.spool_id)
        try:
            await consumers.forget(request.consumer, instance=request.instance, force=request.force)
        except (SpoolError, ValueError) as error:
            raise refusal(error) from None
        return _info_of(spool)

    return router


def _info_of(spool: Spool, epoch: str | None = None) -> SpoolInfo:
    numbers = spool.statistics()
    return SpoolInfo(
        spool_id=spool.spool_id,
        oldest=numbers.oldest,
        head=numbers.head,
        size=numbers.size,
        oldest_at=numbers.oldest_at,
        newest_at=numbers.newest_at,
        max_size=spool.max_size,
        full=spool.full,
        trouble=numbers.trouble,
        positions=numbers.positions,
        epoch=spool.epoch,
        epoch_end=None if epoch is None else spool.epoch_end(epoch),
    )
