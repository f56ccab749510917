"""TLS over any byte stream, client and server side."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

import trio

from ..uri import Uri, schemes_with
from .direct import direct
from .tls_stream import TLSStream

__all__ = ["check_context", "peer_certificate", "start_tls_client", "start_tls_server"]


def check_context(ssl_context: object, addresses: Sequence[Uri] = (), *, server_side: bool) -> None:
    """Check a TLS context, that it is of this side, and that one of the addresses uses it.

    A program that gives a context wants encryption; with ``tcp://`` in place of ``tls://`` there
    would be none, without any sign.

    Raises:
        TypeError: It is not an `ssl.SSLContext`.
        ValueError: It is for the other side, with which each handshake would fail; or the addresses
            are all unencrypted.
    """
    if ssl_context is None:
        return
    if not isinstance(ssl_context, ssl.SSLContext):
        raise TypeError(f"ssl_context must be an ssl.SSLContext, not {type(ssl_context).__name__}")
    wrong = ssl.PROTOCOL_TLS_CLIENT if server_side else ssl.PROTOCOL_TLS_SERVER
    if ssl_context.protocol == wrong:
        sides = ("clients", "a server") if server_side else ("servers", "a client")
        purpose = "CLIENT_AUTH" if server_side else "SERVER_AUTH"
        raise ValueError(
            f"ssl_context is for {sides[0]}, and this is {sides[1]}: make it with "
            f"ssl.create_default_context(ssl.Purpose.{purpose})"
        )
    if addresses and not any(uri.is_encrypted for uri in addresses):
        named = ", ".join(map(str, addresses))
        schemes = schemes_with(addresses[0], lambda each: each.is_encrypted)
        raise ValueError(
            f"ssl_context is given, but {named} is not encrypted: use {schemes}, or leave "
            "ssl_context out"
        )


async def start_tls_client(
    stream: trio.SocketStream, host: str, ssl_context: ssl.SSLContext | None
) -> TLSStream:
    """Begin TLS as the client, and finish the handshake.

    Args:
        stream: A connected stream.
        host: The name that the server's certificate must have.
        ssl_context: How to verify it; by default with the system's authorities.

    Raises:
        trio.BrokenResourceError: The handshake failed; the text says why, and the server was told.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    context = ssl.create_default_context() if ssl_context is None else ssl_context
    name = host.partition("%")[0]  # A certificate knows no zone.
    return await _shaken(TLSStream(direct(stream), context, server_hostname=name))


async def start_tls_server(stream: trio.SocketStream, ssl_context: ssl.SSLContext) -> TLSStream:
    """Begin TLS as the server, and finish the handshake.

    Raises:
        trio.BrokenResourceError: The handshake failed; the text says why, and the client was told.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    return await _shaken(TLSStream(direct(stream), ssl_context, server_side=True))


async def _shaken(secure: TLSStream) -> TLSStream:
    try:
        await secure.do_handshake()
    except BaseException:  # also when cancelled: the caller closes the socket
        secure.detach()
        raise
    return secure


def peer_certificate(stream: TLSStream) -> dict[str, object] | None:
    """Return the peer's verified certificate, as `ssl.SSLSocket.getpeercert` does, or ``None``."""
    certificate = stream.ssl_object.getpeercert()
    return {**certificate} if certificate else None
