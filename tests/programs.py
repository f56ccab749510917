"""Programs that tests start: what is the same for all of them."""

from __future__ import annotations

import os
from pathlib import Path

import rsocket_trio

ROOT = str(Path(rsocket_trio.__file__).parents[1])


def environment(**more: str) -> dict[str, str]:
    """For a program that is to use the package under test, wherever it is run.

    It is not measured: under coverage it takes twice as long to begin, and what it runs of the
    package other tests run too.
    """
    measured = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
    here = {name: value for name, value in os.environ.items() if name not in measured}
    return here | {"PYTHONPATH": ROOT} | more
