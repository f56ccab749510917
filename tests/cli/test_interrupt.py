"""Signals while a command runs."""

import os
import signal

import pytest
import trio

from rsocket_trio.cli.interrupt import Interruption, interruptible


async def test_without_a_signal_the_status_is_returned() -> None:

    async def work(stop: Interruption) -> int:
        with stop.work():
            await trio.lowlevel.checkpoint()
        return 7

    assert await interruptible(work) == 7


async def test_an_error_comes_out_unchanged() -> None:
    """An error of the work is not in a group."""

    async def work(stop: Interruption) -> int:
        raise ValueError("plain")

    with pytest.raises(ValueError, match="plain"):
        await interruptible(work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_before_the_work(number: int) -> None:
    """A signal while connecting ends it at once."""

    async def work(stop: Interruption) -> int:
        os.kill(os.getpid(), number)
        await trio.sleep_forever()

    assert await interruptible(work) == 128 + number


async def test_a_signal_during_the_work() -> None:
    """It cancels the work; blocks around it may still close."""
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


async def test_a_close_that_takes_too_long(autojump_clock: trio.abc.Clock) -> None:
    """Blocks around the work have a second to close."""

    async def work(stop: Interruption) -> int:
        with stop.work():
            os.kill(os.getpid(), signal.SIGTERM)
            await _signal_cancels()
        await trio.sleep_forever()

    began = trio.current_time()
    assert await interruptible(work) == 143
    assert trio.current_time() - began == pytest.approx(1)


async def test_a_second_signal() -> None:
    """It ends a running close at once; the first signal gives the status."""

    async def work(stop: Interruption) -> int:
        with stop.work():
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    assert await interruptible(work) == 130


async def test_error_after_a_signal() -> None:
    """An error that follows from the signal is not printed."""

    async def work(stop: Interruption) -> int:
        with stop.work():
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()
        raise OSError("the socket was closed")

    assert await interruptible(work) == 130


async def test_the_time_is_over_while_connecting(autojump_clock: trio.abc.Clock) -> None:
    """Nothing is left to close, so there is no further second."""

    async def work(stop: Interruption) -> int:
        await trio.sleep_forever()

    began = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        await interruptible(work, 5)
    assert trio.current_time() - began == pytest.approx(5)


@pytest.mark.parametrize(("closing", "ended"), [(0.5, 5.5), (60, 6)])
async def test_the_time_is_over_during_the_work(
    autojump_clock: trio.abc.Clock, closing: float, ended: float
) -> None:
    """The work is cancelled; blocks around it close within a second, as after a signal."""

    async def work(stop: Interruption) -> int:
        await trio.sleep(3)  # connecting counts
        with stop.work():
            await trio.sleep_forever()
        await trio.sleep(closing)
        return 0

    began = trio.current_time()
    with pytest.raises(trio.TooSlowError):
        await interruptible(work, 5)
    assert trio.current_time() - began == pytest.approx(ended)


@pytest.mark.parametrize("failure", [None, ValueError("the peer says no")])
async def test_work_in_time_counts(
    autojump_clock: trio.abc.Clock, failure: Exception | None
) -> None:
    """The result of work that ends in time stands, or its error, however long the close takes."""

    async def work(stop: Interruption) -> int:
        try:
            with stop.work():
                await trio.sleep(4)
                if failure is not None:
                    raise failure
        finally:
            await trio.sleep(60)
        return 7

    if failure is None:
        assert await interruptible(work, 5) == 7
    else:
        with pytest.raises(ValueError, match="says no"):
            await interruptible(work, 5)


async def test_what_runs_beside_ends_with_its_block(autojump_clock: trio.abc.Clock) -> None:
    """It does not run while the connection closes."""
    seconds: list[float] = []

    async def count() -> None:
        while True:
            seconds.append(trio.current_time())
            await trio.sleep(1)

    async def work(stop: Interruption) -> int:
        with stop.beside(count):
            await trio.sleep(2.5)
        await trio.sleep(5)
        return 0

    assert await interruptible(work) == 0
    assert len(seconds) == 3


async def _signal_cancels() -> None:
    # Not sleep_forever: an autojump clock sees a pending signal as idleness.
    while True:
        await trio.lowlevel.checkpoint()
