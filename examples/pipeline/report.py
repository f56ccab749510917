"""Show what Spark has found, and prove that it is what the log files contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from demo_processes import Failed

from .inputs import Contents
from .minute import Minute

SHOWN: Final = 8
"""Rows of a table that are printed."""

Row = dict[str, Any]


def minutes(found: Row) -> list[Minute]:
    """Return the rows of the table of minutes."""
    return [
        Minute(
            minute=row["minute"].replace(" ", "T") + ":00Z",
            service=row["service"],
            team=row["team"],
            lines=row["lines"],
            errors=row["errors"],
            mean_ms=row["mean_ms"],
            alert=row["alert"],
        )
        for row in found["minutes"]
    ]


def show(found: Row) -> None:
    """Print the tables."""
    by_service: dict[str, list[Row]] = {}
    for row in found["minutes"]:
        by_service.setdefault(row["service"], []).append(row)
    _table(
        "services",
        ("service", "team", "lines", "errors", "mean ms", "alerts"),
        [
            (
                name,
                rows[0]["team"],
                f"{sum(row['lines'] for row in rows):,}",
                f"{sum(row['errors'] for row in rows):,}",
                _mean(rows),
                str(sum(row["alert"] is not None for row in rows)),
            )
            for name, rows in sorted(by_service.items())
        ],
    )
    if found["actions"]:
        per_minute = Counter[str]()
        for row in found["actions"]:
            per_minute[row["minute"]] += row["count"]
        busiest = [(minute, f"{count:,}") for minute, count in per_minute.most_common(5)]
        _table("dpkg.log, the busiest minutes", ("minute", "lines"), busiest)
    _table(
        "this machine while the lines arrived",
        ("since", "lines", "CPUs busy", "tasks"),
        [
            (row["since"], f"{row['lines']:,}", f"{row['busy']:.0%}", str(row["tasks"]))
            for row in found["machine"][-SHOWN:]
        ],
    )


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n  {title}")
    rows = [[_printable(text) for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
        print("    " + "  ".join(cells))


def _printable(text: str) -> str:
    """Return a name out of a log file without what a terminal would obey."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def prove(found: Row, files: dict[str, Contents], seen: list[Minute]) -> str:
    """Check that all counts are those of the files; return a sentence that says so.

    Raises:
        Failed: They are not.
    """
    differences = list(_differences(found, files, seen))
    if differences:
        more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
        raise Failed(f"the tables do not agree with the files: {differences[0]}{more}")
    lines = sum(contents.lines for contents in files.values())
    groups = sum(len(contents.per_minute) for contents in files.values())
    return (
        f"{lines:,} lines of {len(files)} files were counted in {groups:,} groups of minute and "
        f"service, and each count is that of the file; {len(seen)} alerts were seen"
    )


def _differences(found: Row, files: dict[str, Contents], seen: list[Minute]) -> Iterator[str]:
    read = {row["log"]: row for row in found["files"]}
    for name, contents in files.items():
        row = read.get(name, {"lines": 0, "unread": 0})
        yield from _compare(f"the lines of {name}", row["lines"], contents.lines)
        yield from _compare(f"unreadable lines of {name}", row["unread"], 0)
    services = files["services.log"]
    counted = {(row["minute"], row["service"]): row for row in found["minutes"]}
    for minute, service in sorted(services.per_minute.keys() | counted.keys()):
        key = (minute, service)
        row = counted.get(key, {"lines": 0, "errors": 0, "sum_ms": "0"})
        where = f"of {service} at {minute}"
        yield from _compare(f"the lines {where}", row["lines"], services.per_minute[key])
        yield from _compare(f"the errors {where}", row["errors"], services.errors[key])
        taken = services.milliseconds.get(key, Decimal())
        yield from _compare(f"the milliseconds {where}", Decimal(row["sum_ms"]), taken)
    if machine := files.get("dpkg.log"):
        counts = Counter(
            {(row["minute"], row["service"]): row["count"] for row in found["actions"]}
        )
        for minute, action in sorted(machine.per_minute.keys() | counts.keys()):
            key = (minute, action)
            where = f"the lines of {action} at {minute} in dpkg.log"
            yield from _compare(where, counts[key], machine.per_minute[key])
    alerts = sorted((row.minute, row.service) for row in minutes(found) if row.alert)
    yield from _compare(
        "the alerts seen", sorted((row.minute, row.service) for row in seen), alerts
    )


def _compare(what: str, found: object, wanted: object) -> Iterator[str]:
    if found != wanted:
        yield f"{what} are {found}, not {wanted}"


def _mean(rows: list[Row]) -> str:
    lines = sum(row["lines"] for row in rows)
    return f"{sum(Decimal(row['sum_ms']) for row in rows) / lines:.1f}" if lines else "-"
