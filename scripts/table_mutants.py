"""Change every cell of the tables of legal events, one at a time, and check that a test fails.

Usage: ``python scripts/table_mutants.py``

The tables are those of `rsocket_trio.protocol.legality` and `rsocket_trio.protocol.frame_rules`. A
cell has a value or is missing. The script gives each cell every other value and also removes it, in
memory only. Then the tests of the cell run (tests/rules/test_legality_cells.py and
test_frame_rules_cells.py) until one fails.

A channel follows its table. So only the second statement of the rules
(tests/rules/legality_statement.py) catches some changes of that table. The behaviour of the other
operations shows every change.

The exit status is 1 if the tests missed a change. The script prints each missed change.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

sys.path.insert(0, str(Path(__file__).parent.parent))

from rsocket_trio.frames import FrameType
from rsocket_trio.protocol import frame_rules, legality
from rsocket_trio.protocol.frame_rules import Verdict
from rsocket_trio.protocol.legality import STREAM_INTERACTIONS, Event, State
from tests.protocol import test_frame_rules
from tests.rules import test_frame_rules_cells, test_legality_cells

Case = tuple[Callable[..., Any], dict[str, Any]]
CODES = range(0x40)
RULES = vars(frame_rules)
"""All names of the module, for the private tables."""


def cases(*tests: Callable[..., Any], **wanted: Any) -> Iterator[Case]:
    """Yield the tests with each set of parameters that matches ``wanted``."""
    for test in tests:
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        for row in itertools.product(*(list(_rows(*mark.args[:2])) for mark in marks)):
            arguments = {name: value for part in row for name, value in part.items()}
            if all(arguments.get(name, value) == value for name, value in wanted.items()):
                yield test, arguments


def _rows(names: str | tuple[str, ...], values: Any) -> Iterator[dict[str, Any]]:
    for value in values:
        given = getattr(value, "values", value)
        if isinstance(names, str):
            yield {names: given[0] if isinstance(given, tuple) else given}
        else:
            yield dict(zip(names, given, strict=True))


def fails(test: Callable[..., Any], arguments: dict[str, Any]) -> bool:
    """Return whether a test fails."""
    try:
        if inspect.iscoroutinefunction(test):
            trio.run(lambda: test(**arguments))
        else:
            test(**arguments)
    except Exception:  # a test may fail with any exception
        return True
    return False


@contextmanager
def changed(table: Mapping[Any, Any], key: object, value: object) -> Iterator[None]:
    """Give a cell of a read-only table another value during the block; ``None`` removes it."""
    cells = table if isinstance(table, dict) else gc.get_referents(table)[0]
    before = dict(cells)
    cells.pop(key, None)
    if value is not None:
        cells[key] = value
    try:
        yield
    finally:
        cells.clear()
        cells.update(before)


@contextmanager
def other_requests(types: frozenset[FrameType]) -> Iterator[None]:
    """Change the set of frame types that begin a stream during the block."""
    before = RULES["REQUEST_TYPES"]
    RULES["REQUEST_TYPES"] = types
    try:
        yield
    finally:
        RULES["REQUEST_TYPES"] = before


def mutants() -> Iterator[tuple[str, str, Any, list[Case]]]:
    """Yield the table, the text, the context manager and the tests of each change."""
    yield from _of_legality()
    yield from _of_frame_rules()


def _of_legality() -> Iterator[tuple[str, str, Any, list[Case]]]:
    tests = test_legality_cells
    for (interaction, side), table in legality.TABLES.items():
        every = [
            (test, arguments)
            for test, arguments in cases(tests.test_every_cell)
            if (arguments["make"].interaction, arguments["make"].side) == (interaction, side)
        ]
        for state, event in itertools.product(State, Event):
            chosen = [
                case for case in every if (case[1]["state"], case[1]["event"]) == (state, event)
            ]
            chosen += cases(
                tests.test_tables_have_no_rows_for_impossible_states,
                interaction=interaction,
                side=side,
                state=state,
                event=event,
            )
            where = f"{interaction.name} {side.name}: {state.name}, {event.name}"
            for value in _others(table.get((state, event)), State):
                change = changed(table, (state, event), value)
                yield "TABLES", f"{where} -> {value}", change, chosen
    for interaction in STREAM_INTERACTIONS:
        chosen = [
            (test, arguments)
            for test, arguments in cases(tests.test_every_route_leads_to_its_state, route=[])
            if arguments["make"].interaction is interaction
        ]
        for value in _others(legality.INITIAL_STATES[interaction], State):
            change = changed(legality.INITIAL_STATES, interaction, value)
            yield "INITIAL_STATES", f"{interaction.name} -> {value}", change, chosen


def _of_frame_rules() -> Iterator[tuple[str, str, Any, list[Case]]]:
    tests = test_frame_rules_cells
    rows = {
        "_ZERO[True]": (RULES["_ZERO"][True], {"client": True, "place": "zero"}),
        "_ZERO[False]": (RULES["_ZERO"][False], {"client": False, "place": "zero"}),
        "_STREAMS": (RULES["_STREAMS"], {}),
    }
    for name, (table, wanted) in rows.items():
        for code in CODES:
            known = FrameType(code) if code in tests.FRAMES else None
            chosen = list(
                cases(tests.test_every_cell, frame_type=known, **wanted)
                if known is not None
                else cases(
                    tests.test_unknown_types_without_ignore_end_the_connection, code=code, **wanted
                )
            )
            chosen += (
                [] if known is not None else cases(tests.test_unknown_types_with_ignore_are_skipped)
            )
            for value in _others(table.get(code), Verdict):
                change = changed(table, code, value)
                yield name, f"{code:#x} -> {value}", change, chosen
    for code in FrameType:
        chosen = [
            *cases(tests.test_types_that_begin_a_stream),
            *cases(tests.test_every_cell, frame_type=code),
        ]
        change = other_requests(frame_rules.REQUEST_TYPES ^ {code})
        yield "REQUEST_TYPES", code.name, change, chosen
    events = list(
        cases(test_frame_rules.test_payload_event, test_frame_rules.test_payload_event_of_fragments)
    )
    received = [Event.NEXT, Event.NEXT_COMPLETE, Event.COMPLETE]
    for flags in (0, 0x20, 0x40, 0x60):
        for value in _others(RULES["_EVENTS"].get(flags), received):
            change = changed(RULES["_EVENTS"], flags, value)
            yield "_EVENTS", f"{flags:#x} -> {value}", change, events


def _others(value: object, possible: Any) -> Iterator[object]:
    return (other for other in (None, *possible) if other is not value)


def main() -> int:
    """Try every change. Print the counts, and the changes that the tests missed."""
    caught: Counter[str] = Counter()
    unseen: list[str] = []
    for table, what, change, tests in mutants():
        with change:
            if any(fails(test, arguments) for test, arguments in tests):
                caught[table] += 1
            else:
                unseen.append(f"{table}: {what}")
    for table, count in caught.items():
        print(f"{table}: {count} changes caught")
    for what in unseen:
        print(f"missed: {what}")
    print(f"{caught.total()} of {caught.total() + len(unseen)} changes were caught")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
