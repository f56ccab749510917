"""The environment of programs that tests start."""

from __future__ import annotations

import os
from pathlib import Path

import rsocket_trio

ROOT = str(Path(rsocket_trio.__file__).parents[1])


def environment(**more: str) -> dict[str, str]:
    """The environment for a program that uses the package under test, wherever it runs.

    It is not measured: under coverage a program takes twice as long to start, and other tests run
    the same parts of the package.
    """
    measured = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
    here = {name: value for name, value in os.environ.items() if name not in measured}
    return here | {"PYTHONPATH": ROOT} | more
