"""A connected stream, and the facts about it: `ByteStream`, `TransportInfo`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs
import trio

from ..escapes import names_only
from ..uri import AddressKind, Uri, kind_of, shown, without_query
from .direct import DirectStream, direct
from .socket_facts import facts_about, socket_addresses
from .tapped import TappedStream, tap
from .tls import peer_certificate
from .tls_stream import TLSStream

__all__ = ["ByteStream", "TransportInfo", "connected"]


@attrs.frozen(kw_only=True)
class TransportInfo:
    """Facts about a connection, for acceptors, handlers and logs.

    Attributes:
        scheme: The scheme of the address, e.g. ``tcp``, ``tls``, ``unix`` or ``ws``; or
            ``memory``.
        peer: The peer's address as text (``host:port``, vsock ``cid:port``, or the path of a Unix
            socket); empty if it has none.
        local: Our own address as text; empty if there is none.
        listener: On a server: the address given to `serve` that the client connected to, with its
            real port; empty for your own transport.
        path: WebSocket: the path of the request, with its query; else empty.
        headers: WebSocket: the headers of the handshake request, names in lower case, in order.
        extra: Other facts: with TLS ``peer_certificate``, on Unix sockets ``peer_credentials``
            (`rsocket_trio.sockets.socket_facts.PeerCredentials`, or ``None`` if the kernel does not
            say), on vsock ``peer_cid``.
    """

    scheme: str
    peer: str = ""
    local: str = ""
    listener: str = attrs.field(default="", repr=shown)
    path: str = attrs.field(default="", repr=without_query)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=names_only)
    extra: Mapping[str, object] = attrs.field(factory=dict)

    def header(self, name: str) -> str | None:
        """Return the first header of that name (any case), or ``None``."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)


class ByteStream(trio.abc.AsyncResource):
    """A connected stream, after its TLS handshake if it has one.

    Attributes:
        stream: Carries the bytes.
        info: Facts about the connection.
    """

    def __init__(self, stream: trio.abc.Stream, info: TransportInfo) -> None:
        self.stream = stream
        self.info = info

    def detach(self) -> None:
        """Use the socket no more, but leave it open: another owner closes it."""
        if isinstance(self.stream, DirectStream | TLSStream | TappedStream):
            self.stream.detach()

    async def aclose(self) -> None:
        """Close the stream.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        await self.stream.aclose()


async def connected(
    stream: trio.SocketStream,
    uri: Uri,
    *,
    dialled: bool,
    start_tls: Callable[[trio.SocketStream], Awaitable[TLSStream]],
    listener: str = "",
) -> ByteStream:
    """Begin TLS if the address asks for it, and collect the facts about the connection.

    Args:
        stream: A connected stream. It is left open on failure.
        uri: The server's address.
        dialled: Whether we are the client.
        start_tls: Our half of the TLS handshake.
        listener: See `TransportInfo.listener`.

    Raises:
        trio.BrokenResourceError: The connection broke, or the TLS handshake failed.

    Checkpoint: if there is a handshake.
    If cancelled: you can only close the stream then.
    """
    extra = facts_about(stream)
    if uri.is_file:
        local, peer = ("", uri.path) if dialled else (uri.path, "")
    elif kind_of(uri) is AddressKind.HYBRID_VSOCK:
        local, peer = "", f"{uri.path}:{uri.port}"
    else:
        local, peer = socket_addresses(stream)
    carrier: trio.abc.HalfCloseableStream
    if uri.is_encrypted:
        carrier = secure = await start_tls(stream)
        extra["peer_certificate"] = peer_certificate(secure)
    else:
        carrier = direct(stream)
    info = TransportInfo(scheme=uri.scheme, peer=peer, local=local, listener=listener, extra=extra)
    listens = tap.get()
    if listens is not None:
        carrier = TappedStream(carrier, listens.connection(info, dialled=dialled))
    return ByteStream(carrier, info)
