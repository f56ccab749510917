"""Describe the machine and the versions, without names of hosts or users."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from .stacks import package_version, tool_version


def cpu_model() -> str:
    """Return the name of the processor, as the kernel reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def describe() -> list[str]:
    """Return one line for each fact."""
    load, _, _ = os.getloadavg()
    return [
        f"CPU: {cpu_model()}, {os.cpu_count()} cores, {platform.machine()}",
        f"kernel: {platform.system()} {platform.release()}",
        f"Python: {platform.python_implementation()} {platform.python_version()}",
        f"trio: {package_version('trio')}; wsproto: {package_version('wsproto')}",
        f"msgspec: {package_version('msgspec')}; isal: {package_version('isal')}",
        f"node: {tool_version('node', '--version')}",
        f"java: {tool_version('java', '--version')}",
        f"go: {tool_version('go', 'version').removeprefix('go version ')}",
        f"load average of the last minute before the run: {load:.1f}",
    ]
