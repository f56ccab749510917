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

The tables of `rsocket_trio.protocol.legality`. A stream has two halves: our half is what we send,
and the remote half is what the peer sends.

| state | meaning |
|---|---|
| OPEN | both halves are open |
| LOCAL_DONE | we have completed our half, or the peer does not want the rest of it |
| REMOTE_DONE | the peer has completed its half, or we do not want the rest of it |
| CLOSED | the stream has ended on this side, and its id is forgotten |

Only for a channel do the two halves end separately. The tables begin after the request was sent or
received. NEXT is an item, NEXT_COMPLETE is an item with the COMPLETE flag, COMPLETE is the flag
without an item. Received events that are not in a table are ignored. Events that are not in a table
are never sent. Credit is not in the tables: it is counted separately.
"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join("\n" + section(interaction) for interaction in STREAM_INTERACTIONS)


def section(interaction: Interaction) -> str:
    """Return the section of one interaction, with both sides."""
    lines = [f"## {interaction.name}", ""]
    if INITIAL_STATES[interaction] is State.CLOSED:
        text = "The stream ends with the request, on both sides. There is no answer."
        return "\n".join([*lines, text, ""])
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
