"""What all connections of a client or a server share: `Host`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ..metadata.mime_types import MIME, check_mime_type
from ..repeating import Repeating
from ..responder import Responder
from ..sealed import make
from ..sockets.peer import Peer
from ..stopping import Stopping
from .connection.connection import Connection
from .connection.link import Link
from .extensions import Extension, Extensions
from .routed import accept_router
from .targets import Resolver, Served, is_acceptor, resolver_of

if TYPE_CHECKING:
    from ..protocol.repeats import Repeats
    from ..transports.base import FrameTransport
    from .config import RsioConfig

__all__ = ["Host"]


class Host:
    """Makes connections.

    Args:
        target: What the peers may subscribe to; ``None`` is nothing.
        config: Times, sizes and limits.
        extensions: The extensions of the protocol that we support.
        data_mime_type: The MIME type of the results of a Router; JSON by default.
        repeats: The policy for `RemotePublisher.first`; ``None``: each is asked once.

    Raises:
        TypeError: The target has no use for the MIME type, or an argument is of a wrong type.
        ValueError: The MIME type is none.
    """

    def __init__(
        self,
        target: Served | None,
        config: RsioConfig,
        extensions: Sequence[Extension],
        data_mime_type: str | None,
        repeats: Repeats | None = None,
    ) -> None:
        self.config: Final = config
        self._repeats: Final = repeats
        self._extensions: Final = Extensions(extensions)
        self._router: Final = isinstance(target, Responder) or is_acceptor(target)
        if data_mime_type is not None and not self._router:
            raise TypeError("data_mime_type= is for a Router only: publishers give bytes")
        self.target: Final = target
        mime_type: object = MIME.JSON if data_mime_type is None else data_mime_type
        self._data_mime_type: Final = check_mime_type(mime_type, "data_mime_type")

    async def begin(
        self, transport: FrameTransport, role: Literal["client", "server"]
    ) -> tuple[Link, Connection, Peer, AbstractAsyncContextManager[None] | None]:
        """Make a connection over a transport, which still has to be run, in the block.

        Raises:
            ConnectFailed: The guards of a Router refuse it, which is logged.

        Checkpoint: if there are guards to ask.
        If cancelled: the guards are cancelled.
        """
        resolve: Any = None
        block: AbstractAsyncContextManager[None] | None = None
        link = Link(transport, role, self.config, _not_yet, self._extensions.types)
        repeats = self._repeats
        repeating = None if repeats is None else Repeating(repeats, link.lifecycle.ended.is_set)
        connection = make(Connection, link, repeating)
        peer = Peer(transport.info)
        peer._serves(link.drain, link.publications.turn)  # noqa: SLF001 - not for applications
        if self._router:
            resolve, block = await accept_router(
                cast(Responder, self.target),
                transport.info,
                connection,
                peer,
                Stopping(link.lifecycle.drain_begun),
                self._data_mime_type,
                self.config.connect_timeout,
                ours=role == "client",
            )
        else:
            resolve = resolver_of(cast("Resolver | None", self.target))
        link.publications.resolve = lambda name: resolve(name, connection)
        self._extensions.attach(link, connection)
        return link, connection, peer, block

    async def refuse(self, transport: FrameTransport, role: Literal["client", "server"]) -> None:
        """Tell the peer that the guards refuse it.

        Checkpoint: always.
        If cancelled: the connection is closed.
        """
        link = Link(transport, role, self.config, _not_yet, {})
        link.goodbye("the connection was refused")
        await link.run()


def _not_yet(_name: str) -> None:
    return None
