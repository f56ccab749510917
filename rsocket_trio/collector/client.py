"""The reader's side of a collector: `connect_collector`, `CollectorClient`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, final

from ..client import connect
from ..codecs import CodecError
from ..config import ConnectionConfig, Limits
from ..connection.dialling import Dial
from ..errors import RemoteProtocolError, StreamError
from ..interactions.demand import PayloadStream
from ..metadata import Authentication, Metadata
from ..requester import Requester
from ..routing import Caller
from ..sealed import Sealed, make
from ..transports import open_transport
from ..uri import Uri
from .messages import (
    FORGET,
    INFO,
    POSITION,
    READ,
    STATUS,
    CollectorStatistics,
    ForgetRequest,
    InfoRequest,
    PositionRequest,
    ReadRequest,
    SpoolInfo,
)
from .range_reader import RangeReader
from .refusals import refused

__all__ = ["READER_CONFIG", "CollectorClient", "connect_collector"]

READER_CONFIG: Final = ConnectionConfig(
    keepalive_interval=5.0,
    max_lifetime=20.0,
    limits=Limits(
        max_payload_size=2**30,
        max_reassembly_size=2**30 + 2**27,
        max_unread_size=2**30 + 2**27,
    ),
)
"""How `connect_collector` connects. A batch is one payload, and a spool takes batches of 900 MB; a
collector bounds its senders to much less. A reader notices within 20 s that a host is gone."""

_PIECE_SIZE: Final = 4 * 2**20
"""Bytes that one request of a range asks for. Large, so that few round trips are needed; small, as
a reader keeps this much in memory, and one batch more."""


@final
class CollectorClient(metaclass=Sealed, given="connect_collector gives one"):
    """A connection to a collector. Any number of tasks may use it at the same time.

    Attributes:
        requester: The connection itself, e.g. to ask for other routes.
    """

    def __init__(self, requester: Requester) -> None:
        self.requester = requester
        self._caller = Caller(requester)

    async def info(
        self,
        *,
        reach_from: int | None = None,
        reach_size: int | None = None,
        since: float | None = None,
        lag_from: int | None = None,
        epoch: str | None = None,
        instances: bool = False,
    ) -> SpoolInfo:
        """Ask what the spool of the collector holds.

        Args:
            reach_from: An offset, to ask also for `SpoolInfo.reach`.
            reach_size: The bytes that batches from this offset on may take, for `SpoolInfo.reach`.
            since: A time in seconds since 1970, to ask also for `SpoolInfo.since`.
            lag_from: An offset, to ask also for `SpoolInfo.lag_seconds`.
            epoch: An epoch, to ask also for `SpoolInfo.epoch_end`.
            instances: Ask also for `SpoolInfo.instances`.

        Raises:
            OffsetTrimmed: ``reach_from`` is not kept any more.
            OffsetNotStored: ``reach_from`` is beyond the head.
            StreamError: The collector refused the request.
            RemoteProtocolError: The peer is no collector: its answer is something else.
            ConnectionClosed: The connection is over.
            ValueError: Only one of ``reach_from`` and ``reach_size`` is given.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        if (reach_from is None) != (reach_size is None):
            raise ValueError("reach_from and reach_size go together")
        request = InfoRequest(
            reach_from=reach_from,
            reach_size=reach_size,
            since=since,
            lag_from=lag_from,
            epoch=epoch,
            instances=instances,
        )
        return await self._ask(INFO, request)

    async def statistics(self) -> CollectorStatistics:
        """Ask for numbers about the collector since its start.

        Raises:
            StreamError: The peer refused the request, e.g. as it serves no more than a spool.
            RemoteProtocolError: The peer is no collector: its answer is something else.
            ConnectionClosed: The connection is over.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        try:
            return await self._caller.request_response(STATUS, returns=CollectorStatistics)
        except CodecError as error:
            raise RemoteProtocolError(f"the peer gave no answer of a collector: {error}") from error

    @asynccontextmanager
    async def read(
        self,
        start: int,
        stop: int,
        *,
        spool_id: str,
        epoch: str | None = None,
        patience: float = 60.0,
    ) -> AsyncIterator[RangeReader]:
        """Read a range of events: ``async with collector.read(0, 9, spool_id=id) as batches``.

        ``async for batch in batches`` gives a `rsocket_trio.spool.StoredBatch` at a time, and
        exactly ``stop - start`` events, counted by `rsocket_trio.spool.StoredBatch.wanted`; or it
        raises. A reader that pauses holds back the collector: some megabytes are on the way at
        most.

        Args:
            start: The offset of the first event.
            stop: The offset behind the last event, at most the head.
            spool_id: The spool that the offsets belong to: `SpoolInfo.spool_id`.
            epoch: `SpoolInfo.epoch` when its head was ``stop`` or later. If the spool was restored
                from an older copy since then, and written on, there is an error. ``None``: any.
            patience: How long the reader asks again while the collector has no place or no memory
                for its next batch, as it has many readers, in seconds. Then it raises
                `CollectorBusy`.

        Yields:
            The reader. It raises the errors of the collector, see `RangeReader.__anext__`.

        Raises:
            ValueError: ``start`` is negative or behind ``stop``.

        Checkpoint: no.
        If cancelled: the range is cancelled at the collector; the connection stays usable.
        """
        if not 0 <= start <= stop:
            raise ValueError(f"{start} to {stop} is not a range of offsets")
        opening = partial(self._open_piece, spool_id, epoch)
        reader = make(RangeReader, opening, start, stop, patience)
        try:
            yield reader
        finally:
            await reader._close()  # noqa: SLF001 - this function made the reader

    async def commit(
        self,
        consumer: str,
        offset: int,
        *,
        instance: str,
        spool_id: str,
        lease: float | None = None,
        epoch: str | None = None,
    ) -> SpoolInfo:
        """Say which events an instance of a consumer does not need any more.

        The collector stores it, and keeps events from the lowest offset of all instances on, until
        the instance is forgotten. An instance that is away is forgotten when its lease is over. The
        lease runs only while another instance of the same consumer is connected. So give an
        instance the same name each time, and commit again at once after a new connection, with the
        same offset.

        Args:
            consumer: The name of the consumer.
            offset: The first offset that this instance still needs.
            instance: A name that no other instance of this consumer has.
            spool_id: The spool that the offset belongs to.
            lease: The seconds that the instance may be away. ``None``: as long as the collector
                says: `CollectorLimits.instance_timeout`.
            epoch: `SpoolInfo.epoch` when its head was ``offset`` or later. If the spool was
                restored from an older copy since then, and written on, there is an error, and
                nothing is stored. ``None``: any.

        Returns:
            What the spool holds now.

        Raises:
            OffsetTrimmed: The offset is not kept any more.
            OffsetNotStored: The offset is beyond the head.
            WrongSpool: The collector has another spool.
            SpoolRestored: Its spool was restored from an older copy.
            StreamError: The collector refused the request, e.g. `Rejected` beyond a limit.
            RemoteProtocolError: The peer is no collector: its answer is something else.
            ConnectionClosed: The connection is over.
            ValueError: A name is no text, or ``lease`` is negative or too long.

        Checkpoint: always.
        If cancelled: the position may be stored or not.
        """
        request = PositionRequest(
            spool_id=spool_id,
            consumer=consumer,
            instance=instance,
            offset=offset,
            lease=lease,
            epoch=epoch,
        )
        return await self._ask(POSITION, request)

    async def forget(
        self, consumer: str, *, spool_id: str, instance: str | None = None, force: bool = False
    ) -> SpoolInfo:
        """Forget a consumer that does not come back, so that no events are kept for it.

        Args:
            consumer: The name of the consumer.
            spool_id: The spool that it reads.
            instance: Forget only this instance of it.
            force: Also if an instance of it is connected. Its position is forgotten then until it
                commits again, and events that it has not read may be deleted meanwhile.

        Returns:
            What the spool holds now.

        Raises:
            Invalid: There is no such consumer or instance.
            Rejected: An instance of it is connected, and ``force`` is false.
            WrongSpool: The collector has another spool.
            StreamError: The collector refused the request.
            RemoteProtocolError: The peer is no collector: its answer is something else.
            ConnectionClosed: The connection is over.
            ValueError: A name is no text.

        Checkpoint: always.
        If cancelled: the consumer may be forgotten or not.
        """
        request = ForgetRequest(
            spool_id=spool_id, consumer=consumer, instance=instance, force=force
        )
        return await self._ask(FORGET, request)

    async def _ask(self, route: str, request: object) -> SpoolInfo:
        try:
            payload = self._caller.encode(request)
        except CodecError as error:  # no fault of the peer
            raise ValueError(f"a name is no text: {error}") from error
        try:
            response = await self.requester.request_response(payload, route=route)
            return self._caller.decode(response, SpoolInfo)
        except StreamError as error:
            raise refused(error) from None
        except CodecError as error:
            raise RemoteProtocolError(f"the peer gave no answer of a collector: {error}") from error

    def _open_piece(
        self, spool_id: str, epoch: str | None, start: int, stop: int
    ) -> AbstractAsyncContextManager[PayloadStream]:
        request = ReadRequest(
            spool_id=spool_id, start=start, stop=stop, size=_PIECE_SIZE, epoch=epoch
        )
        return self.requester.request_stream(self._caller.encode(request), route=READ)


@asynccontextmanager
async def connect_collector(
    uri: str | Uri,
    *,
    address: str = "",
    ssl_context: ssl.SSLContext | None = None,
    auth: Authentication | None = None,
    config: ConnectionConfig = READER_CONFIG,
) -> AsyncIterator[CollectorClient]:
    """Connect to a collector.

    ``async with connect_collector("tcp://localhost:7878") as collector: ...``

    There is one connection for the block. If it ends, the methods raise
    `rsocket_trio.ConnectionClosed`, and the caller decides whether to connect again. Offsets hold
    across connections: go on with the offset that comes next.

    Args:
        uri: An address that `rsocket_trio.connect` takes.
        address: One of the IP addresses of its host, which is dialled then. TLS verifies the name
            of the host all the same.
        ssl_context: TLS: verification and client certificate. By default Python's default context.
        auth: The credentials, sent in the SETUP, for a collector that asks for some.
        config: Times, sizes and limits. The default accepts the largest batch of a spool, and finds
            within 20 s that the host is gone.

    Yields:
        The client.

    Raises:
        ConnectFailed: No connection could be made.
        SetupError: The collector refused it.
        ConnectionClosed: The connection ended during the set-up.
        ValueError: The address is wrong, or it has no use for ``ssl_context``.

    Checkpoint: entering and leaving, always.
    If cancelled: the connection is closed.
    """
    options: dict[str, Any] = {} if ssl_context is None else {"ssl_context": ssl_context}
    target: str | Uri | Dial = uri
    if address:
        target = partial(
            open_transport,
            uri,
            address=address,
            max_frame_size=config.limits.max_frame_size,
            handshake_timeout=config.setup_timeout,
            **options,
        )
        options = {}
    if auth is not None:
        options["setup_metadata"] = Metadata(auth=auth)
    async with connect(target, config=config, **options) as requester:
        yield make(CollectorClient, requester)
