"""The Lumberjack part of the benchmark runs, and measures what it says. No figure is judged."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from benchmarks.cases import CASES, GROUPS
from benchmarks.harness import Result, measure, pair, takes_part
from benchmarks.lumberjack.lines import WINDOW, as_json, make_events, prepared_windows
from benchmarks.lumberjack.sink import Sink
from benchmarks.model import Case, Stack
from benchmarks.report import update
from benchmarks.stacks import STACKS
from rsocket_trio.lumberjack import BatchReader, decode_events
from tests.test_benchmarks import SEVERAL_PROGRAMS, programs_without_coverage, rows, small_run

pytestmark = SEVERAL_PROGRAMS

__all__ = ["programs_without_coverage"]

LUMBERJACK = [case for case in CASES if case.name.startswith("lumberjack/")]
OURS = {stack.name for stack in STACKS if stack.name.startswith("lj-")} - {"lj-go", "lj-pylogbeat"}


def pairs() -> Iterator[tuple[Case, Stack]]:
    """Pairs of which each has a program or parameters that no pair before it has."""
    seen: set[object] = set()
    for case in LUMBERJACK:
        for stack in STACKS:
            if takes_part(case, stack) and "plain" in case.name:
                server = tuple(case.server or [stack.name])
                client = tuple(case.client or [stack.name])
                parts = {("from", client), ("to", server), frozenset(case.parameters.items())}
                if parts - seen:
                    yield case, stack
                seen |= parts


PAIRS = [
    pytest.param(
        case,
        stack,
        id=f"{case.name}-{stack.name}",
        marks=[]
        if stack.name in OURS and case.missing.__name__ == "<lambda>"
        else [pytest.mark.interop],
    )
    for case, stack in pairs()
]


@pytest.mark.parametrize(("case", "stack"), PAIRS)
def test_each_program_ships(case: Case, stack: Stack) -> None:
    """Each program ships, plain and compressed: both ends understand each other."""
    if absent := case.missing() or stack.missing():
        pytest.skip(f"{stack.title}: {absent}")
    if "logstash" in case.name:  # Its figures do not count here, so it need not be warm.
        case = attrs.evolve(case, server=[*(case.server or ()), "--warm-up", "0.05"])
    result = Result()
    with pair(case, stack) as (server, client):
        for level in (0, 3):  # The second command goes on where the first one ended.
            one = attrs.evolve(case, parameters={**case.parameters, "level": level})
            measure(one, server, client, 0.02, result)
    assert all(rate > 0 for rate in result.rates)
    assert all(cost > 0 for cost in result.costs)


def test_scaling_keeps_few_connections() -> None:
    """A case of one connection is measured with one."""
    for case in LUMBERJACK:
        assert case.scaled(1.0) == case
        assert case.scaled(0.01).parameters["connections"] == case.parameters["connections"]


def test_lines_are_varied() -> None:
    """They have the promised size, none is there twice, and the seed decides about them."""
    events = make_events(4096)
    texts = [as_json(event) for event in events]
    assert 165 < sum(map(len, texts)) / len(texts) < 175
    assert len({event["message"] for event in events}) == len(events)
    assert make_events(4096) == events
    assert make_events(4096, seed=2) != events


@pytest.mark.parametrize("level", [0, 3])
def test_prepared_windows(level: int) -> None:
    """They contain the events, plain or in one compressed frame."""
    reader = BatchReader()
    found = [batch for data in prepared_windows(level, 2) for batch in reader.feed(data)]
    assert [len(batch) for batch in found] == [WINDOW, WINDOW]
    assert all((batch.compressed is not None) == bool(level) for batch in found)
    decoded = [event for batch in found for event in decode_events(batch)]
    assert decoded == make_events(2 * WINDOW)


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("level", [0, 3])
def test_the_sink_acknowledges_each_window_once(level: int, running: bool) -> None:
    """The ACK of a window comes with its last byte, however the bytes are cut."""
    rng = random.Random(3)
    windows = prepared_windows(level, 3)
    sink = Sink(running=running)
    for number, data in enumerate(windows, 1):
        last = number * WINDOW if running else WINDOW
        start = 0
        while start < len(data):
            size = rng.choice([1, 5, 9, 10, 11, 200, 70_000])
            acks = sink.feed(memoryview(data)[start : start + size])
            start += size
            expected = b"2A" + last.to_bytes(4) if start >= len(data) else b""
            assert acks == expected


def test_the_sink_acknowledges_windows_that_come_together() -> None:
    """Bytes of several windows in one read give an ACK for each of them."""
    for level in (0, 3):
        data = memoryview(b"".join(prepared_windows(level, 3)))
        assert Sink(running=False).feed(data) == 3 * (b"2A" + WINDOW.to_bytes(4))


def test_the_sink_refuses_other_bytes() -> None:
    """It would count nothing, so it fails."""
    with pytest.raises(ValueError, match="no frame of version 2"):
        Sink(running=False).feed(memoryview(b"GET / HTTP/1.1\r\n\r\n"))


def test_the_report(tmp_path: Path) -> None:
    """Each table has the figures of its cases; ratios are those to the reference of the case."""
    cases = [
        "lumberjack/server-plain",
        "lumberjack/raw-spool-plain",
        "lumberjack/client-sink-plain",
    ]
    stacks = "lj-ours,lj-raw,lj-raw-spool,lj-sink,lj-prepared"
    report = small_run(tmp_path / "results.md", stacks, cases)
    servers = rows(report, GROUPS["lumberjack-server"])
    assert [row[1].removeprefix("rsocket_trio, ") for row in servers] == [
        "rsocket_trio",
        "bytes not decoded",
        "a server that only acknowledges",
        "bytes not decoded",
        "bytes not decoded, durable in a spool",
    ]
    assert [bool(row[3]) for row in servers] == [False, True, True, True, False]
    assert len(rows(report, GROUPS["lumberjack-client"])) == 2
    assert "processor of the client" in report


def test_a_part_of_the_report_is_replaced() -> None:
    """Tables of a new report go into an old one; its other tables stay, in their order."""
    tcp, server = GROUPS["tcp"], GROUPS["server"]
    client, filebeat = GROUPS["lumberjack-client"], GROUPS["lumberjack-filebeat"]

    def report(begin: str, *sections: tuple[str, str]) -> str:
        return f"# {begin}\n\n" + "\n\n".join(f"## {head}\n\n{text}" for head, text in sections)

    how = "How to read this"
    old = report("old", (tcp, "a"), (client, "b"), ("Memory", "c"), (how, "d"))
    new = report("new", (server, "A"), (client, "B"), (filebeat, "C"), ("Memory", "D"), (how, "E"))
    made = "Made by `command`.\n\n"
    assert update(old, new, "command").split("\n") == report(
        "old",
        (tcp, "a"),
        (server, f"{made}A"),
        (client, f"{made}B"),
        (filebeat, f"{made}C"),
        ("Memory", "c"),
        (how, "E"),
    ).split("\n")
    assert update(update(old, new, "command"), new, "command") == update(old, new, "command")


def test_an_error_of_a_client_is_its_outcome() -> None:
    """A sender whose server is gone says so, and does not hang."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lumberjack.sender", "tcp://127.0.0.1:1"],
        input=b'{"operation":"ship","seconds":0.1,"level":0,"windows":2,"connections":1,"texts":false}\n',
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"ConnectionRefusedError" in done.stdout
