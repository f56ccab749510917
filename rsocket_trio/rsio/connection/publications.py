"""The subscriptions of the peer to our publishers: `Publications`.

A resolver finds the publisher by its name. If it has to wait, it does so in a task of its own,
which the peer's cancel cancels.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import trio

from ...account import Account
from ...interactions.isolation import failure_of, outcome_of
from ...interactions.leftovers import isolated
from ...log_policy import logger
from ...reactive_streams.pumps import from_async_iterable
from ...sockets.peer import Turn
from ..errors import PublisherError
from ..fixed_size import fixed_size
from .held import Held
from .publication import Publication

if TYPE_CHECKING:
    from ...reactive_streams.interfaces import Publisher
    from ..config import RsioConfig
    from ..rules.session import Session
    from .send_queue import SendQueue

__all__ = ["Publications", "Resolve"]

Resolve: TypeAlias = "Callable[[str], Publisher[Any] | Awaitable[Publisher[Any] | None] | None]"
"""Finds the publisher of a name; ``None`` if there is none."""

UNKNOWN: Final = "unknown publisher"
STOPPING: Final = "the connection is being closed"


class Publications:
    """All of them, by the ids of their streams.

    Attributes:
        session: The rules of the connection.
        queue: Takes the messages.
        config: Times, sizes and limits.
        resolve: Finds publishers.
        nursery: For resolvers that wait, and for async iterables; set while the connection runs.
        by_id: Those that are open.
        waiting: The octets of all elements that wait to be sent.
        max_queued_size: Past it, only streams without an element are asked for more, and for few.
        opened: How many there were since the start.
        turn: Gets the time at which the subscription came whose resolver is called.
        read_at: When the messages were read that are handled now, by trio's clock.
        draining: New ones are refused.
        encode: An extension's change of the elements of streams that begin.
        on_ended: Called when one has ended. The connection sets it while it drains.
    """

    def __init__(
        self, session: Session, queue: SendQueue, config: RsioConfig, resolve: Resolve
    ) -> None:
        self.session: Final = session
        self.queue: Final = queue
        self.config: Final = config
        self.resolve = resolve
        self.nursery: trio.Nursery | None = None
        self.by_id: dict[int, Publication] = {}
        self.waiting: Final = Account(
            config.max_answers_size, "RsioConfig.max_answers_size", "of elements wait to be sent"
        )
        self.max_queued_size: Final = 16 * config.max_ahead_size
        self.opened = 0
        self.turn: Final = Turn()
        self.read_at = 0.0
        self.draining = False
        self.encode: Callable[[bytes], bytes] | None = None
        self.on_ended: Callable[[], object] | None = None
        self._held: Final = Held(queue, self._find)
        self._tasks = 0  # of resolvers and sources, also of streams that are over

    def subscribe(self, stream_id: int, name: str, demand: int, *, excess: bool) -> None:
        """The peer subscribes to a publisher of ours."""
        limit = self.config.limits.max_subscriptions
        # Cancelled resolvers and sources may take long to end: there are as many of them at most.
        excess = excess or self._tasks >= 2 * limit
        if excess or self.draining:
            text = f"more than {limit} subscriptions are open" if excess else STOPPING
            self.queue.put_reply(self.session.refuse(stream_id, text))
            return
        self.opened += 1
        publication = Publication(self, stream_id, name, demand)
        self.by_id[stream_id] = publication
        if self.queue.clogged or self._held.has_more:
            self._held.add(publication)
        else:
            self._find(publication)

    def _find(self, publication: Publication) -> None:
        """Ask the resolver."""
        self.turn.arrived = publication.arrived
        try:
            found = self.resolve(publication.name)
        except BaseException as error:  # any error of the application ends this stream only
            self._refuse(publication, outcome_of(error))
            return
        if isinstance(found, Awaitable):
            self._start(self._begin_later, publication, found)
        else:
            self._begin(publication, found)

    async def _begin_later(self, publication: Publication, found: Awaitable[Any]) -> None:
        """Wait for the resolver.

        Checkpoint: as the resolver does.
        If cancelled: the resolver is cancelled.
        """
        publisher: object = None

        async def wait() -> None:
            nonlocal publisher
            publisher = await found

        with trio.CancelScope() as scope:
            publication.scope = scope
            if not publication.live:
                scope.cancel(reason="the peer wants no more of this stream")
            error = await isolated(wait)
            if error is not None:
                self._refuse(publication, failure_of(error))
                return
        publication.scope = None
        if not scope.cancelled_caught:
            self._begin(publication, publisher)

    def _begin(self, publication: Publication, found: object) -> None:
        if not publication.live:
            return
        try:
            publication.begin(self._publisher(found))
        except BaseException as error:  # any error of the application ends this stream only
            self._refuse(publication, outcome_of(error))

    def _publisher(self, found: object) -> Publisher[Any]:
        if found is None:
            raise PublisherError(UNKNOWN)
        if hasattr(found, "subscribe"):
            return cast("Publisher[Any]", found)
        if isinstance(found, AsyncIterable):
            publisher = from_async_iterable(found, cast("trio.Nursery", self))
            size = getattr(found, "element_size", 0)
            return fixed_size(publisher, size) if size else publisher
        kind = type(found).__name__
        raise TypeError(f"a resolver must return a Publisher or None, not {kind}")

    def _refuse(self, publication: Publication, error: Exception) -> None:
        """Answer with an error, as the first and only signal."""
        if publication.live:
            publication.begun = True
            self.queue.put_reply(self.session.subscribed(publication.stream_id, 0))
            publication.on_error(error)

    @property
    def parent_task(self) -> trio.lowlevel.Task:
        """The task of the connection: sources see in which run of trio they would start."""
        assert self.nursery is not None
        return self.nursery.parent_task

    def start_soon(self, run: Callable[[], Awaitable[None]], *, name: object = None) -> None:
        """Start the task of a source; nothing of it reaches the connection.

        Raises:
            RuntimeError: The connection is over.
        """
        self._start(self._apart, run, name=name)

    def _start(
        self, function: Callable[..., Awaitable[None]], *args: object, name: object = None
    ) -> None:
        async def counted() -> None:
            try:
                await function(*args)
            finally:
                self._tasks -= 1

        assert self.nursery is not None
        self.nursery.start_soon(counted, name=name or function)
        self._tasks += 1

    async def _apart(self, run: Callable[[], Awaitable[None]]) -> None:
        error = await isolated(run)
        if error is not None:
            # It may leave a nursery or a scope open, or raise a cancellation of no scope.
            logger.error("the source of a publisher broke its task", exc_info=failure_of(error))

    def request(self, stream_id: int, n: int) -> None:
        """The peer takes more elements of a stream."""
        publication = self.by_id.get(stream_id)
        if publication is not None:
            publication.add_demand(n)

    def cancel(self, stream_id: int) -> None:
        """The peer wants no more of a stream."""
        publication = self.by_id.get(stream_id)
        if publication is not None:
            publication.stop()
            self.forget(publication)
        self.queue.put_reply(self.session.acknowledge_cancel(stream_id))

    def refuse(self, stream_id: int, text: str) -> None:
        """The peer broke a rule of one stream, which ends."""
        publication = self.by_id.get(stream_id)
        if publication is not None:
            publication.fail(text)

    def forget(self, publication: Publication) -> None:
        """A stream has ended."""
        if self.by_id.get(publication.stream_id) is publication:
            del self.by_id[publication.stream_id]
            self._held.discard(publication)
            if self.on_ended is not None:
                self.on_ended()

    def drain(self) -> None:
        """Refuse new subscriptions."""
        self.draining = True

    def end(self) -> None:
        """The connection is over: cancel all of them."""
        self.draining = True
        self.on_ended = None
        self._held.clear()
        ended, self.by_id = self.by_id, {}
        for publication in ended.values():
            publication.stop()
