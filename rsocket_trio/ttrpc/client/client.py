"""The client: `connect`, `Client`."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, final

import attrs
import trio

from ...errors import ConnectFailed, fresh_copy
from ...field_checks import argument, instance_of
from ...interactions.block import Block, OnlyByBlock, opened_by_block
from ...interactions.isolation import crashed
from ...protocol.repeats import Repeats
from ...protocol.retry import Retry
from ...repeating import Repeating
from ...routing.middleware import Blocks, check_middleware
from ...sealed import Sealed, make
from ...sockets.byte_stream import ByteStream, TransportInfo
from ...sockets.dial import dial
from ...uri import Uri
from ..addresses import ttrpc_uri
from ..carrier import OpenStream, as_byte_stream, carry
from ..config import DEFAULT_CONFIG, TtrpcConfig, check_config
from ..inbox import ReplyStream
from ..metadata import MetadataLike, as_metadata
from ..methods import Method, MethodKind, Req, Res
from .calls import OutgoingCall, OutgoingMiddleware
from .connection import ClientConnection
from .streams import BidiStream, ClientStream, open_stream
from .unary import unary

__all__ = ["Client", "ClientStatistics", "check_client", "connect"]


@attrs.frozen(kw_only=True)
class ClientStatistics:
    """Numbers about a client's connection.

    Attributes:
        open_calls: Calls that wait for something.
        queued_size: Bytes that wait to be sent.
        unread_size: Bytes of messages that have arrived and are not received yet.
        ignored_frames: Frames of the server for calls that nobody waits for any more.
    """

    open_calls: int
    queued_size: int
    unread_size: int
    ignored_frames: int


@final
class Client(metaclass=Sealed, given="connect gives one"):
    """Calls methods of a server. Any number of tasks may use it at the same time.

    Each call lives in its caller's task. The deadline of the caller's cancel scope leaves with the
    call, as its timeout. The protocol has no cancellation: the handler of a caller that leaves
    runs until this deadline, or the end of the connection.

    Attributes:
        info: Facts about the connection.
    """

    def __init__(
        self,
        connection: ClientConnection,
        info: TransportInfo,
        middleware: tuple[OutgoingMiddleware, ...],
        repeating: Repeating | None,
    ) -> None:
        self._connection = connection
        self.info = info
        self._middleware = middleware
        self._repeating = repeating

    async def unary(
        self,
        method: Method[Req, Res],
        request: Req,
        *,
        metadata: MetadataLike | None = None,
        idempotent: bool = False,
    ) -> Res:
        """Call a method with one request and one answer.

        Args:
            method: The method.
            request: The request.
            metadata: Pairs of text for the handler.
            idempotent: The server may process it twice, so a client with ``repeats=`` repeats it.

        Raises:
            CallError: The call has failed, with a class for each code, e.g. `NotFound`. A request
                that is too long for a frame is a `ResourceExhausted`, and nothing is sent.
            RemoteProtocolError: The server broke the protocol on this call.
            ConnectionClosed: The connection is over, or was lost before the answer came.
            CircuitOpen: With ``repeats=``: too many calls have failed, and nothing was sent.
            trio.ClosedResourceError: The block of `connect` has ended.
            TypeError: The method is of another kind, or the request or metadata are of a wrong
                type.

        Checkpoint: always.
        If cancelled: the answer is dropped when it comes. The server is not told, see above.
        """
        if not isinstance(method, Method) or method.kind is not MethodKind.UNARY:
            raise _wrong_kind(method, MethodKind.UNARY)
        pairs = () if metadata is None else as_metadata(metadata)
        repeating = self._repeating
        if not self._middleware and repeating is None:
            return await unary(self._connection, method, request, pairs)
        call = make(OutgoingCall, method, pairs, self.info)
        async with Blocks(call, self._middleware):
            send = partial(unary, self._connection, method, request, call.pairs)
            if repeating is None:
                return await send()
            return await repeating.answer(method.path, send, idempotent=idempotent)
        raise AssertionError("middleware cannot absorb the error of a call")

    def server_stream(
        self, method: Method[Req, Res], request: Req, *, metadata: MetadataLike | None = None
    ) -> AbstractAsyncContextManager[ReplyStream[Res]]:
        """Call a method with one request and a stream of answers.

        ``async with client.server_stream(TICKS, request) as ticks: async for tick in ticks: ...``

        Args:
            method: The method.
            request: The request.
            metadata: Pairs of text for the handler.

        Raises:
            TypeError: The method is of another kind, or metadata are of a wrong type; entering
                raises the errors of `unary` besides.

        Checkpoint: entering is a cancellation point, and other tasks run if there is no room.
            Leaving never waits: what still comes is dropped.
        If cancelled: on entering, nothing is sent.
        """
        return self._stream(method, MethodKind.SERVER_STREAM, request, metadata)

    def client_stream(
        self, method: Method[Req, Res], *, metadata: MetadataLike | None = None
    ) -> AbstractAsyncContextManager[ClientStream[Req, Res]]:
        """Call a method with a stream of requests and one answer.

        ``async with client.client_stream(SUM) as call: await call.send(part); await call.reply()``

        Args:
            method: The method.
            metadata: Pairs of text for the handler.

        Raises:
            TypeError: As for `server_stream`.

        Checkpoint: entering is a cancellation point, and other tasks run if there is no room.
            Leaving never waits: the server is told that no more comes.
        If cancelled: on entering, nothing is sent.
        """
        return self._stream(method, MethodKind.CLIENT_STREAM, None, metadata)

    def bidi_stream(
        self, method: Method[Req, Res], *, metadata: MetadataLike | None = None
    ) -> AbstractAsyncContextManager[BidiStream[Req, Res]]:
        """Call a method with streams in both directions.

        Args:
            method: The method.
            metadata: Pairs of text for the handler.

        Raises:
            TypeError: As for `server_stream`.

        Checkpoint: entering is a cancellation point, and other tasks run if there is no room.
            Leaving never waits: the server is told that no more comes, and what still comes from
            there is dropped.
        If cancelled: on entering, nothing is sent.
        """
        return self._stream(method, MethodKind.BIDI_STREAM, None, metadata)

    def _stream(
        self, method: Method[Any, Any], kind: MethodKind, request: Any, metadata: Any
    ) -> AbstractAsyncContextManager[Any]:
        if not isinstance(method, Method) or method.kind is not kind:
            raise _wrong_kind(method, kind)
        pairs = as_metadata(metadata)
        if self._middleware or self._repeating is not None:
            opened = self._open_within(make(OutgoingCall, method, pairs, self.info), request)
        else:
            opened = open_stream(self._connection, method, request, pairs)
        return OnlyByBlock(opened, kind.value)

    @asynccontextmanager
    async def _open_within(self, call: OutgoingCall, request: Any) -> AsyncIterator[Any]:
        async with Blocks(call, self._middleware):
            opened = partial(open_stream, self._connection, call.method, request, call.pairs)
            repeating = self._repeating
            async with (
                opened()
                if repeating is None
                else repeating.opened(call.method.path, opened, idempotent=None)
            ) as stream:
                yield stream

    async def wait_closed(self) -> Exception:
        """Wait until the connection is over, and return the reason.

        Raises:
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        lifecycle = self._connection.lifecycle
        lifecycle.home.check("this client")
        await lifecycle.ended.wait()
        assert lifecycle.failure is not None
        return fresh_copy(lifecycle.failure)

    def statistics(self) -> ClientStatistics:
        """Return numbers about this connection."""
        connection = self._connection
        return ClientStatistics(
            open_calls=len(connection.calls),
            queued_size=connection.room.used + connection.outbox.control_size,
            unread_size=connection.unread.held,
            ignored_frames=connection.ignored,
        )


