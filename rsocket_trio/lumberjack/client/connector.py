"""Keeps one connection of a client: dials, ships, waits, and dials again: `Connector`."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

import trio

from ...errors import ConnectFailed
from ...log_policy import logger
from ...sockets.byte_stream import ByteStream
from ...sockets.dial import dial
from ...uri import shown
from .hosts import Host, Place
from .outgoing import Load, Outgoing

__all__ = ["Connector"]

_FAREWELL: Final = 1.0
"""Seconds for closing TLS in the proper way."""


class Connector:
    """Has a connection while there is something to send.

    Args:
        place: Which host is next, and when.
        load: What all connections share.
        ssl_context: See `connect`.
        failed: Called with the reason after each failure.

    Attributes:
        outgoing: The present connection.
        made: Connections that were made.
        place: As given.
    """

    def __init__(
        self,
        place: Place,
        load: Load,
        ssl_context: ssl.SSLContext | None,
        failed: Callable[[str], None],
    ) -> None:
        self.outgoing: Outgoing | None = None
        self.made = 0
        self.place: Final = place
        self._load: Final = load
        self._ssl_context: Final = ssl_context
        self._failed: Final = failed

    async def run(self) -> None:
        """Ship until cancelled.

        Checkpoint: where it waits.
        If cancelled: the connection is closed.
        """
        place, load = self.place, self._load
        while True:
            await load.bell.wait_until(lambda: load.backlog.waiting)
            await trio.sleep_until(max(place.not_before, trio.current_time()))
            if not load.backlog.waiting:
                continue
            try:
                stream = await self._dial(place.host)
            except ConnectFailed as error:
                place.failed(trio.current_time())
                logger.warning("%s; events that wait: %d", error, load.backlog.waiting)
                self._failed(str(error))
            else:
                await self._ship(stream, place.host)

    async def _dial(self, host: Host) -> ByteStream:
        timeout = self._load.config.connect_timeout
        with trio.move_on_after(timeout):
            return await dial(
                host.uri, _as_it_is, ssl_context=self._ssl_context, handshake_timeout=timeout
            )
        raise ConnectFailed(
            f"cannot connect to {shown(host.uri)}: not connected within {timeout:g} s "
            "(connect_timeout)"
        )

    async def _ship(self, stream: ByteStream, host: Host) -> None:
        """Use one connection, from its begin to its end."""
        logger.info("connected to %s again" if self.made else "connected to %s", shown(host.uri))
        self.made += 1
        began = trio.current_time()
        outgoing = self.outgoing = Outgoing(stream.stream, self._load, host.window)
        try:
            await outgoing.run()
            if outgoing.trouble is None:
                with trio.move_on_after(_FAREWELL):
                    await stream.aclose()
        finally:
            self.outgoing = None
            await trio.aclose_forcefully(stream)
        self._ended(outgoing, host, began)

    def _ended(self, outgoing: Outgoing, host: Host, began: float) -> None:
        now = trio.current_time()
        if outgoing.trouble is None:
            logger.debug("closed the connection to %s: its time is over", shown(host.uri))
            self.place.closed()
            return
        if outgoing.busy:
            host.window.trouble()
            logger.warning(
                "the connection to %s is lost: %s; events that are sent again: %d",
                shown(host.uri),
                outgoing.trouble,
                outgoing.returned,
            )
        else:
            logger.info("the connection to %s is over: %s", shown(host.uri), outgoing.trouble)
        self.place.lost(
            now, now - began, useful=outgoing.flight.acknowledged > 0, idle=not outgoing.busy
        )
        if self.place.failures:
            self._failed(f"the connection to {shown(host.uri)} is lost: {outgoing.trouble}")


async def _as_it_is(stream: ByteStream) -> ByteStream:
    return stream
