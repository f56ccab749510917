"""A test that hangs fails, and the report says where each of its tasks waits.

If Python code cannot run any more, as in a loop that never yields, the suite's
``faulthandler_timeout`` ends the process later, with a traceback.
"""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
import trio

from rsocket_trio.testing.leaks import all_tasks

LONGEST = float(os.environ.get("TEST_SECONDS", "100"))
"""Seconds of wall clock time that a test may take. On an idle machine none takes twenty, but for
those with a limit of their own: the marker ``seconds``."""

LONGEST_WITH_SPARK = 3 * LONGEST
"""The same for tests with the marker ``jvm``. Spark starts several programs, and two of them at the
same time keep a small machine busy for a minute."""


class _Running:
    """The function that cancels the test that runs in trio now, if there is one."""

    cancel: Callable[[], None] | None = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Fail a test that takes too long, its fixtures included."""
    before = signal.signal(signal.SIGALRM, _ring)
    longer = item.get_closest_marker("seconds")
    usual = LONGEST_WITH_SPARK if item.get_closest_marker("jvm") else LONGEST
    signal.setitimer(signal.ITIMER_REAL, longer.args[0] if longer else usual)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(number: int, frame: object) -> None:
    if _Running.cancel is None:
        pytest.fail("the test hangs: its time is over")
    _Running.cancel()


def limit(items: Sequence[pytest.Item]) -> None:
    """Have pytest-trio run each test by `run`."""
    for item in items:
        if inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.trio(run=run))


def run(test: Callable[[], Awaitable[Any]], **settings: Any) -> Any:
    """Run a test like `trio.run`, but cancel and fail one that hangs."""
    hangs: list[str] = []

    async def main() -> Any:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope:

            def stop() -> None:
                hangs.append(whereabouts())
                scope.cancel(reason="the test hangs")

            # Not a deadline of trio: virtual time would jump to it.
            _Running.cancel = lambda: token.run_sync_soon(stop)
            try:
                return await test()
            finally:
                _Running.cancel = None

    try:
        result = trio.run(main, **settings)
    except Exception as error:
        for text in hangs:
            error.add_note(text)
        raise
    if hangs:
        pytest.fail(hangs[0], pytrace=False)
    return result


def whereabouts() -> str:
    """The places where tasks wait, in files outside of site-packages."""
    lines = ["the test hangs: its time is over, and these tasks are left"]
    for task in sorted(all_tasks(), key=lambda task: task.name):
        frames = [
            f"    {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
            for frame, line in task.iter_await_frames()
            if "site-packages" not in frame.f_code.co_filename
        ]
        if frames:
            lines += [f"  {task.name}", *frames]
    return "\n".join(lines)
