"""Requests to the peer: `Requester`. Either end has one."""

from __future__ import annotations

from collections.abc import AsyncIterable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, final

import attrs
import trio

from .arguments import payload_for, window_for
from .frames.metadata_push import encode_metadata_push
from .interactions.demand import PayloadStream
from .interactions.fire_and_forget import fire_and_forget
from .interactions.metadata_push import check_metadata_push
from .interactions.payload_body import PayloadBody, request_response_streamed
from .interactions.request_channel import request_channel
from .interactions.request_response import request_response
from .interactions.request_stream import request_stream
from .metadata.builder import Metadata
from .metadata.mime_types import MIME
from .payload import Payload
from .sealed import Sealed
from .streamed import AnyPayload
from .transports.base import SUBSCRIPTION

if TYPE_CHECKING:
    from .config import Limits
    from .connection.connection import Connection
    from .connection.leases import ConnectionLeases
    from .tracing import Tracing
    from .transports.base import TransportInfo

__all__ = ["ConnectionStatistics", "Requester"]

_EMPTY = Payload()


@attrs.frozen
class ConnectionStatistics:
    """Numbers about a connection, for humans and tests.

    Attributes:
        open_streams: Streams of both sides that are open.
        running_requests: Requests of the peer that wait or are being answered.
        queued: Bytes that wait to be sent.
        unread: Bytes of payloads that have arrived on streams and that nobody has received yet, as
            `Limits.max_unread_size` counts them.
    """

    open_streams: int
    running_requests: int
    queued: int
    unread: int


