"""The facts about a call, for handlers and interceptors: `Call`."""

from __future__ import annotations

from typing import Any

import attrs

from ...escapes import names_only
from ...sockets.byte_stream import TransportInfo
from ...sockets.peer import PeerCredentials
from ...stopping import Stopping
from ..metadata import Metadata, values_of
from ..methods import Method

__all__ = ["Call"]


@attrs.frozen(kw_only=True)
class Call:
    """The facts about a call; a parameter of a handler with this annotation receives them.

    Attributes:
        method: The method.
        metadata: The metadata of the call, in order.
        deadline: When the client stops waiting, by trio's clock; infinity if it did not say. The
            handler is cancelled then.
        transport: Facts about the connection.
        stopping: Tells when the server stops, for calls that would go on for long.
        attributes: A dict for interceptors, which handlers can read.
    """

    method: Method[Any, Any]
    metadata: Metadata = attrs.field(default=(), repr=names_only)
    deadline: float = float("inf")
    transport: TransportInfo
    stopping: Stopping = attrs.field(factory=Stopping, repr=False, eq=False)
    attributes: dict[str, Any] = attrs.field(factory=dict, repr=lambda d: names_only(d.items()))

    def values(self, key: str) -> list[str]:
        """Return the metadata values of a key, in order; case makes a difference."""
        return values_of(self.metadata, key)

    @property
    def peer(self) -> PeerCredentials | None:
        """The client's process and user on a Unix socket; ``None`` if the kernel cannot say."""
        peer = self.transport.extra.get("peer_credentials")
        return peer if isinstance(peer, PeerCredentials) else None
