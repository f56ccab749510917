"""Check that the branch coverage of each package reaches its limit.

Usage, after ``coverage combine``: ``python scripts/check_coverage.py``.

The tests with the marker ``traced`` must reach the limits; others are not measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

LIMITS: Final = {"frames": 100.0, "metadata": 100.0, "protocol": 100.0, "workers": 90.0}
"""Limits in per cent. Packages without IO must cover every branch.

The rest of the workers runs in tests of the command line, in programs that are not measured.
"""

DEFAULT_LIMIT: Final = 95.0


def main() -> int:
    """Print the coverage of each package. Return 1 if one is below its limit."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "coverage.json"
        subprocess.run(
            [sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)], check=True
        )
        files = json.loads(report.read_text())["files"]
    covered: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for name, file in files.items():
        parts = Path(name).parts
        package = parts[1] if len(parts) > 2 else "(top)"
        summary = file["summary"]
        covered[package] += summary["covered_lines"] + summary["covered_branches"]
        total[package] += summary["num_statements"] + summary["num_branches"]
    failed = False
    for package in sorted(total):
        limit = LIMITS.get(package, DEFAULT_LIMIT)
        percent = 100.0 * covered[package] / max(total[package], 1)
        below = percent < limit
        failed = failed or below
        print(f"{package:16} {percent:6.2f} %  (at least {limit:g}){'  BELOW' if below else ''}")
    if failed:
        print("to list the missing lines: .venv/bin/coverage report", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
