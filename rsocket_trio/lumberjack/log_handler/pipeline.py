"""The parts of a handler that one process has: the buffer, the thread, the counters.

A forked child makes a new pipeline. The parent's thread does not exist there, its locks may be
held, and its events are the parent's to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from math import inf
from time import monotonic
from typing import Final

from ...log_policy import logger
from .buffer import Buffer
from .courier import Courier, Pace, Shipper, Signals
from .drops import DropReports
from .handover import Counts, Handover
from .settings import Settings
from .worker import Worker

__all__ = ["Pipeline"]

_GRACE: Final = 0.1
"""The part of the time for `Pipeline.close` that remains for a cancelled thread to end."""
_JUST_NOW: Final = 1.0
"""`logging.shutdown` closes right after it has flushed: within these seconds."""


class Pipeline:
    """From the threads that log to the receiver.

    Args:
        settings: The settings of the handler.
        connect: Opens a shipper.
        pace: How events are put together.
        encode_notice: Makes an event of a message and numbers.
        name: The handler, for the name of the thread and for standard error.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], AbstractAsyncContextManager[Shipper]],
        pace: Pace,
        encode_notice: Callable[[str, Mapping[str, int]], bytes | None],
        name: str,
    ) -> None:
        signals = Signals()
        buffer = Buffer(
            settings.max_records,
            settings.max_size,
            drop_oldest=settings.on_full == "drop_oldest",
        )
        block_timeout = settings.block_timeout if settings.on_full == "block" else None
        self.handover: Final = Handover(buffer, block_timeout=block_timeout, wake=self._wake)
        self.reports: Final = DropReports(name, encode_notice)
        courier = Courier(self.handover, signals, connect, pace, self.reports)
        self.worker: Final = Worker(courier.run, signals.wake, self.reports.complain, name)
        self.closed = False
        self._flushed_in_vain = -inf

    def _wake(self) -> None:
        self.worker.wake()

    def start(self) -> bool:
        """Start the thread; return whether this is the first one."""
        logger.remember_levels()
        return self.worker.start()

    def drain(self, timeout: float) -> bool:
        """Wait until all events of before are acknowledged or dropped; return whether they are."""
        return not self.worker.is_current and self.handover.wait_settled(timeout)

    def settle(self, timeout: float) -> None:
        """Wait like `drain`, at the end of the process. The rest is dropped, and that is told."""
        self.drain(timeout)
        self.handover.abandon("unsent")  # also what other threads have logged meanwhile
        self.reports.collect(self.handover)

    def flush(self, timeout: float) -> None:
        """Wait like `drain`. If this is in vain, a `close` right after it does not wait again."""
        self._flushed_in_vain = -inf if self.drain(timeout) else monotonic()

    def close(self, timeout: float) -> None:
        """Send what waits, within the time, and end the thread. The rest is dropped."""
        if self.closed:
            return
        self.closed = True
        if monotonic() < self._flushed_in_vain + _JUST_NOW:
            timeout *= _GRACE  # The time is used up, except for this.
        deadline = monotonic() + timeout
        logger.remember_levels()
        self.handover.close()
        if not self.worker.join(timeout * (1 - _GRACE)):
            self.worker.cancel()
            self.worker.join(deadline - monotonic())
        self.handover.abandon("unsent")
        self.reports.collect(self.handover)

    def counts(self) -> Counts:
        """Return the counters."""
        return self.handover.counts()
