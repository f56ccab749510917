"""What the pipeline shows: the proof of its counts, the picture, the streams of the results."""

import copy
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import aclosing
from decimal import Decimal
from importlib import import_module

import pytest
import trio

MINUTE = "2026-01-31 12:00"


@pytest.fixture
def part(examples, monkeypatch):
    """Import a part of the pipeline by its name."""
    monkeypatch.syspath_prepend(examples)
    return lambda name: import_module(f"pipeline.{name}")


def a_minute(service="mail", lines=2, **more):
    row = {"minute": MINUTE, "service": service, "team": "edge", "lines": lines, "errors": 0}
    return row | {"sum_ms": "3.5", "mean_ms": 1.75, "alert": None} | more


FOUND = {
    "files": [
        {"log": "dpkg.log", "events": 1, "lines": 1, "unread": 0},
        {"log": "services.log", "events": 3, "lines": 2, "unread": 0},
    ],
    "actions": [{"minute": "2025-06-24 14:36", "service": "status", "count": 1}],
    "minutes": [a_minute(), a_minute("search", 0, sum_ms="0", mean_ms=None, alert="silent")],
    "machine": [{"since": "10:00:00", "lines": 3, "busy": 0.5, "tasks": 200}],
}


@pytest.fixture
def files(part):
    contents = part("inputs").Contents
    key = (MINUTE, "mail")
    services = contents(Counter({key: 2}), Counter(), {key: Decimal("3.5")})
    machine = contents(Counter({("2025-06-24 14:36", "status"): 1}), Counter(), {})
    return {"services.log": services, "dpkg.log": machine}


@pytest.fixture
def seen(part):
    return [row for row in part("report").minutes(FOUND) if row.alert]


def test_equal_counts_are_proved(part, files, seen):
    """A line that came twice is counted once, and a minute without lines is none of the file."""
    assert part("report").prove(FOUND, files, seen) == (
        "3 lines of 2 files were counted in 2 groups of minute and service, and each count is that "
        "of the file; 1 alerts were seen"
    )


@pytest.mark.parametrize(
    ("table", "number", "change", "says"),
    [
        ("files", 0, {"lines": 2}, "the lines of dpkg.log are 2, not 1"),
        ("files", 1, {"log": "x"}, "the lines of services.log are 0, not 2"),
        ("files", 1, {"unread": 1}, "unreadable lines of services.log are 1, not 0"),
        ("minutes", 0, {"lines": 3}, "the lines of mail at 2026-01-31 12:00 are 3, not 2"),
        ("minutes", 0, {"errors": 1}, "the errors of mail at 2026-01-31 12:00 are 1, not 0"),
        ("minutes", 0, {"sum_ms": "3.6"}, "the milliseconds of mail at .* are 3.6, not 3.5"),
        ("minutes", 0, {"service": "x"}, "the lines of mail at .* are 0, not 2, and 3 more"),
        ("minutes", 0, {"alert": "slow"}, "the alerts seen are .*'search'.*, not .*'mail'.*"),
        ("minutes", 1, {"alert": None}, "the alerts seen are .*, not .*"),
        ("actions", 0, {"count": 9}, "the lines of status at .* in dpkg.log are 9, not 1"),
    ],
)
def test_other_counts_are_an_error(part, files, seen, table, number, change, says):
    """The first difference is named."""
    found = copy.deepcopy(FOUND)
    found[table][number] |= change
    failed = import_module("demo_processes").Failed
    with pytest.raises(failed, match=f"the tables do not agree with the files: {says}"):
        part("report").prove(found, files, seen)


def test_the_tables_are_printed(part, capsys):
    part("report").show(FOUND)
    shown = capsys.readouterr().out
    assert "    mail     edge      2       0      1.8       0\n" in shown
    assert "    search   edge      0       0        -       1\n" in shown
    assert "    10:00:00      3        50%    200\n" in shown


def test_the_picture_is_svg(part):
    """It has a bar for the lines of each minute, and its texts are escaped."""
    rows = part("report").minutes(FOUND)
    drawing = ET.fromstring(part("picture").draw(rows, "a < b"))
    svg = "{http://www.w3.org/2000/svg}"
    kinds = Counter(each.get("class") for each in drawing.iter(f"{svg}rect"))
    assert (kinds["lines"], kinds["errors"], kinds["alert"]) == (2, 2, 1)
    texts = [each.text for each in drawing.iter(f"{svg}text")]
    assert "a < b" in texts
    assert {"mail", "search", "1 alerts", "12:00"} <= set(texts)


async def test_a_late_reader_gets_the_latest_items(part, nursery):
    """It begins with the items that are kept, and goes on with new ones."""
    history = part("history").History(3)
    history.add([1, 2, 3, 4])
    got = []

    async def read():
        async with aclosing(history.follow()) as items:
            async for item in items:
                got.append(item)

    nursery.start_soon(read)
    await trio.testing.wait_all_tasks_blocked()
    assert got == [2, 3, 4]
    history.add([5])
    await trio.testing.wait_all_tasks_blocked()
    assert got == [2, 3, 4, 5]
    nursery.cancel_scope.cancel()


async def test_a_slow_reader_misses_the_oldest_items(part):
    """Memory is bounded, so items are dropped that it has not read; the others come in order."""
    history = part("history").History(600)
    history.add(range(600))
    async with aclosing(history.follow()) as items:
        assert await anext(items) == 0
        history.add(range(600, 1500))
        # It has copied the first 256 items, and goes on with the oldest that is kept.
        assert [await anext(items) for _ in range(256)] == [*range(1, 256), 900]
