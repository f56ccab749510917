"""What stands for the SETUP and the requester of a peer that speaks another protocol than RSocket.

Guards get both with each connection: `setup_of` and `mute_requester` make them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NoReturn

import trio

from ..config import ConnectionConfig
from ..connection.connection import Connection
from ..errors import ConnectionClosed
from ..metadata.mime_types import MIME
from ..requester import Requester
from ..responder import Setup
from ..sealed import make
from ..sockets.peer import Peer
from ..stopping import Stopping
from ..transports.base import FrameTransport, TransportInfo

__all__ = ["mute_requester", "setup_of"]


def setup_of(
    peer: Peer,
    data_mime_type: str,
    *,
    transport: TransportInfo | None = None,
    stopping: Stopping | None = None,
    ours: bool = False,
) -> Setup:
    """Return the SETUP of a client that has sent no metadata in it.

    Args:
        peer: The client.
        data_mime_type: The MIME type of what the protocol carries.
        transport: Facts about the connection, if they are more than those of the peer.
        stopping: Tells that the connection is going to end; by default that of the peer.
        ours: We have opened the connection.
    """
    return Setup(
        data_mime_type=data_mime_type,
        metadata_mime_type=MIME.COMPOSITE_METADATA,
        keepalive_interval=inf,
        max_lifetime=inf,
        transport=transport or peer.transport,
        ours=ours,
        stopping=stopping or Stopping(peer._ending),  # noqa: SLF001 - not for applications
        peer=peer,
    )


def mute_requester(info: TransportInfo) -> Requester:
    """Return a requester whose connection is over: each request raises `ConnectionClosed`.

    Args:
        info: Facts about the connection of the peer.
    """
    connection = Connection(_NoTransport(info), ConnectionConfig(), client=False)
    connection.lifecycle.end(ConnectionClosed(f"a peer at {info.scheme}:// takes no requests"))
    return make(Requester, connection, MIME.COMPOSITE_METADATA, MIME.JSON)


class _NoTransport(FrameTransport):
    """Only the facts about a connection; it carries no frames."""

    def __init__(self, info: TransportInfo) -> None:
        self.info = info

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        _no_frames()

    async def receive_frames(self) -> list[bytes]:
        _no_frames()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _no_frames() -> NoReturn:
    raise trio.ClosedResourceError("no frames are carried here")
