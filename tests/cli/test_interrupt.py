"""Signals while a command runs."""

import os
import signal

import pytest
import trio

from rsocket_trio.cli.interrupt import Interruption, interruptible


async def test_result() -> None:
    """Without a signal the work's status is returned."""

    async def work(stop: Interruption) -> int:
        with stop.work():
            await trio.lowlevel.checkpoint()
        return 7

    assert await interruptible(work) == 7


async def test_exception() -> None:
    """What the work raises arrives as itself, not in a group."""

    async def work(stop: Interruption) -> int:
        raise ValueError("plain")

    with pytest.raises(ValueError, match="plain"):
        await interruptible(work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_before_the_work(number: int) -> None:
    """A signal while connecting ends it at once."""

    async def work(stop: Interruption) -> int:
        os.kill(os.getpid(), number)
        await trio.sleep_forever()

    assert await interruptible(work) == 128 + number


async def test_during_the_work() -> None:
    """A signal cancels the work; what is around it may still close."""
    closed = False

    async def work(stop: Interruption) -> int:
        nonlocal closed
        with stop.work():
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        closed = True
        return 0

    assert await interruptible(work) == 130
    assert closed


async def test_close_takes_too_long(autojump_clock: trio.abc.Clock) -> None:
    """What is around the work has a second to close."""

    async def work(stop: Interruption) -> int:
        with stop.work():
            os.kill(os.getpid(), signal.SIGTERM)
            await _signal_cancels()
        await trio.sleep_forever()

    began = trio.current_time()
    assert await interruptible(work) == 143
    assert trio.current_time() - began == pytest.approx(1)


async def test_second_signal() -> None:
    """A second signal ends at once what is still closing; the first gives the status."""

    async def work(stop: Interruption) -> int:
        with stop.work():
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    assert await interruptible(work) == 130


async def test_error_after_a_signal() -> None:
    """An error that follows from being interrupted is not told."""

    async def work(stop: Interruption) -> int:
        with stop.work():
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        raise OSError("the socket was closed")

    assert await interruptible(work) == 130


async def _signal_cancels() -> None:
    # Not sleep_forever: an autojump clock takes a signal on its way for idleness.
    while True:
        await trio.lowlevel.checkpoint()
