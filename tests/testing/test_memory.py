from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rsocket_trio.testing.memory import peak_memory, resident_memory


def test_the_peak_is_at_least_the_present_size():
    """The peak of a living process is not below its present size."""
    now = resident_memory(os.getpid())

    assert 1_000_000 < now <= peak_memory(os.getpid())


def test_the_peak_stays_when_memory_is_freed():
    """A process that used 50 MB once shows them in its peak, not in its present size."""
    script = "x = bytearray(50 * 2**20); x[::4096] = b'x' * len(x[::4096]); del x; print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        used = peak_memory(process.pid) - resident_memory(process.pid)
        process.communicate(b"\n")

    assert used > 40 * 2**20


def test_a_process_that_has_ended_has_no_memory():
    """A process that has ended, reaped or not, is an error."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessLookupError, match="has ended"):
            peak_memory(process.pid)
    with pytest.raises(ProcessLookupError, match="no process"):
        peak_memory(process.pid)
