"""What a command that runs for long does at SIGHUP: `reload_at_hangup`.

It reads its certificates and tokens again. But the SIGHUP of a terminal that was closed stops it,
as there is nobody any more who looks after it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from rsocket_trio.os_support import RELOAD_SIGNALS
from rsocket_trio.sockets.systemd import notify

from .exits import Failure
from .logs import logger

__all__ = ["Reloadable", "reload_at_hangup"]

_STREAMS: Final = (0, 1, 2)


class Reloadable(Protocol):
    """Something out of files."""

    def reload(self) -> None:
        """Read them again. `Failure` and `OSError` change nothing."""


async def reload_at_hangup(
    files: Sequence[Reloadable | None],
    stop: Callable[[int], object],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Read files again for each SIGHUP; or stop, if the terminal was closed.

    Args:
        files: What came out of them; ``None`` is nothing.
        stop: Stops the command as a signal to stop does, which it gets.
        task_status: Told when signals are handled.

    Checkpoint: where it waits.
    If cancelled: signals are not handled any more.
    """
    used = [each for each in files if each is not None]
    terminals = _terminals()
    # One that is ignored, as nohup has it, stays so.
    signals = [each for each in RELOAD_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    if not signals:
        task_status.started()
        return
    # One that comes too late to be handled would end the process, in place of what stops it.
    before = [signal.signal(each, signal.SIG_IGN) for each in signals]
    try:
        with trio.open_signal_receiver(*signals) as hangups:
            task_status.started()
            async for number in hangups:
                if _terminals() != terminals:
                    stop(number)
                elif not used:
                    logger.info("SIGHUP: there is no file to read again")
                else:
                    await _read_again(used)
    finally:
        with trio.CancelScope(shield=True):
            for _ in range(2):  # trio raises those that are on their way in its next turn
                await trio.lowlevel.checkpoint()
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


async def _read_again(files: Sequence[Reloadable]) -> None:
    # sd_notify(3), for Type=notify-reload: READY=1 is the end of it, also if nothing has changed.
    notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
    try:
        for each in files:
            # In a thread: a disk may be slow, and a key may ask for its password.
            await trio.to_thread.run_sync(each.reload, abandon_on_cancel=True)
    except (Failure, OSError) as error:
        logger.error("SIGHUP: what was read before stays in use: %s", error)
    else:
        logger.info("SIGHUP: new connections get what is now in the files")
    notify("READY=1")


def _terminals() -> list[int]:
    """Return which of the standard streams are terminals; none is one that was closed."""
    return [each for each in _STREAMS if os.isatty(each)]
