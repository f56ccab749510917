"""The client: `connect`."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Sequence

import trio

from ..errors import ConnectFailed, ConnectionClosed, fresh_copy
from ..field_checks import FLAG, argument, instance_of
from ..interactions.block import Block, opened_by_block
from ..interactions.connection_block import NotEntered, run_within
from ..interactions.isolation import crashed
from ..protocol.repeats import Repeats
from ..protocol.retry import Retry
from ..responder import lifespan_of
from ..sockets.tls import check_context
from ..transports.base import FrameTransport
from ..uri import Uri
from .addresses import rsio_uri
from .carrier import OpenTransport, as_transport, dial_rsio
from .config import DEFAULT_CONFIG, RsioConfig, check_config
from .connection.connection import Connection
from .errors import GoodbyeReceived, HelloRefused
from .extensions import Extension
from .hosting import Host
from .targets import Served, check_served

__all__ = ["connect"]


@opened_by_block
async def connect(
    target: str | Uri | OpenTransport,
    *,
    publish: Served | None = None,
    config: RsioConfig = DEFAULT_CONFIG,
    ssl_context: ssl.SSLContext | None = None,
    extensions: Sequence[Extension] = (),
    retry: Retry | None = None,
    data_mime_type: str | None = None,
    wait: bool = True,
    repeats: Repeats | None = None,
) -> AsyncIterator[Connection]:
    """Connect to a server.

    ``async with connect("rsio://127.0.0.1:7980") as connection: ...``

    The connection lives as long as the block. Leaving the block says goodbye, and waits for that of
    the server; streams that are still open end with `trio.ClosedResourceError`.

    Args:
        target: An address, see `rsio_uri`; or an open stream, socket or transport, which is closed
            with the block.
        publish: What the server may subscribe to, as for `serve`.
        config: Times, sizes and limits.
        ssl_context: TLS: how to verify the server; by default with the system's authorities. With
            ``rsios`` its ALPN is set to ``rsio/0``: give it to no other protocol.
        extensions: The extensions of the protocol that we support.
        retry: If no connection can be made, try again by this schedule, e.g. because the server
            is still starting. By default there is one attempt. A connection that is lost later is
            not made again.
        data_mime_type: For a Router in ``publish``: the MIME type of its results; JSON by default.
        wait: Wait for the hello of the server. Without it, what is sent in the block leaves at
            once, in one flight with our hello. If the server refuses it then, subscribers get the
            error, and `Connection.wait_ready` raises it.
        repeats: Repeat `RemotePublisher.first` where it is idempotent, within a budget; hedge it;
            fail at once while all fail. Other subscriptions are made once; see the operator
            ``retry``.

    Yields:
        The connection.

    Raises:
        ConnectFailed: No connection could be made, or the other end does not speak rsio.
        HelloRefused: The server refused the connection; a `ConnectFailed` too.
        VersionMismatch: It has another version of the protocol; a `HelloRefused` too.
        OSError: The target is a socket that is not connected.
        TypeError: An argument is of a wrong type.
        ValueError: The address is wrong, or it has no use for ``ssl_context``; or
            ``data_mime_type`` is no MIME type.
        InternalError: On leaving: a task of the connection crashed. Please report it.

    Checkpoint: entering and leaving, always.
    If cancelled: the connection is closed; the goodbye is sent only if that needs no wait.
    """
    check_config(config)
    argument("wait", wait, FLAG)
    argument("repeats", repeats, instance_of(Repeats, none=True))
    if publish is not None:
        check_served(publish)
    host = Host(publish, config, extensions, data_mime_type, repeats)
    block = Block()
    with block.around():
        async with (
            lifespan_of(publish),
            await _open(target, config, ssl_context, retry) as transport,
        ):
            link, connection, _, around = await host.begin(transport, "client")
            peer = transport.info.peer or transport.info.scheme
            try:
                async with trio.open_nursery() as nursery:
                    failure: Exception | None = None
                    try:
                        await nursery.start(
                            run_within, around, peer, config.connect_timeout, link.goodbye, link.run
                        )
                    except NotEntered as error:
                        failure = error.error
                    if wait and failure is None:
                        failure = await _refusal(connection, transport)
                    with block.body():
                        if failure is not None:
                            raise failure
                        yield connection
                    link.goodbye("")
            except BaseExceptionGroup as group:  # of the nursery; what is no crash is raised again
                crash = crashed(group, "a task of the connection", transport)
                if crash is None or block.error is not None:
                    raise
                raise crash from group


async def _refusal(connection: Connection, transport: FrameTransport) -> Exception | None:
    """Wait for the hello of the server; return why there is no connection."""
    try:
        await connection.wait_ready()
    except HelloRefused as error:
        return fresh_copy(error)
    except GoodbyeReceived as error:
        refusal = HelloRefused(f"the peer refused the connection: {error.reason}", error.reason)
        refusal.__cause__ = error
        return refusal
    except ConnectionClosed as error:
        name = transport.info.peer or transport.info.scheme
        failed = ConnectFailed(f"cannot connect to {name} by rsio: {error}")
        failed.__cause__ = error
        return failed
    except trio.ClosedResourceError:
        return None  # a resolver of ours has said goodbye already: the block sees it
    return None


async def _open(
    target: str | Uri | OpenTransport,
    config: RsioConfig,
    ssl_context: ssl.SSLContext | None,
    retry: Retry | None,
) -> FrameTransport:
    if not isinstance(target, str | Uri):
        if retry is not None:
            raise TypeError("retry= goes with an address: an open stream cannot be dialled again")
        if ssl_context is not None:
            raise TypeError("ssl_context= goes with an address: an open stream is used as it is")
        return as_transport(target)
    argument("retry", retry, instance_of(Retry, none=True))
    uri = rsio_uri(target)
    check_context(ssl_context, [uri], server_side=False)
    waits = iter(()) if retry is None else retry.delays(random.random)
    while True:
        try:
            return await dial_rsio(
                uri, ssl_context=ssl_context, handshake_timeout=config.connect_timeout
            )
        except ConnectFailed:
            delay = next(waits, None)
            if delay is None:
                raise
        await trio.sleep(delay)
