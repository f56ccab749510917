"""Streams by address, for clients: `dial`."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import attrs
import trio

from ..errors import ConnectFailed
from ..uri import AddressKind, Uri, check_dialled, kind_of, shown
from .adopt import adopt_connection
from .byte_stream import ByteStream, connected
from .failures import describe_failure
from .farewell import half_close
from .hybrid_vsock import request_port
from .tcp import connect_tcp
from .tls import start_tls_client
from .unix import connect_unix
from .vsock import connect_vsock

__all__ = ["dial"]

T = TypeVar("T")


async def dial(
    uri: Uri,
    shake_hands: Callable[[ByteStream], Awaitable[T]],
    *,
    address: str = "",
    ssl_context: ssl.SSLContext | None = None,
    handshake_timeout: float,
) -> T:
    """Connect to a server, and make something out of the stream.

    Args:
        uri: The server's address. The descriptor of an ``fd`` address is closed with the stream,
            and on failure behind it, so the address is good for one connection.
        shake_hands: Makes the result, after a handshake of the wire if it has one. The result owns
            the stream.
        address: Connect there in place of the host of ``uri``, whose name TLS verifies all the
            same.
        ssl_context: TLS: how to verify the server; by default with the system's authorities.
        handshake_timeout: How long the handshakes may take, TLS included, in seconds.

    Returns:
        The result of ``shake_hands``.

    Raises:
        ConnectFailed: No connection could be made; the message says what failed, ``__cause__``
            holds the error.
        ValueError: The address is only for servers.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    check_dialled(uri)
    try:
        stream = await _open(attrs.evolve(uri, host=address) if address else uri)
    except (OSError, UnicodeError) as error:
        # UnicodeError: a host name that cannot be encoded for the resolver.
        raise ConnectFailed(f"cannot connect to {shown(uri)}: {describe_failure(error)}") from error
    start_tls = partial(start_tls_client, host=uri.host, ssl_context=ssl_context)
    try:
        with trio.fail_after(handshake_timeout):
            if kind_of(uri) is AddressKind.HYBRID_VSOCK:
                await request_port(stream, uri.port)
            return await shake_hands(
                await connected(stream, uri, dialled=True, start_tls=start_tls)
            )
    except trio.TooSlowError as error:
        await trio.aclose_forcefully(stream)
        why = f"the handshake was not finished within {handshake_timeout:g} s"
        raise ConnectFailed(f"cannot connect to {shown(uri)}: {why}") from error
    except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
        try:
            await half_close(stream)  # TLS and HTTP may have told the server why.
        finally:
            await trio.aclose_forcefully(stream)
        failed = ConnectFailed(f"cannot connect to {shown(uri)}: {describe_failure(error)}")
        if isinstance(error, ConnectFailed):
            failed.status, failed.headers, failed.body = error.status, error.headers, error.body
        raise failed from error
    except BaseException:  # also when cancelled: do not leave the socket open
        await trio.aclose_forcefully(stream)
        raise


async def _open(uri: Uri) -> trio.SocketStream:
    """Return a connected socket. `dial` says how it waits."""
    match kind_of(uri):
        case AddressKind.UNIX | AddressKind.HYBRID_VSOCK:
            return await connect_unix(uri)
        case AddressKind.VSOCK:
            return await connect_vsock(uri)
        case AddressKind.DESCRIPTOR:
            await trio.lowlevel.checkpoint()
            return adopt_connection(int(uri.host))
        case AddressKind.INTERNET | AddressKind.ACTIVATION:  # the latter is not dialled
            return await connect_tcp(uri)
