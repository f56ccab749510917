"""Servers in a thread, for writers that run trio in the thread of the test, as in Spark."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import pytest
import trio


class Background:
    """Runs servers of a test in a thread with trio of its own."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._thread = threading.Thread(target=trio.run, args=(self._run,))
        self._thread.start()
        assert self._ready.wait(10)

    async def _run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._token = trio.lowlevel.current_trio_token()
                self._ready.set()
                await trio.sleep_forever()

    def start(self, function: Callable[..., Awaitable[None]], *arguments):
        """Start a function in the style of ``nursery.start``; return what it started with."""
        return trio.from_thread.run(
            self._nursery.start, function, *arguments, trio_token=self._token
        )

    def call(self, function: Callable[..., object], *arguments):
        """Call a plain function in the thread."""
        return trio.from_thread.run_sync(function, *arguments, trio_token=self._token)

    def stop(self) -> None:
        self.call(self._scope.cancel)
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def background():
    """A thread for the servers of a test."""
    made = Background()
    yield made
    made.stop()
