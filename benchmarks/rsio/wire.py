"""Count the octets of rsio on the wire for each octet of the elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..harness import ProgramFailed, pair
from ..model import Stack
from ..report import table
from .ends import RSIO_CASES, RSIO_GROUPS, WAYS

__all__ = ["NAME", "Octets", "absent_lines", "run_wire", "wire_lines"]

NAME: Final = "rsio/wire"
"""The name for ``--only``."""

Octets = Mapping[str, float | str]
"""By stack: octets on the wire for each octet of the elements, or why this is not known."""

_ELEMENTS: Final = 1_000_000


def run_wire(stacks: Sequence[Stack], scale: float, say: Callable[[str], None]) -> Octets:
    """Read elements in each way, once.

    Args:
        stacks: The stacks; those that are ways of rsio are measured.
        scale: A factor for the number of elements.
        say: Called with texts that report progress.
    """
    say(NAME)
    counted: dict[str, float | str] = {}
    count = max(1000, int(_ELEMENTS * scale))
    present = {stack.name: stack for stack in stacks}
    for way in WAYS:
        if way.name not in present:
            continue
        case = next(case for case in RSIO_CASES if way.name in case.only)
        try:
            with pair(case, present[way.name]) as (_, client):
                outcome = client.ask("octets", elements=count, **case.parameters)
            counted[way.name] = outcome["octets"] / (count * way.size)
        except ProgramFailed as failure:
            counted[way.name] = str(failure)
    return counted


def wire_lines(counted: Octets) -> list[str]:
    """Return the section of the report."""
    rows = []
    for way in WAYS:
        ratio = counted.get(way.name)
        if isinstance(ratio, float):
            rows.append([f"{way.size} bytes", way.title, f"{ratio:.4f}"])
    if not rows:
        return []
    header = ["elements", "way", "octets on the wire per octet of the elements"]
    return [
        f"## {RSIO_GROUPS['rsio-wire']}",
        "",
        "Octets given to the socket in both directions: elements, their headers, and requests. The",
        "headers of TCP and IP are not counted.",
        "",
        *table(header, rows, texts=2),
    ]


def absent_lines(counted: Octets) -> list[str]:
    """Return the ways that failed, with the reasons."""
    titles = {way.name: way.title for way in WAYS}
    return [
        f"* {titles[name]}, octets on the wire: {reason.splitlines()[0]}"
        for name, reason in counted.items()
        if isinstance(reason, str)
    ]
