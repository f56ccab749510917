"""Read how much memory another process uses (Linux only)."""

from __future__ import annotations

from pathlib import Path

from .. import os_support

__all__ = ["peak_memory", "resident_memory"]


def peak_memory(pid: int) -> int:
    """Return the largest resident size the process ever had, in bytes.

    To measure the cost of a scenario, run the server in its own process and read this value before
    and after the scenario. The difference is the cost.

    Raises:
        ProcessLookupError: There is no such process, or it has ended.
        NotImplementedError: This system does not provide the value.
    """
    return _status(pid, "VmHWM")


def resident_memory(pid: int) -> int:
    """Return the current resident size of the process, in bytes.

    Raises:
        ProcessLookupError: There is no such process, or it has ended.
        NotImplementedError: This system does not provide the value.
    """
    return _status(pid, "VmRSS")


def _status(pid: int, field: str) -> int:
    if not os_support.PROCESSES:
        raise NotImplementedError("this system has no /proc, from which the memory size is read")
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        raise ProcessLookupError(f"there is no process {pid}") from None
    for line in lines.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    # A zombie process has a status file without memory sizes.
    raise ProcessLookupError(f"process {pid} has ended")
