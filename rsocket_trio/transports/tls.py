"""TLS over any byte stream, client and server side."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

import trio

from ..uri import Uri

__all__ = ["TLSStream", "check_context", "peer_certificate", "start_tls_client", "start_tls_server"]

# Peers of every make close without a close_notify; `https_compatible` takes that for the end of
# the stream. Nothing is lost by it: an end inside a frame is told by the frame's length.
TLSStream = trio.SSLStream[trio.SocketStream]


def check_context(ssl_context: object, addresses: Sequence[Uri] = ()) -> None:
    """Refuse a TLS context that is none, or that none of these addresses has a use for.

    Who gives a context wants encryption, and ``tcp://`` in place of ``tls://`` would leave it out
    without a word.

    Raises:
        TypeError: It is no `ssl.SSLContext`.
        ValueError: None of the addresses is encrypted.
    """
    if ssl_context is None:
        return
    if not isinstance(ssl_context, ssl.SSLContext):
        raise TypeError(f"ssl_context must be an ssl.SSLContext, not {type(ssl_context).__name__}")
    if addresses and not any(uri.is_encrypted for uri in addresses):
        named = ", ".join(map(str, addresses))
        raise ValueError(
            f"ssl_context is given, but {named} is not encrypted: use tls:// or wss://, or leave "
            "ssl_context out"
        )


async def start_tls_client(
    stream: trio.SocketStream, host: str, ssl_context: ssl.SSLContext | None
) -> TLSStream:
    """Begin TLS as the client, to its finished handshake.

    Args:
        stream: Connected.
        host: Whom the server's certificate must name.
        ssl_context: How to verify it; the system's authorities by default.

    Raises:
        trio.BrokenResourceError: There was no agreement; ``__cause__`` says why.

    Checkpoint: always.
    If cancelled: the stream is good only for closing.
    """
    context = ssl.create_default_context() if ssl_context is None else ssl_context
    secure = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    await secure.do_handshake()
    return secure


async def start_tls_server(stream: trio.SocketStream, ssl_context: ssl.SSLContext) -> TLSStream:
    """Begin TLS as the server, to its finished handshake.

    Raises:
        trio.BrokenResourceError: There was no agreement; ``__cause__`` says why.

    Checkpoint: always.
    If cancelled: the stream is good only for closing.
    """
    secure = trio.SSLStream(stream, ssl_context, server_side=True, https_compatible=True)
    await secure.do_handshake()
    return secure


def peer_certificate(stream: TLSStream) -> dict[str, object] | None:
    """The peer's certificate as `ssl.SSLSocket.getpeercert` has it, if one was verified."""
    certificate: dict[str, object] | None = stream.getpeercert()
    return certificate or None
