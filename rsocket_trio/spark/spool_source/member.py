"""The connection to one collector, kept for as long as a query runs: `Member`."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import trio

from ...collector import CollectorClient, SpoolInfo, connect_collector
from ...errors import ConnectionClosed, RSocketError, StreamError
from ...log_policy import logger
from ...metadata import Authentication
from ...spool import OffsetNotStored, OffsetTrimmed, WrongSpool
from .addresses import Address

__all__ = ["Member", "Need", "Reader"]

RETRY_PAUSE: Final = 0.25
"""Seconds until the next attempt to connect; twice as long after each one that has failed."""

LONGEST_PAUSE: Final = 2.0
"""Of these. With hundreds of addresses where nobody is, attempts would take a core."""

CONNECT_TIMEOUT: Final = 15.0
"""Seconds for a connection and its first answer."""

ANSWER_TIMEOUT: Final = 15.0
"""Seconds for the answer to a later question."""

_BEGIN_ATTEMPTS: Final = 5


class Reader(NamedTuple):
    """Who reads: an instance of a consumer, and how long it may be away."""

    consumer: str
    instance: str
    lease: float


class Need(NamedTuple):
    """A reader needs the events from an offset on.

    Attributes:
        offset: The offset.
        epoch: The epoch that the spool has up to there, if it is known.
    """

    offset: int
    epoch: str | None = None


class _Position(NamedTuple):
    """What a collector was told."""

    reader: Reader
    need: Need
    spool_id: str


class Member:
    """A collector, as its reader knows it.

    Args:
        at: Its address.
        make_context: Makes the TLS context.
        warn_after: Seconds without a connection, until there is a line in the log.
        auth: The credentials.

    Attributes:
        info: What it said last, or None if it has not been reached.
        asked: The epoch that ``info.epoch_end`` is about, or None.
        client: Its connection, or None.
        trouble: Why there is no connection.
        named: Whether it is one of the collectors of the query. One that is not any more is read
            as long as its connection lives.
    """

    def __init__(
        self,
        at: Address,
        make_context: Callable[[], ssl.SSLContext | None],
        warn_after: float,
        auth: Authentication | None = None,
    ) -> None:
        self.at: Final = at
        self.named = True
        self.info: SpoolInfo | None = None
        self.asked: str | None = None
        self.client: CollectorClient | None = None
        self.trouble: Exception | None = None
        self._make_context: Final = make_context
        self._warn_after: Final = warn_after
        self._auth: Final = auth
        self._lost_at = trio.current_time()
        self._warned = False
        self._told: _Position | None = None
        self._scope: Final = trio.CancelScope()

    @property
    def spool_id(self) -> str | None:
        """The spool that it had when it was reached last."""
        return None if self.info is None else self.info.spool_id

    @property
    def state(self) -> str:
        """What an error tells about it."""
        if self.client is not None and self.info is not None:
            return f"{self.at} has the spool {self.info.spool_id}"
        return f"{self.at} cannot be reached ({self.trouble or 'it has not answered yet'})"

    def leave(self) -> None:
        """Be named no more: the connection is the last one."""
        self.named = False
        if self.client is None:
            self._scope.cancel(reason="a collector that is not named any more is not dialled")

    async def keep(self, changed: Callable[[], None]) -> None:
        """Connect, and connect again each time that the connection is lost, until `leave`.

        Args:
            changed: Called when there is a connection.
        """
        pause = RETRY_PAUSE
        with self._scope:
            while True:
                trouble: Exception
                known = self.info
                try:
                    await self._connect(changed)
                except (RSocketError, OSError) as error:
                    trouble = error
                else:
                    trouble = trio.TooSlowError(f"no answer within {CONNECT_TIMEOUT:g} s")
                if not self.named:
                    return
                self._note(trouble)
                if self.info is not known:
                    pause = RETRY_PAUSE  # It was there.
                await trio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _connect(self, changed: Callable[[], None]) -> None:
        """Be connected; return after the timeout.

        Raises:
            RSocketError, OSError: There is no connection, or it is lost.
        """
        with trio.CancelScope(deadline=trio.current_time() + CONNECT_TIMEOUT) as scope:
            context = self._make_context()
            async with connect_collector(
                self.at.uri, address=self.at.ip, ssl_context=context, auth=self._auth
            ) as client:
                self._note_info(await client.info(), None)
                await self._tell_again(client)
                scope.deadline = math.inf
                self.client, self.trouble = client, None
                if self._warned:
                    logger.warning("%s: the collector can be reached again", self.at)
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
            await self._commit(client, *told)
        except (OffsetTrimmed, OffsetNotStored, WrongSpool):
            pass  # The facts tell what was lost.
        except StreamError as error:
            self._refused(error)

    async def _commit(
        self,
        client: CollectorClient,
        reader: Reader,
        need: Need,
        spool_id: str,
    ) -> None:
        self._told = _Position(reader, need, spool_id)
        consumer, instance, lease = reader
        offset, epoch = need
        info = await client.commit(
            consumer, offset, instance=instance, spool_id=spool_id, lease=lease, epoch=epoch
        )
        self._note_info(info, epoch)

    def _note_info(self, info: SpoolInfo, asked: str | None) -> None:
        self.info, self.asked = info, asked

    def _note(self, trouble: Exception) -> None:
        self.trouble = trouble
        lost_for = trio.current_time() - self._lost_at
        if not self._warned and lost_for >= self._warn_after:
            self._warned = True
            logger.warning(
                "%s: the collector cannot be reached since %.0f s; the query goes on with the"
                " others, and reads its events when it is back: %s",
                self.at, lost_for, trouble,
            )  # fmt: skip

    async def ask(self, reader: Reader, need: Need | None, epoch: str | None) -> None:
        """Ask what the spool holds, and say which events are not needed any more.

        Args:
            reader: Who reads.
            need: What is needed, or None.
            epoch: The epoch that is asked about, or None.

        Checkpoint: always.
        If cancelled: the position may be stored or not.
        """
        client, known = self.client, self.info
        if client is None or known is None:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(ANSWER_TIMEOUT) as scope:
            await self._ask(client, reader, need, epoch, known.spool_id)
        if scope.cancelled_caught:
            self._silent()

    async def _ask(
        self,
        client: CollectorClient,
        reader: Reader,
        need: Need | None,
        epoch: str | None,
        spool_id: str,
    ) -> None:
        try:
            if need is not None:
                await self._commit(client, reader, need, spool_id)
                if need.epoch == epoch:
                    return
        except (OffsetTrimmed, OffsetNotStored, WrongSpool):
            pass  # The new facts tell what was lost.
        except RSocketError as error:
            self._refused(error)
            return
        try:
            self._note_info(await client.info(epoch=epoch), epoch)
        except RSocketError as error:
            self._refused(error)

    def _refused(self, error: RSocketError) -> None:
        if not isinstance(error, ConnectionClosed):
            logger.warning("%s: the collector refused a request: %s", self.at, error)

    def _silent(self) -> None:
        logger.warning(
            "%s: the collector has not answered a request for %g s", self.at, ANSWER_TIMEOUT
        )

    async def look(self, **asked: Any) -> SpoolInfo | None:
        """Ask for more about what is stored, e.g. how far a number of bytes reaches.

        Args:
            asked: As for `CollectorClient.info`.

        Returns:
            The answer; None if there was none.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        client = self.client
        if client is None:
            await trio.lowlevel.checkpoint()
            return None
        try:
            with trio.move_on_after(ANSWER_TIMEOUT):
                return await client.info(**asked)
        except RSocketError as error:
            self._refused(error)
            return None
        self._silent()
        return None

    async def begin(self, reader: Reader, spool_id: str, position: int | None) -> Need | None:
        """Make sure that the spool keeps its events from a position on.

        Args:
            reader: Who reads.
            spool_id: The spool.
            position: An offset, or None for the first one that is kept.

        Returns:
            The position, or the oldest offset if that is later, with the epoch; None if there was
            no answer, or the collector has another spool now.

        Checkpoint: always.
        If cancelled: the position may be stored or not.
        """
        for _ in range(_BEGIN_ATTEMPTS):
            await self.ask(reader, None, None)
            info, client = self.info, self.client
            if info is None or client is None or info.spool_id != spool_id:
                return None
            first = info.oldest if position is None else max(position, info.oldest)
            wanted = Need(first, info.epoch)
            try:
                with trio.move_on_after(ANSWER_TIMEOUT):
                    await self._commit(client, reader, wanted, spool_id)
                    return wanted
            except (OffsetTrimmed, OffsetNotStored, WrongSpool):
                continue  # The retention was faster, or the spool is another one.
            except RSocketError as error:
                self._refused(error)
                return None
            self._silent()
            return None
        return None
