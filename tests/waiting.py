"""Waiting for something that other tasks, threads or programs bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import trio

from tests.time_limit import LONGEST

PATIENCE: Final = 0.6 * LONGEST
"""Seconds until a wait fails, for anything that happens at once on an idle machine. The failure
names the line that waits, and the test still has time to clean up."""


async def until(condition: Callable[[], object]) -> None:
    """Wait in trio, by its clock."""
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.001)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait in a thread."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)
