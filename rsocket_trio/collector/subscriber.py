"""Events of publishers into the spool: `Subscriber`."""

from __future__ import annotations

import random
import ssl
from typing import Final

import trio

from ..errors import RSocketError
from ..escapes import cut
from ..log_policy import logger
from ..protocol.retry import Retry
from ..spool import SpoolError
from .feeds import Feed, source_of
from .gathering import Gathering, batches_of
from .ingest import Ingest
from .ingest_config import IngestConfig
from .messages import SubscriptionStatistics
from .own_metadata import own_metadata
from .storage import Storage
from .subscriptions import Subscription

__all__ = ["Subscriber"]

_FIRST_SIZE: Final = 2**20
"""Bytes that an event is taken to have before the first one has come."""
_LEAST_SIZE: Final = 2**14
"""Bytes that an event is taken to have at least, as a larger one may follow."""
_MAX_TROUBLE: Final = 300
"""Characters of an error that the status shows: the publisher may send megabytes."""


class Subscriber:
    """Follows a subscription: connects, and connects again, and stores what comes.

    The publisher may send an event only if there was credit for it, and credit is given as events
    become durable. So a full spool stops the publisher. If the connection is lost, the events on
    the way are lost too: what the publisher sends next is its own decision.

    Args:
        subscription: The address and the route.
        storage: Where to store the events.
        ingest: Ends the wait for events when the collector stops.
        config: How events form batches.
        retry: The waits before the next attempt.
        ssl_context: TLS, for addresses with TLS.

    Attributes:
        over: Set when the subscription has ended.
    """

    def __init__(
        self,
        subscription: Subscription,
        storage: Storage,
        ingest: Ingest,
        config: IngestConfig,
        retry: Retry,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self._subscription: Final = subscription
        self._storage: Final = storage
        self._ingest: Final = ingest
        self._config: Final = config
        self._retry: Final = retry
        self._mime_type: Final = subscription.mime_type
        self._source: Final = source_of(subscription, config, ssl_context)
        self._state = "connecting"
        self._events = 0
        self._connections = 0
        self._trouble: str | None = None
        self._event_size = _FIRST_SIZE
        self.over: Final = trio.Event()

    def statistics(self) -> SubscriptionStatistics:
        """Return numbers about the subscription."""
        return SubscriptionStatistics(
            subscription=str(self._subscription),
            state=self._state,
            events=self._events,
            connections=self._connections,
            trouble=self._trouble,
        )

    async def run(self) -> None:
        """Follow the subscription until its stream is complete, or the collector stops."""
        try:
            await self._run()
        except SpoolError as error:  # the collector ends with it, if it has failed for good
            self._trouble = str(error)
        finally:
            self._state = "ended"
            self.over.set()

    async def _run(self) -> None:
        stopping, subscription = self._storage.stopping, self._subscription
        delays = self._retry.delays(random.random)
        while not stopping.is_set():
            before = self._events
            self._state = "connecting"
            try:
                await self._follow()
            except SpoolError:
                raise
            except RSocketError as error:
                # A publisher may repeat the route, whose query may be a secret.
                told = str(error).replace(subscription.route, subscription.shown_route)
                self._trouble = cut(told, _MAX_TROUBLE)
            else:
                if not stopping.is_set():
                    self._trouble = "the publisher has completed its stream"
                    logger.info("%s: %s", self._subscription, self._trouble)
                break
            if self._events > before:
                delays = self._retry.delays(random.random)
            delay = next(delays, None)
            if delay is None:
                logger.error("%s: %s; giving up", self._subscription, self._trouble)
                break
            self._state = "waiting"
            logger.warning(
                "%s: %s; the next attempt is in %.1f s, and events that the publisher sends "
                "meanwhile may be lost",
                self._subscription,
                self._trouble,
                delay,
            )
            with trio.move_on_after(delay):
                await stopping.wait()

    async def _follow(self) -> None:
        """Connect, and store what comes until the stream ends.

        Raises:
            RSocketError: The connection or the stream has failed.
        """
        with self._ingest.until_stopped() as connected:
            async with self._source.connected() as link:
                connected()  # From here on there may be events, which are stored first.
                granted = self._window()
                async with link.opened(granted) as feed:
                    self._connections += 1
                    self._state, self._trouble = "open", None
                    await self._store(feed, granted)

    async def _store(self, feed: Feed, granted: int) -> None:
        gathering = Gathering(feed.stream, self._config)
        data_type = self._mime_type
        while True:
            gathering.most = granted
            more = await self._ingest.fill(gathering)
            # A larger event may come again; smaller ones are believed step by step.
            self._event_size = max(gathering.largest, self._event_size // 2, _LEAST_SIZE)
            items = []
            for payload in gathering.take():
                item = own_metadata(payload, data_type, feed.metadata_type)
                data_type = item.mime_type
                items.append(item)
            await self._storage.append_or_drop(
                batches_of(items, feed.facts), str(self._subscription)
            )
            self._events += len(items)
            granted -= len(items)
            if not more:
                if items:
                    continue
                return
            credit = self._window() - granted
            # By halves of the window, as each grant is a frame.
            if credit * 2 >= self._window():
                feed.stream.request_n(credit)
                granted += credit

    def _window(self) -> int:
        """Return how many events may be on the way."""
        most = self._config.max_granted_size // self._event_size
        return max(min(most, self._config.max_granted_events), 1)
