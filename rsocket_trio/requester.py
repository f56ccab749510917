"""Requests to the peer: `Requester`. Client and server have one each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs
import trio

from .arguments import check_source, payload_for, window_for
from .connection.patient_requests import Request
from .connection.reconnect import ConnectionState, StateChanges
from .errors import fresh_copy
from .frames.metadata_push import encode_metadata_push
from .interactions.demand import PayloadStream
from .interactions.fire_and_forget import fire_and_forget
from .interactions.metadata_push import check_metadata_push
from .interactions.payload_body import PayloadBody, request_response_streamed
from .interactions.request_channel import request_channel
from .interactions.request_response import request_response
from .interactions.request_stream import request_stream
from .interactions.sending import AnyItems
from .metadata.builder import Metadata
from .metadata.mime_types import MIME
from .payload import Payload
from .protocol.interaction import Interaction
from .sealed import Sealed
from .streamed import AnyPayload, StreamedPayload
from .transports.base import SUBSCRIPTION

if TYPE_CHECKING:
    from .config import ConnectionConfig, Limits
    from .connection.connection import Connection
    from .connection.leases import ConnectionLeases
    from .connection.succession import Succession
    from .tracing import Tracing
    from .transports.base import TransportInfo

__all__ = ["ConnectionStatistics", "Requester", "Surroundings"]

T = TypeVar("T")

_EMPTY = Payload()


class Surroundings(Protocol):
    """Is around each request: middleware, a policy of repeats, or a client that connects again.

    What it is given sends the request on the connection that the requester has then.
    """

    def answer(
        self, request: Request, send: Callable[[Metadata | None], Awaitable[T]]
    ) -> Coroutine[Any, Any, T]:
        """Send a request and wait for its answer, or until it is sent if it has none."""

    def opened(
        self,
        request: Request,
        open_: Callable[[Metadata | None], AbstractAsyncContextManager[T]],
    ) -> AbstractAsyncContextManager[T]:
        """Open a stream."""


@attrs.frozen(kw_only=True)
class ConnectionStatistics:
    """Numbers about a connection, for humans and tests.

    Attributes:
        open_streams: Open streams of both sides.
        active_requests: Requests of the peer that wait or are being answered.
        queued_size: Bytes that wait to be sent.
        unread_size: Bytes of payloads that have arrived on streams and are not received yet,
            counted as for `Limits.max_unread_size`.
    """

    open_streams: int
    active_requests: int
    queued_size: int
    unread_size: int


class Requester(
    metaclass=Sealed, given="connect gives one, and acceptors and handlers are given one"
):
    """Sends requests to the peer.

    Before anything is sent, every request raises `TypeError` if the payload is not a `Payload` of
    bytes; `MetadataError` if its metadata cannot be encoded, or the connection's metadata MIME type
    has no place for them; `LocalProtocolError` if the route is given twice, or the connection is
    not accepted yet (in `Responder.accept`); and `StreamIdsExhausted` if its 2^30 ids are used up.

    `rsocket_trio.connect` gives one; acceptors and handlers get one for requests to the peer. Any
    number of tasks may use it at the same time. Each request waits in its caller's task, so a
    cancel scope around a call is its timeout, and cancels the request at the peer.

    Attributes:
        data_mime_type: MIME type of the data of this connection's payloads.
        metadata_mime_type: MIME type of the metadata of this connection's payloads.
        tracing: Passes the trace of the request being answered on to the requests sent here.
    """

    def __init__(
        self,
        connection: Connection | None,
        metadata_mime_type: str,
        data_mime_type: str = MIME.CBOR,
    ) -> None:
        if connection is not None:  # a pool has none of its own
            self._rebind(connection)
        self.metadata_mime_type = metadata_mime_type
        self.data_mime_type = data_mime_type
        self.tracing: Tracing | None = None
        self._outgoing: Surroundings | None = None
        self._succession: Succession | None = None

    def _surround(self, outgoing: Surroundings | None) -> None:
        """Let something be around each request."""
        self._outgoing = outgoing

    def _expect_more(self, succession: Succession) -> None:
        """Expect more than one session."""
        self._succession = succession

    def _rebind(self, connection: Connection) -> None:
        """Let requests begin on this connection: that of the next session, or of a target."""
        self._connection = connection
        self._sender = connection.sender

    def _config(self) -> ConnectionConfig:
        return self._connection.config

    def __repr__(self) -> str:
        info = self.transport
        state = self._connection.lifecycle.phase.value
        return f"<Requester to {info.peer or info.scheme} {state}>"

    @property
    def transport(self) -> TransportInfo:
        """Facts about the transport."""
        return self._connection.transport.info

    @property
    def closed(self) -> bool:
        """Whether the connection is over; with ``reconnect=`` another may follow: see `state`."""
        return self._connection.lifecycle.failure is not None

    @property
    def draining(self) -> bool:
        """Whether an end of the connection has been announced, by either side, and has not come.

        Requests that are open may finish; new ones fail. With several servers, send them to another
        one now. False again when the connection is over; see `closed`.
        """
        return self._connection.lifecycle.draining

    @property
    def state(self) -> ConnectionState:
        """Where the client stands, or this side of one connection.

        Without ``reconnect=`` it goes from `ConnectionState.CONNECTED` through
        `ConnectionState.DRAINING`, if an end is announced, to `ConnectionState.CLOSED`.
        """
        if self._succession is not None:
            return self._succession.state
        lifecycle = self._connection.lifecycle
        if lifecycle.failure is not None:
            return ConnectionState.CLOSED
        return ConnectionState.DRAINING if lifecycle.draining else ConnectionState.CONNECTED

    def states(self) -> AsyncIterator[ConnectionState]:
        """Return the states from now on: ``async for state in requester.states()``.

        The first one is the present one. Who reads slowly misses states, and never the last one;
        after `ConnectionState.CLOSED` the iteration ends.
        """
        home = self._connection.lifecycle.home
        return StateChanges(lambda: self.state, self._changed, home)

    def _changed(self) -> trio.Event:
        if self._succession is not None:
            return self._succession.changed
        lifecycle = self._connection.lifecycle
        return lifecycle.ended if lifecycle.draining else lifecycle.drain_begun

    @property
    def leases(self) -> ConnectionLeases | None:
        """The leases of both sides; ``None`` if the connection neither uses nor enforces leases."""
        leases = self._connection.leases
        return None if leases is None else leases.view

    @property
    def limits(self) -> Limits:
        """The limits of the connection (`ConnectionConfig.limits`)."""
        return self._config().limits

    def request_response(
        self,
        payload: AnyPayload = _EMPTY,
        *,
        route: str | None = None,
        metadata: Metadata | None = None,
        idempotent: bool = False,
    ) -> Coroutine[Any, Any, Payload | None]:
        """Send one request and wait for its one response.

        Args:
            payload: Data and metadata of the request. It is sent in fragments if it is larger than
                `ConnectionConfig.fragment_size`. A `StreamedPayload` is sent while its data come.
            route: Added in front of the payload's metadata, as routing metadata.
            metadata: Added behind the route: authentication, trace, MIME types and more.
            idempotent: The peer may process it twice, so a client with ``reconnect=`` repeats it
                once if the connection ends before the response comes. A `StreamedPayload` is sent
                once all the same: its source is used up.

        Returns:
            The response; ``None`` if the responder completed without a value.

        Raises:
            StreamError: The responder answered with an error: `ApplicationError`, `Rejected`,
                `Invalid`, `Canceled` or `CustomError`, with ``code`` and ``data``.
            RemoteProtocolError: The response broke a limit.
            MissingLease: Leases are in use, and the request may not wait for one.
            ConnectionClosed: The connection ended before the response came.
            trio.ClosedResourceError: The connection was closed here.

        Checkpoint: always.
        If cancelled: before the request was sent, nothing is sent; after, a CANCEL is sent and a
        late response is dropped. The connection stays usable.
        """
        if self._outgoing is not None:
            repeated = _repeats(payload, idempotent=idempotent)
            return self._outgoing.answer(
                Request(Interaction.REQUEST_RESPONSE, route, metadata, repeated),
                lambda metadata: request_response(
                    self._sender, self._composed(payload, route, metadata)
                ),
            )
        if self.tracing is not None:
            payload = self._composed(payload, route, metadata)
        elif route is not None or metadata is not None:
            # As `_composed`, without its call.
            payload = payload_for(payload, route, metadata, self.metadata_mime_type, None)
        return request_response(self._sender, payload)

    def request_response_streamed(
        self,
        payload: AnyPayload = _EMPTY,
        *,
        route: str | None = None,
        metadata: Metadata | None = None,
    ) -> AbstractAsyncContextManager[PayloadBody | None]:
        """Send one request and read its response, of any size, while it arrives.

        ``async with requester.request_response_streamed(...) as body: async for chunk in body``

        Args:
            payload: As for `request_response`. It is sent before the block is entered.
            route: Added in front of the payload's metadata, as routing metadata.
            metadata: Added behind the route.

        Returns:
            A context manager, entered when the response has begun. It gives the `PayloadBody`, or
            ``None`` if the responder completed without a value. Leaving it early cancels the
            request at the peer.

        Raises:
            StreamError: On entering: the responder answered with an error. The body raises later
                errors.
            RemoteProtocolError: On entering: the response broke a limit before it could be read.
            MissingLease: On entering: leases are in use, and the request may not wait for one.
            ConnectionClosed: On entering: the connection is over.
            trio.ClosedResourceError: On entering: the connection was closed here.

        Checkpoint: entering, always; leaving, no.
        If cancelled: a CANCEL is sent; the connection stays usable.
        """
        if self._outgoing is not None:
            return self._outgoing.opened(
                Request(Interaction.REQUEST_RESPONSE, route, metadata, _repeats(payload)),
                lambda metadata: request_response_streamed(
                    self._sender, self._composed(payload, route, metadata)
                ),
            )
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
        """Send a request that is not answered. Returns when it is queued, not when it arrives.

        Args:
            payload: Data and metadata of the request.
            route: Added in front of the payload's metadata, as routing metadata.
            metadata: Added behind the route: authentication, trace, MIME types and more.

        Raises:
            MissingLease: Leases are in use, and the request may not wait for one.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: The connection was closed here.

        Checkpoint: a cancellation point always; other tasks run when this has to wait, and every
        64 calls on a connection at least.
        If cancelled: nothing is sent; if some fragments were sent already, a CANCEL follows.
        """
        if self._outgoing is not None:
            await self._outgoing.answer(
                Request(Interaction.FIRE_AND_FORGET, route, metadata, _repeats(payload)),
                lambda metadata: fire_and_forget(
                    self._sender, self._composed(payload, route, metadata)
                ),
            )
            return
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
        idempotent: bool = False,
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """Open a stream of payloads: ``async with requester.request_stream(...) as items``.

        Args:
            payload: Data and metadata of the request.
            route: Added in front of the payload's metadata, as routing metadata.
            metadata: Added behind the route: authentication, trace, MIME types and more.
            prefetch: How many items may be on the way or unread; more credit is granted as items
                are consumed. `ConnectionConfig.prefetch` by default. 0: credit is granted only by
                `PayloadStream.request_n`.
            initial_request_n: With ``prefetch=0``: the credit in the request frame, at least 1, as
                the protocol has no request without credit.
            idempotent: As for `request_response`, before the first item. A stream with
                ``prefetch=0`` is not repeated.

        Returns:
            A context manager for the `PayloadStream`. Leaving it before the end of the stream
            cancels the stream at the peer.

        Raises:
            MissingLease: On entering: leases are in use, and the request may not wait for one.
            ConnectionClosed: On entering: the connection is over. The stream raises later errors.
            trio.ClosedResourceError: On entering: the connection was closed here.
            LocalProtocolError: ``prefetch`` and ``initial_request_n`` do not go together, or one is
                out of range (`Limits.max_prefetch`).

        Checkpoint: entering, a cancellation point always; other tasks run if the request has to
        wait for room or a lease. Leaving, no.
        If cancelled: on entering, nothing is sent; if some fragments were sent already, a CANCEL
        follows. Inside the block, a CANCEL is sent. The connection stays usable.
        """
        return self._open_stream(
            payload, route, metadata, prefetch, initial_request_n, idempotent=idempotent
        )

    def request_channel(
        self,
        source: AnyItems | Iterable[AnyPayload],
        *,
        payload: AnyPayload | None = None,
        route: str | None = None,
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """Exchange streams: ``async with requester.request_channel(source) as replies``.

        Args:
            source: The items to send, as the responder grants credit: an async iterable (a
                generator, a ReceiveChannel, ...), a plain one, or a
                `rsocket_trio.reactive_streams.Publisher`. Its first item opens the channel. If
                there are no items, data of no bytes and the flag COMPLETE do: the handler sees an
                empty channel, and may reply. A task of the block iterates the source, and closes an
                async one; a publisher is asked for as many items as credit allows, and at most one
                more.
            payload: Opens the channel instead, before the source is iterated.
            route: Added in front of the metadata of the payload that opens the channel.
            metadata: Added behind the route.
            prefetch: As for `request_stream`, for the replies.
            initial_request_n: As for `request_stream`.

        Returns:
            A context manager for the `PayloadStream` of replies. Leaving it while either half is
            open cancels the channel at the peer, and stops the source.

        Raises:
            LocalProtocolError: ``prefetch`` and ``initial_request_n`` do not go together, or one is
                out of range (`Limits.max_prefetch`).
            MissingLease: From the stream: leases are in use, and the request may not wait.
            ConnectionClosed: From the stream: the connection is over.
            Exception: On leaving the block: the source raised this exception. The peer got an
                ERROR then, and the body of the block was cancelled.

        Checkpoint: entering, no; leaving, other tasks run always.
        If cancelled: inside the block, a CANCEL is sent; the connection stays usable.
        """
        check_source("source", source, "Payload")
        window = window_for(self._config(), prefetch, initial_request_n)

        def opened(metadata: Metadata | None) -> AbstractAsyncContextManager[PayloadStream]:
            def routed(first: AnyPayload) -> AnyPayload:
                return self._composed(first, route, metadata)

            return request_channel(
                self._sender, source, payload, routed, window, self.limits.max_prefetch
            )

        if self._outgoing is not None:
            request = Request(Interaction.REQUEST_CHANNEL, route, metadata, None)
            return self._outgoing.opened(request, opened)
        return opened(metadata)

    async def metadata_push(self, metadata: bytes) -> None:
        """Send metadata about the connection. Returns when the frame is queued.

        Args:
            metadata: Of the connection's metadata MIME type; it must fit one frame.

        Raises:
            LocalProtocolError: It does not fit one frame.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: The connection was closed here.

        Checkpoint: always.
        If cancelled: nothing was sent.
        """
        self._sender.home.check("this requester")
        connection = self._connection  # also if another session begins meanwhile
        check_metadata_push(metadata, connection.config.limits.max_frame_size)
        frame = encode_metadata_push(metadata)
        await trio.lowlevel.checkpoint()
        await connection.sender.reserve(len(frame))
        connection.outbox.put_reserved(frame)

    def statistics(self) -> ConnectionStatistics:
        """Return numbers about the connection."""
        connection = self._connection
        outbox = connection.outbox
        return ConnectionStatistics(
            open_streams=len(connection.table.operations),
            active_requests=connection.workload.active,
            queued_size=outbox.room.used + outbox.control_size,
            unread_size=connection.memory.unread.held,
        )

    async def wait_draining(self) -> None:
        """Wait until an end of the connection is announced, by either side, or it is over.

        `wait_closed` returns the reason then, as soon as the open requests have finished.

        Raises:
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        lifecycle = self._connection.lifecycle
        lifecycle.home.check("this requester")
        await lifecycle.drain_begun.wait()

    async def wait_closed(self) -> Exception:
        """Wait until the connection is over for good, e.g. to clean up after a client.

        With ``reconnect=`` this waits until no other session follows.

        Returns:
            The reason, which every open request got too. `ClosedByPeer` if the peer announced it,
            with the code CONNECTION_CLOSE if the peer stops; `ConnectionLost` if the peer crashed,
            or the network failed; another `ConnectionClosed`; or `trio.ClosedResourceError` if the
            connection was closed here.

        Raises:
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        self._connection.lifecycle.home.check("this requester")
        succession = self._succession
        await (self._connection.lifecycle if succession is None else succession).ended.wait()
        failure = (self._connection.lifecycle if succession is None else succession).failure
        if failure is None:  # the client was closed between two sessions
            return trio.ClosedResourceError("the connection was closed here")
        return fresh_copy(failure)

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
        idempotent: bool = False,
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """Open a stream; a ``subscription`` by the draft's REQUEST_SUB, if the peer knows it."""
        window = window_for(self._config(), prefetch, initial_request_n)
        at_most = self.limits.max_prefetch

        def opened(metadata: Metadata | None) -> AbstractAsyncContextManager[PayloadStream]:
            composed = payload
            if route is not None or metadata is not None or self.tracing is not None:
                composed = self._composed(payload, route, metadata)
            known = subscription and self._connection.transport.capabilities.subscriptions
            flags = SUBSCRIPTION if known else 0
            return request_stream(self._sender, composed, window, at_most, flags)

        if self._outgoing is not None:
            repeated = _repeats(payload, idempotent=idempotent)
            request = Request(Interaction.REQUEST_STREAM, route, metadata, repeated)
            return self._outgoing.opened(request, opened)
        return opened(metadata)

    def _composed(
        self, payload: AnyPayload, route: str | None, metadata: Metadata | None
    ) -> AnyPayload:
        trace = None if self.tracing is None else self.tracing.outgoing()
        return payload_for(payload, route, metadata, self.metadata_mime_type, trace)


def _repeats(payload: AnyPayload, *, idempotent: bool = False) -> bool | None:
    """Return how a request may be repeated, see `Request.idempotent`."""
    return None if isinstance(payload, StreamedPayload) else idempotent
