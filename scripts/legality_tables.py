"""Write docs/legality.md from `rsocket_trio.protocol.legality`: run it after changing a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.protocol.legality import (
    INITIAL_STATES,
    STREAM_INTERACTIONS,
    TABLES,
    Event,
    Side,
    State,
)

PAGE = Path(__file__).parent.parent / "docs/legality.md"

HEAD = """\
# What is legal on a stream

This page shows the tables of `rsocket_trio.protocol.legality`. A stream has two halves: the frames
that we send, and the frames that the peer sends.

| state | meaning |
|---|---|
| OPEN | no half has ended |
| LOCAL_DONE | we have completed our half, or the peer does not want the rest of it |
| REMOTE_DONE | the peer has completed its half, or we do not want the rest of it |
| CLOSED | the stream has ended on this side, and its id is forgotten |

The difference between the two halves matters only for channels. The tables begin after the request
has been sent or received. NEXT is an item, NEXT_COMPLETE is an item with the COMPLETE flag, and
COMPLETE is that flag without an item. A frame that is not in a table is ignored when it is
received, and is never sent. Credit is not in the tables: it is counted separately.
"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join("\n" + section(interaction) for interaction in STREAM_INTERACTIONS)


def section(interaction: Interaction) -> str:
    """Return the section of one interaction, with both sides."""
    lines = [f"## {interaction.name}", ""]
    if INITIAL_STATES[interaction] is State.CLOSED:
        return "\n".join([*lines, "Over with its request on both sides: there is no answer.", ""])
    for side in Side:
        lines += [f"### {interaction.name}: {side.name.lower()}", "", *table(interaction, side), ""]
    return "\n".join(lines)


def table(interaction: Interaction, side: Side) -> Iterator[str]:
    """Yield one row for each pair of states with the events that lead from one to the other."""
    rows: dict[tuple[State, State], list[Event]] = {}
    for (before, event), after in TABLES[interaction, side].items():
        rows.setdefault((before, after), []).append(event)
    yield "| from | to | when we receive | when we send |"
    yield "|---|---|---|---|"
    for (before, after), events in rows.items():
        sent = [e.name.removeprefix("SEND_") for e in events if e.name.startswith("SEND_")]
        received = [e.name for e in events if not e.name.startswith("SEND_")]
        there = "(the same)" if before is after else after.name
        yield f"| {before.name} | {there} | {', '.join(received)} | {', '.join(sent)} |"


if __name__ == "__main__":
    sys.exit(PAGE.write_text(page()) and 0)
