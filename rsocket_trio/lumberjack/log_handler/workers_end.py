"""The end of a worker process of `multiprocessing`.

Such a process ends without `atexit`, and so without `logging.shutdown`.

``with Pool()`` and `multiprocessing.Process.terminate` end it by SIGTERM, and then nothing is sent.
A handler of this signal would be no help: Python runs it in the main thread, which may be about to
block in a system call at this moment, and then the end of the pool waits for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["settle_before_end"]


def settle_before_end(settle: Callable[[], None]) -> None:
    """Have a function called at the end, if this is a worker process of `multiprocessing`."""
    # Importing it here would cost every program some milliseconds.
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, settle, exitpriority=0)
