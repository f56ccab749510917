"""Programs that tests start: their environment, and their end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import rsocket_trio

ROOT = str(Path(rsocket_trio.__file__).parents[1])

MEASURED = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
"""The variables that have the coverage of programs measured."""


def environment(**more: str) -> dict[str, str]:
    """The environment for a program that uses the package under test, wherever it runs.

    It is not measured: under coverage a program takes twice as long to start, and other tests run
    the same parts of the package.
    """
    here = {name: value for name, value in os.environ.items() if name not in MEASURED}
    return here | {"PYTHONPATH": ROOT} | more


def ends_with_stdin(argv: Sequence[str]) -> list[str]:
    """Return the command for a program that does not look at its stdin, but ends with it."""
    # The shell becomes the program; the part in the background waits for the end of stdin. It looks
    # whether the process is still the program, because another may have its number by then.
    script = """
        exec 3<&0
        (cat <&3; [ "$(readlink /proc/$$/exe)" = "$(readlink -f "$1")" ] && kill -9 $$) \
            >/dev/null 2>&1 &
        exec "$@" </dev/null 3<&-
    """
    return ["sh", "-c", script, "sh", *argv]
