"""The end of a worker process of `multiprocessing`.

Such a process ends without `atexit`, and so without `logging.shutdown`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["drain_before_exit"]


def drain_before_exit(drain: Callable[[], None]) -> None:
    """Have a function called at the end, if this is a worker process of `multiprocessing`."""
    # Importing it here would cost every program some milliseconds.
    process = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, drain, exitpriority=0)
