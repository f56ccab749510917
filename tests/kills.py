"""How often tests kill a program, and what they found.

With ``KILLS=100`` in the environment, each of them kills a program a hundred times: see ``make
kills``. They print their counts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

__all__ = ["kills", "report"]


def kills(usual: int) -> int:
    """How often a test kills a program: as often as usual, or as the environment says."""
    return int(os.environ.get("KILLS", usual))


def report(path: str, killed: int, sent: Iterable[object], arrived: Iterable[object]) -> None:
    """Print what has arrived at the end of a path, compared with what was sent."""
    wanted, found = set(sent), Counter(iter(arrived))
    missing, invented = len(wanted - found.keys()), len(found.keys() - wanted)
    print(
        f"{path}: {killed} kills; of {len(wanted)} sent {missing} missing,"
        f" {found.total() - len(found)} doubled, {invented} invented"
    )
