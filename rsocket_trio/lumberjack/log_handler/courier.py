"""The sending side, in trio: takes events from a `Handover`, and sends them by a shipper."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, Protocol

import attrs
import trio

from ...errors import single_error
from ..client.deliveries import ShipError
from .buffer import Taken
from .drops import FIRST_DELAY, INTERVAL, DropReports, Notice
from .handover import Handover

__all__ = ["Courier", "Pace", "Shipper", "Signals"]

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
"""Seconds between attempts to open a shipper that fails. It retries connections itself, so this is
about faults."""


class Shipper(Protocol):
    """The part of a client that is used here."""

    async def send(self, events: Iterable[bytes], /) -> None:
        """Send events, and return when all are acknowledged."""


@attrs.frozen(kw_only=True)
class Pace:
    """How events are put together.

    Attributes:
        linger: Events wait this long for more, in seconds.
        max_records: The events that are sent by one call.
        max_size: The bytes of these events, or one event if that is larger.
        calls: The calls at the same time.
    """

    linger: float
    max_records: int
    max_size: int
    calls: int


class Signals:
    """Wake-ups from other threads, for several tasks."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def wake(self) -> None:
        """Wake all tasks that wait. Call it in the trio thread."""
        self._event.set()
        self._event = trio.Event()

    async def wait(self, arm: Callable[[], bool]) -> None:
        """Wait for the next wake-up if ``arm`` returns True. There are false ones."""
        event = self._event
        if arm():
            await event.wait()
        else:
            await trio.lowlevel.checkpoint()


class Courier:
    """Sends the events of a handover, until it is closed and nothing waits.

    Args:
        handover: Where the events come from.
        signals: Its wake-ups.
        connect: Opens a shipper.
        pace: How events are put together.
        reports: What is said about dropped events.
    """

    def __init__(
        self,
        handover: Handover,
        signals: Signals,
        connect: Callable[[], AbstractAsyncContextManager[Shipper]],
        pace: Pace,
        reports: DropReports,
    ) -> None:
        self._handover: Final = handover
        self._signals: Final = signals
        self._connect: Final = connect
        self._pace: Final = pace
        self._reports: Final = reports
        self._done = False

    async def run(self) -> None:
        """Send until the handover is closed and nothing waits."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report)
            await self._open_and_ship()
            nursery.cancel_scope.cancel()

    async def _open_and_ship(self) -> None:
        wait = _FIRST_WAIT
        while True:
            opened = trio.current_time()
            try:
                async with self._connect() as shipper:
                    await self._ship(shipper)
            except Exception as error:  # of any kind: the next events need a shipper
                if self._done:
                    return  # It failed to close. All events are settled.
                if trio.current_time() > opened + _LONGEST_WAIT:
                    wait = _FIRST_WAIT
                cause = single_error(error)
                self._reports.complain(
                    f"cannot send log records: {cause!r}; the next attempt is in {wait:g} s"
                )
                await trio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            else:
                if self._done:
                    return

    async def _ship(self, shipper: Shipper) -> None:
        free = trio.Semaphore(self._pace.calls)
        async with trio.open_nursery() as nursery:
            while await self._is_due(free):
                taken = self._handover.take(self._pace.max_records, self._pace.max_size)
                notice = self._reports.take_notice()
                nursery.start_soon(self._send, shipper, taken, notice, free)
        self._done = not self._handover.waiting

    async def _is_due(self, free: trio.Semaphore) -> bool:
        """Wait for a call that is free, and then for events; return False at the end."""
        # Events are taken as late as possible: a taken event cannot make room for a newer one.
        await free.acquire()
        while not self._handover.waiting:
            if self._handover.closing:
                self._reports.collect(self._handover)
                return self._reports.has_notice
            if self._reports.has_notice:
                return True
            await self._signals.wait(lambda: self._handover.arm(1))
        pace = self._pace
        more = partial(self._handover.arm, pace.max_records, pace.max_size)
        with trio.move_on_after(pace.linger):
            while more():
                await self._signals.wait(more)
        return True

    async def _send(
        self,
        shipper: Shipper,
        taken: Taken | None,
        notice: Notice | None,
        free: trio.Semaphore,
    ) -> None:
        events = [*taken.events] if taken is not None else []
        if notice is not None:
            events.append(notice.event)
        acknowledged = 0
        lost = None
        try:
            await shipper.send(events)
            acknowledged = len(events)
        except ShipError as error:
            acknowledged = error.acknowledged
            if isinstance(error.__cause__, trio.ClosedResourceError):
                raise  # The shipper is over, and a new one is to be opened.
            lost = "undeliverable"  # All attempts are used up.
        except trio.ClosedResourceError:
            raise  # as above
        except Exception as error:  # of any kind: it must not end the other calls
            lost = "undeliverable"
            self._reports.complain(f"cannot send {len(events)} log records: {error!r}")
        finally:
            # If the call is cancelled, or the shipper is over, its events are sent again.
            free.release()
            if notice is not None and acknowledged < len(events):
                self._reports.give_back(notice)
            if taken is not None:
                self._handover.settle(taken, min(acknowledged, len(taken.events)), lost)

    async def _report(self) -> None:
        """Report the drops of each interval."""
        while True:
            await self._signals.wait(lambda: self._handover.arm_drops(self._reports.known))
            if self._handover.drops > self._reports.known:
                await trio.sleep(FIRST_DELAY)
                self._reports.collect(self._handover)
                self._signals.wake()
                await trio.sleep(INTERVAL)
