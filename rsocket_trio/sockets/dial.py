"""Streams by address, for clients: `dial`."""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import trio

from ..errors import ConnectFailed
from ..uri import AddressKind, Uri, kind_of
from .adopt import adopt_connection
from .byte_stream import ByteStream, connected
from .hybrid_vsock import request_port
from .tcp import connect_tcp
from .tls import start_tls_client
from .unix import connect_unix
from .vsock import connect_vsock

__all__ = ["describe_failure", "dial"]

_NOT_TRUSTED: Final = frozenset({18, 19, 20, 21})
"""X509_V_ERR_... of OpenSSL: self-signed, alone or in the chain; no certificate of the issuer."""

T = TypeVar("T")


async def dial(
    uri: Uri,
    shake_hands: Callable[[ByteStream], Awaitable[T]],
    *,
    ssl_context: ssl.SSLContext | None = None,
    handshake_timeout: float,
) -> T:
    """Connect to a server, and make something out of the stream.

    Args:
        uri: The server's address. The descriptor of an ``fd`` address is closed with the stream,
            and on failure behind it, so the address is good for one connection.
        shake_hands: Makes the result, after a handshake of the wire if it has one. The result owns
            the stream.
        ssl_context: TLS: how to verify the server; by default with the system's authorities.
        handshake_timeout: How long the handshakes may take, TLS included, in seconds.

    Returns:
        The result of ``shake_hands``.

    Raises:
        ConnectFailed: No connection could be made; the message says what failed, ``__cause__``
            holds the error.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    try:
        stream = await _open(uri)
    except (OSError, UnicodeError) as error:
        # UnicodeError: a host name that cannot be encoded for the resolver.
        raise ConnectFailed(f"cannot connect to {uri}: {describe_failure(error)}") from error
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
        raise ConnectFailed(f"cannot connect to {uri}: {why}") from error
    except (ConnectFailed, trio.BrokenResourceError, OSError) as error:
        await trio.aclose_forcefully(stream)
        raise ConnectFailed(f"cannot connect to {uri}: {describe_failure(error)}") from error
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
        case AddressKind.INTERNET:
            return await connect_tcp(uri)


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
    return (str(error) or type(error).__name__) + _remedy(error)


def _remedy(error: BaseException) -> str:
    """Return what to do about an error of TLS whose text does not say it."""
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _NOT_TRUSTED:
        return ": the authority that issued it is not trusted (--ca, or an ssl_context)"
    if isinstance(error, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(error):
        return ": the other end does not use TLS"
    return ""
