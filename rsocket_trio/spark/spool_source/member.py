"""The connection to one collector, kept for as long as a query runs: `Member`."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple, Never

import trio

from ...collector import CollectorClient, SpoolInfo, connect_collector
from ...errors import ConnectionClosed, RSocketError, StreamError
from ...log_policy import logger
from ...metadata import Authentication
from ...spool import OffsetNotStored, OffsetTrimmed, WrongSpool
from ...uri import shown

__all__ = ["Member"]

RETRY_PAUSE: Final = 0.25
"""Seconds until the next attempt to connect."""

CONNECT_TIMEOUT: Final = 15.0
"""Seconds for a connection and its first answer."""

ANSWER_TIMEOUT: Final = 15.0
"""Seconds for the answer to a later question."""

_BEGIN_ATTEMPTS: Final = 5


class _Position(NamedTuple):
    """What a collector was told: an instance of a consumer needs the events from an offset on."""

    consumer: str
    instance: str
    offset: int
    spool_id: str


class Member:
    """A collector, as its reader knows it.

    Args:
        uri: Its address.
        make_context: Makes the TLS context.
        warn_after: Seconds without a connection, until there is a line in the log.
        auth: The credentials.

    Attributes:
        info: What it said last, or None if it has not been reached.
        client: Its connection, or None.
        trouble: Why there is no connection.
    """

    def __init__(
        self,
        uri: str,
        make_context: Callable[[], ssl.SSLContext | None],
        warn_after: float,
        auth: Authentication | None = None,
    ) -> None:
        self.uri: Final = uri
        self.info: SpoolInfo | None = None
        self.client: CollectorClient | None = None
        self.trouble: Exception | None = None
        self._make_context: Final = make_context
        self._warn_after: Final = warn_after
        self._auth: Final = auth
        self._lost_at = trio.current_time()
        self._warned = False
        self._told: _Position | None = None

    @property
    def spool_id(self) -> str | None:
        """The spool that it had when it was reached last."""
        return None if self.info is None else self.info.spool_id

    @property
    def state(self) -> str:
        """What an error tells about it."""
        if self.client is not None and self.info is not None:
            return f"{shown(self.uri)} has the spool {self.info.spool_id}"
        return f"{shown(self.uri)} cannot be reached ({self.trouble or 'it has not answered yet'})"

    async def keep(self, changed: Callable[[], None]) -> Never:
        """Connect, and connect again each time that the connection is lost.

        Args:
            changed: Called when there is a connection.
        """
        while True:
            trouble: Exception
            try:
                await self._connect(changed)
            except (RSocketError, OSError) as error:
                trouble = error
            else:
                trouble = trio.TooSlowError(f"no answer within {CONNECT_TIMEOUT:g} s")
            self._note(trouble)
            await trio.sleep(RETRY_PAUSE)

    async def _connect(self, changed: Callable[[], None]) -> None:
        """Be connected; return after the timeout.

        Raises:
            RSocketError, OSError: There is no connection, or it is lost.
        """
        with trio.CancelScope(deadline=trio.current_time() + CONNECT_TIMEOUT) as scope:
            context = self._make_context()
            async with connect_collector(self.uri, ssl_context=context, auth=self._auth) as client:
                self.info = await client.info()
                await self._tell_again(client)
                scope.deadline = math.inf
                self.client, self.trouble = client, None
                if self._warned:
                    logger.warning("%s: the collector can be reached again", shown(self.uri))
                    self._warned = False
                changed()
                try:
                    await client.requester.wait_closed()
                finally:
                    self.client = None
                    self._lost_at = trio.current_time()
                raise ConnectionClosed("the connection was lost")

    async def _tell_again(self, client: CollectorClient) -> None:
        """Repeat the position, as at the collector it was one of the connection that is over.

        Spark may ask for nothing for hours, while it works on a batch.

        Raises:
            ConnectionClosed: The new connection is over too.
        """
        told = self._told
        if told is None:
            return
        try:
            self.info = await client.commit(
                told.consumer, told.offset, instance=told.instance, spool_id=told.spool_id
            )
        except (OffsetTrimmed, OffsetNotStored, WrongSpool):
            pass  # The facts tell what was lost.
        except StreamError as error:
            self._refused(error)

    async def _commit(
        self, client: CollectorClient, consumer: str, instance: str, offset: int, spool_id: str
    ) -> None:
        self._told = _Position(consumer, instance, offset, spool_id)
        self.info = await client.commit(consumer, offset, instance=instance, spool_id=spool_id)

    def _note(self, trouble: Exception) -> None:
        self.trouble = trouble
        lost_for = trio.current_time() - self._lost_at
        if not self._warned and lost_for >= self._warn_after:
            self._warned = True
            logger.warning(
                "%s: the collector cannot be reached since %.0f s; the query goes on with the"
                " others, and reads its events when it is back: %s",
                shown(self.uri), lost_for, trouble,
            )  # fmt: skip

    async def ask(self, consumer: str, instance: str, position: int | None) -> None:
        """Ask what the spool holds, and say which events are not needed any more.

        Args:
            consumer: The name of the consumer.
            instance: The name of this reader.
            position: The first offset that is needed, or None.

        Checkpoint: always.
        If cancelled: the position may be stored or not.
        """
        client, known = self.client, self.info
        if client is None or known is None:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(ANSWER_TIMEOUT) as scope:
            await self._ask(client, consumer, instance, position, known.spool_id)
        if scope.cancelled_caught:
            self._silent()

    async def _ask(
        self,
        client: CollectorClient,
        consumer: str,
        instance: str,
        position: int | None,
        spool_id: str,
    ) -> None:
        try:
            if position is not None:
                await self._commit(client, consumer, instance, position, spool_id)
                return
        except (OffsetTrimmed, OffsetNotStored, WrongSpool):
            pass  # The new facts tell what was lost.
        except RSocketError as error:
            self._refused(error)
            return
        try:
            self.info = await client.info()
        except RSocketError as error:
            self._refused(error)

    def _refused(self, error: RSocketError) -> None:
        if not isinstance(error, ConnectionClosed):
            logger.warning("%s: the collector refused a request: %s", shown(self.uri), error)

    def _silent(self) -> None:
        logger.warning(
            "%s: the collector has not answered a request for %g s", shown(self.uri), ANSWER_TIMEOUT
        )

    async def reach(self, offset: int, size: int) -> int | None:
        """Ask how far a number of bytes reaches from an offset on.

        Returns:
            An offset; None if there was no answer.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        client = self.client
        if client is None:
            await trio.lowlevel.checkpoint()
            return None
        try:
            with trio.move_on_after(ANSWER_TIMEOUT):
                return (await client.info(reach_from=offset, reach_size=size)).reach
        except RSocketError as error:
            self._refused(error)
            return None
        self._silent()
        return None

    async def begin(
        self, consumer: str, instance: str, spool_id: str, position: int | None
    ) -> int | None:
        """Make sure that the spool keeps its events from a position on.

        Args:
            consumer: The name of the consumer.
            instance: The name of this reader.
            spool_id: The spool.
            position: An offset, or None for the first one that is kept.

        Returns:
            The position, or the oldest offset if that is later; None if there was no answer, or the
            collector has another spool now.

        Checkpoint: always.
        If cancelled: the position may be stored or not.
        """
        for _ in range(_BEGIN_ATTEMPTS):
            await self.ask(consumer, instance, None)
            info, client = self.info, self.client
            if info is None or client is None or info.spool_id != spool_id:
                return None
            wanted = info.oldest if position is None else max(position, info.oldest)
            try:
                with trio.move_on_after(ANSWER_TIMEOUT):
                    await self._commit(client, consumer, instance, wanted, spool_id)
                    return wanted
            except (OffsetTrimmed, OffsetNotStored, WrongSpool):
                continue  # The retention was faster, or the spool is another one.
            except RSocketError as error:
                self._refused(error)
                return None
            self._silent()
            return None
        return None