@opened_by_block
async def connect(
    target: str | Uri | OpenStream,
    *,
    config: TtrpcConfig = DEFAULT_CONFIG,
    middleware: Iterable[OutgoingMiddleware] = (),
    retry: Retry | None = None,
    repeats: Repeats | None = None,
) -> AsyncIterator[Client]:
    """Connect to a server.

    ``async with connect("unix:///run/x.sock") as client: ...``

    The connection lives as long as the block. Leaving the block sends what is queued and closes
    the connection; calls that are still open then raise `trio.ClosedResourceError`.

    Args:
        target: An address, see `ttrpc_uri`; or an open stream, a connected
            socket or the number of its descriptor, which is closed with the block.
        config: Times, sizes and limits.
        middleware: Blocks around each call, the outermost first, as for `rsocket_trio.connect`.
            They get the `OutgoingCall`.
        retry: If no connection can be made, try again by this schedule, e.g. because the server
            is still starting. By default there is one attempt. A connection that is lost later is
            not made again: calls may have been handled, and only the application knows which ones
            may be repeated.
        repeats: Repeat calls that have failed with UNAVAILABLE, where they are idempotent, within a
            budget, and fail at once while the server fails them all; see `rsocket_trio.Repeats`.

    Yields:
        The client. The protocol has no handshake, so a server that is none shows only with the
        first call.

    Raises:
        ConnectFailed: No connection could be made; ``__cause__`` holds the error.
        OSError: The target is a socket that is not connected.
        TypeError: An argument is of a wrong type.
        ValueError: The address is wrong.
        InternalError: On leaving: a task of the connection crashed. Please report it.

    Checkpoint: entering and leaving, always.
    If cancelled: the connection is closed.
    """
    check_config(config)
    argument("repeats", repeats, instance_of(Repeats, none=True))
    blocks = check_middleware(middleware)
    block = Block()
    with block.around():
        async with await _open(target, config, retry) as stream:
            transport = carry(stream, config.limits.max_message_size)
            connection = ClientConnection(transport, config)
            ended = connection.lifecycle.ended.is_set
            repeating = None if repeats is None else Repeating(repeats, ended)
            try:
                async with trio.open_nursery() as nursery:
                    await nursery.start(connection.run)
                    with block.body():
                        yield make(Client, connection, stream.info, blocks, repeating)
                    await connection.flush()
                    connection.lifecycle.close()
            except BaseExceptionGroup as group:  # of the nursery; what is no crash is raised again
                crash = crashed(group, "a task of the connection", stream.stream)
                if crash is None or block.error is not None:
                    raise
                raise crash from group