@final
class Requester(
    metaclass=Sealed, given="connect gives one, and acceptors and handlers are given one"
):
    """Sends requests to the peer.

    Every request raises, before anything is sent, `TypeError` for what is no `Payload` of bytes,
    `MetadataError` for metadata that cannot be written or have no place in the connection's, and
    `LocalProtocolError` where the route is given twice, the connection is not accepted yet (in
    `Responder.accept`), or its 2^30 stream ids are used up.

    Made by `rsocket_trio.connect`, and given to acceptors and handlers for the way back. Any
    number of tasks may use it at the same time; each request waits in its caller's task, so a
    cancel scope around a call is its timeout, and cancels the request at the peer.

    Attributes:
        data_mime_type: MIME type of the data of this connection's payloads.
        metadata_mime_type: Likewise of their metadata.
        tracing: Passes the trace of the request being answered on to those sent here.
    """

    def __init__(
        self, connection: Connection, metadata_mime_type: str, data_mime_type: str = MIME.CBOR
    ) -> None:
        self._connection = connection
        self._sender = connection.sender
        self.metadata_mime_type = metadata_mime_type
        self.data_mime_type = data_mime_type
        self.tracing: Tracing | None = None
        self._last_ended: trio.Event | None = None

    def _expect_more(self, last_ended: trio.Event) -> None:
        """There may be fresh sessions; ``last_ended`` is set once there will be none."""
        self._last_ended = last_ended

    def _rebind(self, connection: Connection) -> None:
        """Go on with the connection of a fresh session."""
        self._connection = connection
        self._sender = connection.sender

    def __repr__(self) -> str:
        info = self.transport
        state = "closed" if self.closed else "open"
        return f"<Requester to {info.peer or info.scheme} {state}>"

    @property
    def transport(self) -> TransportInfo:
        """Facts about the transport."""
        return self._connection.transport.info

    @property
    def closed(self) -> bool:
        """Whether the connection is over; with `Resume.fresh_session` another may follow it."""
        return self._connection.lifecycle.failure is not None

    @property
    def leases(self) -> ConnectionLeases | None:
        """The leases of the connection, both sides'; ``None`` where none are in use."""
        leases = self._connection.leases
        return None if leases is None else leases.view

    @property
    def limits(self) -> Limits:
        """What the peer may cost us (`ConnectionConfig.limits`)."""
        return self._connection.config.limits

    def request_response(
        self,
        payload: AnyPayload = _EMPTY,
        *,
        route: str | None = None,
        metadata: Metadata | None = None,
    ) -> Coroutine[Any, Any, Payload | None]:
        """Send one request and wait for its one response.

        Args:
            payload: Data and metadata of the request. Sent in fragments where it is larger than
                `ConnectionConfig.fragment_size`. As a `StreamedPayload` it is sent while it is
                being made.
            route: Put in front of the metadata as routing metadata.
            metadata: Likewise, behind the route: authentication, trace, MIME types and more.

        Returns:
            The response; ``None`` where the responder completed without a value.

        Raises:
            StreamError: The responder answered with an error: `ApplicationError`, `Rejected`,
                `Invalid`, `Canceled` or `CustomError`, with ``code`` and ``data``.
            RemoteProtocolError: The response broke a limit.
            MissingLease: Leases are in use, and the request may not wait for one.
            ConnectionClosed: The connection ended before the response came.
            trio.ClosedResourceError: The connection was closed here.

        Checkpoint: always.
        If cancelled: before the request left, nothing was sent; after, a CANCEL is sent and a
        late response is dropped. The connection stays usable.
        """
        if route is not None or metadata is not None or self.tracing is not None:
            payload = self._composed(payload, route, metadata)
        return request_response(self._sender, payload)

    def request_response_streamed(
        self,
        payload: AnyPayload = _EMPTY,
        *,
        route: str | None = None,
        metadata: Metadata | None = None,
    ) -> AbstractAsyncContextManager[PayloadBody | None]:
        """Send one request and read its response while it arrives, whatever its size.

        ``async with requester.request_response_streamed(...) as body: async for chunk in body``

        Args:
            payload: As for `request_response`. It is sent before the block is entered.
            route: Put in front of the metadata as routing metadata.
            metadata: Likewise, behind the route.

        Returns:
            A context manager, entered once the response has begun, for the `PayloadBody`; or for
            ``None``: completed without a value. Leaving it early cancels the request at the peer.

        Raises:
            StreamError: On entering: the responder answered with an error. Later errors come out
                of the body.
            RemoteProtocolError: On entering: the response broke a limit before it could be read.
            MissingLease: On entering: leases are in use, and the request may not wait for one.
            ConnectionClosed: On entering: the connection is over.
            trio.ClosedResourceError: On entering: the connection was closed here.

        Checkpoint: entering, always; leaving, no.
        If cancelled: a CANCEL is sent; the connection stays usable.
        """
        if route is not None or metadata is not None or self.tracing is not None:
            payload = self._composed(payload, route, metadata)
        return request_response_streamed(self._sender, payload)

    async def fire_and_forget(
        self,
        payload: AnyPayload = _EMPTY,
        *,
        route: str | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        """Send a request that is not answered. Returns once it is queued, not once it has arrived.

        Args:
            payload: Data and metadata of the request.
            route: Put in front of the metadata as routing metadata.
            metadata: Likewise, behind the route: authentication, trace, MIME types and more.

        Raises:
            MissingLease: Leases are in use, and the request may not wait for one.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: The connection was closed here.

        Checkpoint: a cancellation point always; other tasks run when this has to wait, and every
        64 calls on a connection at least.
        If cancelled: nothing was sent, or (of a payload in fragments) it is cancelled.
        """
        if route is not None or metadata is not None or self.tracing is not None:
            payload = self._composed(payload, route, metadata)
        await fire_and_forget(self._sender, payload)

    def request_stream(
        self,
        payload: AnyPayload = _EMPTY,
        *,
        route: str | None = None,
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """Open a stream of payloads: ``async with requester.request_stream(...) as items``.

        Args:
            payload: Data and metadata of the request.
            route: Put in front of the metadata as routing metadata.
            metadata: Likewise, behind the route: authentication, trace, MIME types and more.
            prefetch: How many items may be on the way or unread; more are granted as they are
                consumed. `ConnectionConfig.prefetch` by default. 0: grant only what
                `PayloadStream.request_n` says.
            initial_request_n: With ``prefetch=0``: what the request itself grants, at least 1
                (the wire knows no request without).

        Returns:
            A context manager for the `PayloadStream`. Leaving it before the end of the stream
            cancels the stream at the peer.

        Raises:
            MissingLease: On entering: leases are in use, and the request may not wait for one.
            ConnectionClosed: On entering: the connection is over. Later errors come out of the
                stream.
            trio.ClosedResourceError: On entering: the connection was closed here.
            LocalProtocolError: The demand makes no sense, or goes beyond `Limits.max_prefetch`.

        Checkpoint: entering, a cancellation point always; other tasks run where the request has to
        wait for room or a lease. Leaving, no.
        If cancelled: on entering, nothing was sent (or, of a payload in fragments, it is
        cancelled); inside the block, a CANCEL is sent. The connection stays usable.
        """
        return self._open_stream(payload, route, metadata, prefetch, initial_request_n)

    def request_channel(
        self,
        source: AsyncIterable[AnyPayload] | Iterable[AnyPayload],
        *,
        payload: AnyPayload | None = None,
        route: str | None = None,
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """Exchange streams: ``async with requester.request_channel(source) as replies``.

        Args:
            source: What is sent, as the responder grants credit: an async iterable (a generator,
                a ReceiveChannel, ...) or a plain one. Its first item opens the channel; a source
                without items opens none, and the replies end at once. It is iterated, and an
                async one closed, in a task of the block.
            payload: Opens the channel, before the source is asked for anything.
            route: Put in front of the metadata of what opens the channel.
            metadata: Likewise, behind the route.
            prefetch: As for `request_stream`, for the replies.
            initial_request_n: As for `request_stream`.

        Returns:
            A context manager for the `PayloadStream` of replies. Leaving it while either half is
            open cancels the channel at the peer, and stops the source.

        Raises:
            LocalProtocolError: The demand makes no sense, or goes beyond `Limits.max_prefetch`.
            MissingLease: Out of the stream: leases are in use, and the request may not wait.
            ConnectionClosed: Out of the stream: the connection is over.
            Exception: What the source raised, as itself, on leaving the block; the peer has got
                an ERROR then, and the body is cancelled.

        Checkpoint: entering, no; leaving, other tasks run always.
        If cancelled: inside the block, a CANCEL is sent; the connection stays usable.
        """
        window = window_for(self._connection.config, prefetch, initial_request_n)

        def routed(first: AnyPayload) -> AnyPayload:
            return self._composed(first, route, metadata)

        return request_channel(
            self._sender, source, payload, routed, window, self.limits.max_prefetch
        )

    async def metadata_push(self, metadata: bytes) -> None:
        """Send metadata about the connection. Returns once it is queued.

        Args:
            metadata: Of the connection's metadata MIME type; it must fit one frame.

        Raises:
            LocalProtocolError: It does not fit.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: The connection was closed here.

        Checkpoint: always.
        If cancelled: nothing was sent.
        """
        outbox = self._connection.outbox
        check_metadata_push(metadata, self._connection.config.limits.max_frame_size)
        frame = encode_metadata_push(metadata)
        await trio.lowlevel.checkpoint()
        await self._sender.reserve(len(frame))
        outbox.put_reserved(frame)

    def statistics(self) -> ConnectionStatistics:
        """Numbers about the connection."""
        connection = self._connection
        outbox = connection.outbox
        return ConnectionStatistics(
            open_streams=len(connection.table.operations),
            running_requests=connection.workload.active,
            queued=outbox.room.used + outbox.control_size,
            unread=connection.account.unread,
        )

    async def wait_closed(self) -> None:
        """Wait until the connection is over for good, e.g. to clean up after a client.

        With `Resume.fresh_session` the end of one session is not the end: this returns once no
        other will follow.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        ended = self._connection.lifecycle.ended if self._last_ended is None else self._last_ended
        await ended.wait()

    # -- inside -----------------------------------------------------------------------------

    def _open_stream(
        self,
        payload: AnyPayload,
        route: str | None,
        metadata: Metadata | None,
        prefetch: int | None,
        initial_request_n: int | None,
        *,
        subscription: bool = False,
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """Open a stream; ``subscription``: by the draft's REQUEST_SUB, where the peer knows it."""
        if route is not None or metadata is not None or self.tracing is not None:
            payload = self._composed(payload, route, metadata)
        window = window_for(self._connection.config, prefetch, initial_request_n)
        told_apart = subscription and self._connection.transport.capabilities.subscriptions
        flags = SUBSCRIPTION if told_apart else 0
        return request_stream(self._sender, payload, window, self.limits.max_prefetch, flags)

    def _composed(
        self, payload: AnyPayload, route: str | None, metadata: Metadata | None
    ) -> AnyPayload:
        trace = None if self.tracing is None else self.tracing.outgoing()
        return payload_for(payload, route, metadata, self.metadata_mime_type, trace)
