"""Transports by address, for clients: `open_transport`."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio

from ..config import MAX_FRAME_SIZE
from ..errors import ConnectFailed
from ..uri import Uri, parse_uri
from .base import FrameTransport
from .over_stream import transport_over
from .tcp import connect_tcp
from .tls import start_tls_client
from .unix import connect_unix
from .websocket_handshake import request_websocket

__all__ = ["describe_failure", "open_transport"]


@asynccontextmanager
async def open_transport(
    uri: Uri | str,
    *,
    headers: Sequence[tuple[str, str]] = (),
    ssl_context: ssl.SSLContext | None = None,
    max_frame_size: int = MAX_FRAME_SIZE,
) -> AsyncIterator[FrameTransport]:
    """Dial a server, and close the connection with the block.

    Args:
        uri: Where it is.
        headers: WebSocket: more headers of the handshake. ``Sec-WebSocket-Protocol`` proposes
            subprotocols.
        ssl_context: TLS: how to verify the server; the system's authorities by default.
        max_frame_size: The server's frames may be this long, in bytes.

    Yields:
        The transport, ready.

    Raises:
        ValueError: The address or a header is none.
        ConnectFailed: No connection came about; the message says what failed, ``__cause__`` holds
            the error.

    Checkpoint: entering and leaving, always.
    If cancelled: nothing stays open.
    """
    if isinstance(uri, str):
        uri = parse_uri(uri)
    try:
        stream = await (connect_unix(uri) if uri.scheme == "unix" else connect_tcp(uri))
    except (OSError, UnicodeError) as error:
        # UnicodeError: a host name that no resolver can be asked for.
        raise ConnectFailed(f"cannot connect to {uri}: {describe_failure(error)}") from error
    try:
        transport = await transport_over(
            stream,
            uri,
            dialled=True,
            start_tls=partial(start_tls_client, host=uri.host, ssl_context=ssl_context),
            shake_hands=partial(request_websocket, uri=uri, headers=headers),
            max_frame_size=max_frame_size,
        )
    except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
        await trio.aclose_forcefully(stream)
        raise ConnectFailed(f"cannot connect to {uri}: {describe_failure(error)}") from error
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    async with transport:
        yield transport


def describe_failure(error: BaseException) -> str:
    """The reason at the bottom of an error of trio's, as one line."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe_failure(each) for each in cause.exceptions))
    if cause is not None and not isinstance(error, ConnectFailed):
        return describe_failure(cause)
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror:
        # trio puts the address in front: ours is that of the whole failure.
        return re.sub(r"^Error connecting to \(.*?\): ", "", error.strerror)
    return str(error) or type(error).__name__
