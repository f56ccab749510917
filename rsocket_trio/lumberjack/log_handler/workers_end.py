"""The end of a worker process of `multiprocessing`.

Such a process ends without `atexit`, and so without `logging.shutdown`. ``with Pool()`` and
`multiprocessing.Process.terminate` even end it by SIGTERM, at any moment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

__all__ = ["settle_before_end"]

_settlers: Final[dict[Callable[[], None], None]] = {}
"""What is called at SIGTERM, in order."""


def settle_before_end(settle: Callable[[], None]) -> None:
    """Have a function called at the end, if this is a worker process of `multiprocessing`."""
    # Importing it here would cost every program some milliseconds.
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is None or util is None or process.parent_process() is None:
        return
    util.Finalize(None, settle, exitpriority=0)
    _settlers[settle] = None
    # Only the main thread may do so; and an application that handles the signal ends by itself.
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _settle_and_die)


def _settle_and_die(number: int, frame: FrameType | None) -> None:
    """Call the functions, and end by the signal as if it was not handled."""
    signal.signal(number, signal.SIG_DFL)  # A second signal does not wait.
    try:
        for settle in [*_settlers]:
            settle()
    finally:
        os.kill(os.getpid(), number)
