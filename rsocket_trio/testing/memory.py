"""How much memory a process has used, seen from outside (Linux only)."""

from __future__ import annotations

from pathlib import Path

from .. import os_support

__all__ = ["peak_memory", "resident_memory"]


def peak_memory(pid: int) -> int:
    """The largest resident size the process ever had, in bytes.

    A high-water mark: measure a server in a process to itself, once before a hostile scenario
    and once after, and the difference is what the scenario cost.

    Raises:
        ProcessLookupError: There is no such process, or it has ended.
        NotImplementedError: This system does not tell.
    """
    return _status(pid, "VmHWM")


def resident_memory(pid: int) -> int:
    """The resident size of the process now, in bytes.

    Raises:
        ProcessLookupError: There is no such process, or it has ended.
        NotImplementedError: This system does not tell.
    """
    return _status(pid, "VmRSS")


def _status(pid: int, field: str) -> int:
    if not os_support.PROCESSES:
        raise NotImplementedError("the memory of a process is read from /proc, which is not here")
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
    for line in lines.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    # A process that has ended but was not waited for has a status without memory.
    raise ProcessLookupError(f"process {pid} has ended")
