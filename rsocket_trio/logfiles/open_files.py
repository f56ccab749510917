"""How many log files may be open at the same time: `max_open_files`."""

from __future__ import annotations

from math import inf
from typing import Final

from .. import os_support

__all__ = ["RESERVE", "max_open_files"]

RESERVE: Final = 32
"""Descriptors that log files leave free: for connections, the registry, and the search for files.
Otherwise many files would keep the process from sending what it reads of them."""


def max_open_files() -> float:
    """Return the limit of this process for open files, without `RESERVE`; infinity: none."""
    if os_support.RESOURCE_LIMITS:
        import resource  # Windows does not have it.

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(1, soft - RESERVE)
    return inf
