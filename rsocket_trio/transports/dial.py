"""Transports by address, for clients: `open_transport`."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio
import trio_websocket

from ..config import MAX_FRAME_SIZE
from ..errors import ConnectFailed
from ..uri import Uri, as_uri
from .base import FrameTransport
from .over_stream import transport_over
from .tcp import connect_tcp
from .tls import check_context, start_tls_client
from .unix import connect_unix
from .websocket_handshake import request_websocket

__all__ = ["NO_CONNECTION", "describe_failure", "open_transport"]

NO_CONNECTION: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
    trio_websocket.HandshakeError,
    trio_websocket.ConnectionClosed,
)
"""Errors of a dialling function that count as `ConnectFailed`: there is no connection now."""


@asynccontextmanager
async def open_transport(
    uri: str | Uri,
    *,
    headers: Sequence[tuple[str, str]] = (),
    ssl_context: ssl.SSLContext | None = None,
    max_frame_size: int = MAX_FRAME_SIZE,
    handshake_timeout: float = 10.0,
) -> AsyncIterator[FrameTransport]:
    """Dial a server, and close the connection at the end of the block.

    Args:
        uri: The server's address: a `Uri`, or the text of one.
        headers: WebSocket: more headers of the handshake. ``Sec-WebSocket-Protocol`` proposes
            subprotocols.
        ssl_context: TLS: how to verify the server; by default with the system's authorities.
        max_frame_size: The server's frames may be this long, in bytes.
        handshake_timeout: How long the handshakes of TLS and WebSocket may take, in seconds.

    Yields:
        The transport, ready for frames.

    Raises:
        TypeError: ``uri`` or ``ssl_context`` is of a wrong type.
        ValueError: The address or a header is not valid, or the address has no use for ``headers``
            or ``ssl_context``.
        ConnectFailed: No connection could be made; the message says what failed, ``__cause__``
            holds the error.

    Checkpoint: entering and leaving, always.
    If cancelled: nothing stays open.
    """
    uri = as_uri(uri)
    check_context(ssl_context, [uri])
    if headers and not uri.is_websocket:
        raise ValueError(
            f"headers= is for ws:// and wss:// only, not for {uri}: leave headers= out"
        )
    try:
        stream = await (connect_unix(uri) if uri.scheme == "unix" else connect_tcp(uri))
    except (OSError, UnicodeError) as error:
        # UnicodeError: a host name that cannot be encoded for the resolver.
        raise ConnectFailed(f"cannot connect to {uri}: {describe_failure(error)}") from error
    try:
        with trio.fail_after(handshake_timeout):
            transport = await transport_over(
                stream,
                uri,
                dialled=True,
                start_tls=partial(start_tls_client, host=uri.host, ssl_context=ssl_context),
                shake_hands=partial(request_websocket, uri=uri, headers=headers),
                max_frame_size=max_frame_size,
            )
    except trio.TooSlowError as error:
        await trio.aclose_forcefully(stream)
        why = f"the handshake was not finished within {handshake_timeout:g} s"
        raise ConnectFailed(f"cannot connect to {uri}: {why}") from error
    except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
        await trio.aclose_forcefully(stream)
        raise ConnectFailed(f"cannot connect to {uri}: {describe_failure(error)}") from error
    except BaseException:  # also when cancelled: do not leave the socket open
        await trio.aclose_forcefully(stream)
        raise
    async with transport:
        yield transport


def describe_failure(error: BaseException) -> str:
    """Return the first cause of an error, as one line."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe_failure(each) for each in error.exceptions))
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return describe_failure(cause)
    if cause is not None and not isinstance(error, ConnectFailed):
        return describe_failure(cause)
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror:
        # trio puts the address in front, and our message already has it.
        return re.sub(r"^Error connecting to \(.*?\): ", "", error.strerror)
    return str(error) or type(error).__name__
