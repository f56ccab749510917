"""Ways to reach an implementation under test: `Dialled` for servers, `Accepted` for clients."""

from __future__ import annotations

import socket
import ssl
from typing import Final

import attrs
import trio

from .probe import Role
from .verdicts import Failed

__all__ = ["Accepted", "Dialled"]

_ALPN: Final = "rsio/0"
_CONNECT_SECONDS: Final = 10.0
_RECEIVE_BUFFER: Final = 32_768
"""Octets that the system keeps of what nobody reads: few, for tests have to read them later."""


@attrs.frozen
class Dialled:
    """A server, to which we connect by TCP.

    Attributes:
        host: Its name or address.
        port: Its port.
        ssl_context: For TLS; ``None`` for plain TCP. It is told to offer ``rsio/0``.
        pid: The number of its process, if that runs on this machine.
    """

    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    pid: int | None = None
    role: Role = attrs.field(default="server", init=False)

    @property
    def encrypted(self) -> bool:
        """Whether connections have TLS."""
        return self.ssl_context is not None

    async def connect(self) -> trio.abc.Stream:
        """Return a new connection.

        Raises:
            Failed: There is none.
        """
        try:
            with trio.fail_after(_CONNECT_SECONDS):
                stream = await trio.open_tcp_stream(self.host, self.port)
        except (OSError, trio.TooSlowError) as error:
            raise Failed(f"cannot connect to {self.host} port {self.port}: {error}") from error
        _keep_little(stream)
        if self.ssl_context is None:
            return stream
        self.ssl_context.set_alpn_protocols([_ALPN])
        encrypted = trio.SSLStream(
            stream, self.ssl_context, server_hostname=self.host, https_compatible=True
        )
        try:
            with trio.fail_after(_CONNECT_SECONDS):
                await encrypted.do_handshake()
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            await trio.aclose_forcefully(stream)
            raise Failed(f"the TLS handshake failed: {error.__cause__ or error}") from error
        return encrypted


@attrs.frozen
class Accepted:
    """A client, which connects to us again and again.

    Attributes:
        listener: Where it connects to.
        pid: The number of its process, if that runs on this machine.
        patience: How long to wait for its next connection, in seconds.
    """

    listener: trio.SocketListener
    pid: int | None = None
    patience: float = 30.0
    role: Role = attrs.field(default="client", init=False)
    encrypted: bool = attrs.field(default=False, init=False)

    async def connect(self) -> trio.abc.Stream:
        """Return the next connection of the client.

        Raises:
            Failed: It does not connect.
        """
        try:
            with trio.fail_after(self.patience):
                stream = await self.listener.accept()
        except trio.TooSlowError:
            raise Failed(f"the client did not connect within {self.patience:g} s") from None
        _keep_little(stream)
        return stream


def _keep_little(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
