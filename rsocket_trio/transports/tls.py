"""TLS over any byte stream, client and server side."""

from __future__ import annotations

import ssl

import trio

__all__ = ["TLSStream", "peer_certificate", "start_tls_client", "start_tls_server"]

# Peers of every make close without a close_notify; `https_compatible` takes that for the end of
# the stream. Nothing is lost by it: an end inside a frame is told by the frame's length.
TLSStream = trio.SSLStream[trio.SocketStream]


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
