"""A requester for peers that take no requests: `mute_requester`.

Guards get a `Requester` with each connection. The senders of other protocols answer no requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import trio

from ..config import ConnectionConfig
from ..connection.connection import Connection
from ..errors import ConnectionClosed
from ..metadata.mime_types import MIME
from ..requester import Requester
from ..sealed import make
from ..transports.base import FrameTransport, TransportInfo

__all__ = ["mute_requester"]


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
