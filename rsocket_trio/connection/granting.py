"""Grant leases to the peer, as the application's source says: `grant_leases`.

A source is asked for the next lease when the last one has ended. It may also be an async iterable,
which says itself when there is another one. `rsocket_trio.connection.leases` decides
what a lease allows.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import trio

from ..interactions.isolation import failure_of
from ..interactions.leftovers import Watch
from ..lease import Lease, LeaseCallback, LeaseGranter, subscribe
from ..log_policy import logger
from ..reactive_streams.iterating import close_iterator

if TYPE_CHECKING:
    from .leases import Leases
    from .outbox import Outbox

__all__ = ["grant_leases"]


async def grant_leases(
    leases: Leases,
    outbox: Outbox,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Grant leases as the source of ``leases`` says, until cancelled.

    Args:
        leases: The leases of the connection.
        outbox: Where the LEASE frames wait. While it is clogged, no lease is taken from an
            iterable.
        task_status: Called once the first lease is queued, or once this task waits for it.

    Checkpoint: always.
    If cancelled: only calls of `ConnectionLeases.grant` grant leases from then on.
    """
    source = leases.source
    first = leases.begin()
    granting = _Granting(leases, outbox, task_status.started)
    try:
        if isinstance(source, LeaseGranter):
            check_thread = partial(leases.home.check, "this LeaseGranter")
            with subscribe(source, leases.grant, check_thread):
                await granting.run(first or source.last, source.fallback)
        else:
            await granting.run(first, source)
    finally:
        leases.pause()


class _Granting:
    """One run of `grant_leases`."""

    def __init__(self, leases: Leases, outbox: Outbox, started: Callable[[], None]) -> None:
        self._leases = leases
        self._outbox = outbox
        self._started: Callable[[], None] | None = started

    async def run(
        self, first: Lease | None, source: Lease | LeaseCallback | AsyncIterable[Lease] | None
    ) -> None:
        """Grant ``first``, then what the source says, until cancelled."""
        if first is not None:
            self._leases.grant(first)
        if source is not None:
            await self._run_source(source, begun=first is not None)
        self._report_started()
        await trio.sleep_forever()

    def _report_started(self) -> None:
        """Report that the first lease is queued, or that this task waits for it."""
        if self._started is not None:
            started, self._started = self._started, None
            started()

    async def _run_source(
        self, source: Lease | LeaseCallback | AsyncIterable[Lease], *, begun: bool
    ) -> None:
        watch = Watch()
        try:
            # A scope that the source leaves open, and that is cancelled later, ends here.
            with trio.CancelScope():
                if isinstance(source, AsyncIterable):
                    await self._grant_from_iterable(aiter(source))
                    return
                if begun:
                    await self._wait_until_ended(no_answer=False)
                if isinstance(source, Lease):
                    await self._grant_by_asking(lambda now: None if now.expires_in else source)
                else:
                    await self._grant_by_asking(source)
        except BaseException as error:  # `failure_of` raises what is not the source's own
            # Only this source fails: the requests, and other connections, go on.
            logger.error(
                "the source of leases failed; it grants no more on this connection",
                exc_info=failure_of(error),
            )
        finally:
            await watch.leave()

    async def _grant_from_iterable(self, leases: AsyncIterator[Lease]) -> None:
        self._report_started()
        try:
            async for lease in leases:
                self._leases.grant(lease)
                # A source that never waits must not starve other tasks or flood the peer.
                await trio.lowlevel.checkpoint()
                await self._outbox.wait_unclogged()
        finally:
            await close_iterator(leases)

    async def _grant_by_asking(self, source: LeaseCallback) -> None:
        leases = self._leases
        while True:
            question = leases.statistics()
            leases.latency.begin_anew()
            answer = source(question)
            if isinstance(answer, Awaitable):
                self._report_started()
                answer = await answer
            if answer is not None:
                leases.grant(answer)
            await self._wait_until_ended(no_answer=answer is None)

    async def _wait_until_ended(self, *, no_answer: bool) -> None:
        """Wait until there is reason to ask the source.

        That is when a lease has been used up, or has expired. A lease that never allowed anything
        must have expired. So must one that the source has been asked about already (``no_answer``).
        """
        self._report_started()
        leases = self._leases
        granted = leases.granted
        version = granted.version
        done = no_answer and trio.current_time() >= granted.expires
        while True:
            if granted.version != version:
                version = granted.version
                no_answer = done = False
            now = trio.current_time()
            if granted.stopped or done:
                deadline = inf
            elif now >= granted.expires:
                return
            elif granted.left(now) or no_answer or not granted.requests:
                deadline = granted.expires
            else:
                return
            with trio.move_on_at(deadline):
                await leases.changed.wait()
            leases.changed = trio.Event()