async def _open(
    target: str | Uri | OpenStream, config: TtrpcConfig, retry: Retry | None
) -> ByteStream:
    if not isinstance(target, str | Uri):
        if retry is not None:
            raise TypeError("retry= goes with an address: an open stream cannot be dialled again")
        return as_byte_stream(target)
    argument("retry", retry, instance_of(Retry, none=True))
    uri = ttrpc_uri(target)
    waits = iter(()) if retry is None else retry.delays(random.random)
    while True:
        try:
            return await dial(uri, _as_it_is, handshake_timeout=config.connect_timeout)
        except ConnectFailed:
            wait = next(waits, None)
            if wait is None:
                raise
        await trio.sleep(wait)


async def _as_it_is(stream: ByteStream) -> ByteStream:
    return stream


def check_client(client: Client, needed_by: str) -> Client:
    """Return a client, for a generated class that needs one.

    Anything with the methods of a `Client` will do, such as a double in a test.

    Args:
        client: The client.
        needed_by: The name of the class.

    Raises:
        TypeError: It is something else, for example an address, or `connect` without its block.
    """
    if not callable(getattr(client, "unary", None)):
        what = "connect(...) without its block" if hasattr(client, "__aenter__") else repr(client)
        raise TypeError(
            f"{needed_by} needs a client, not {what}: "
            f"async with ttrpc.connect('unix:///...') as client: {needed_by}(client)"
        )
    return client


def _wrong_kind(method: object, wanted: MethodKind) -> TypeError:
    if not isinstance(method, Method):
        return TypeError(f"a call needs a Method, not {type(method).__name__}")
    return TypeError(
        f"{method.path} is of the kind {method.kind.value}, not {wanted.value}: call "
        f"Client.{method.kind.value}"
    )
