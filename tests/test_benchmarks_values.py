"""The part of the benchmark about typed requests runs, and measures what it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import attrs
import pytest

from benchmarks.cases import CASES, GROUPS
from benchmarks.harness import Result, measure, pair, takes_part
from benchmarks.model import Stack
from benchmarks.stacks import STACKS
from benchmarks.values.messages import VALUES as VALUES_SENT
from benchmarks.values.messages import Order
from benchmarks.values.ours_application import router
from benchmarks.values.shop import TIMES
from rsocket_trio.routing import Caller
from rsocket_trio.testing import connected_pair
from tests.test_benchmarks import ROOT, SEVERAL_PROGRAMS, rows, small_run

pytestmark = SEVERAL_PROGRAMS

VALUES = [case for case in CASES if case.group == "values"]
CLIENT = [case for case in CASES if case.group == "values-client"]
APPLICATIONS = [case for case in CASES if case.group == "applications"]
STACKS_OF_VALUES = [stack for stack in STACKS if {"values", "applications"} & stack.groups]
OURS = ("val-json", "val-cbor", "app", "app-bare")


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(
            stack, id=stack.name, marks=[] if stack.name in OURS else [pytest.mark.interop]
        )
        for stack in STACKS_OF_VALUES
    ],
)
def test_each_stack_runs_each_case(stack: Stack) -> None:
    """The clients compare the answers and items with what they sent: all stacks do the same."""
    if absent := stack.missing():
        pytest.skip(f"{stack.title}: {absent}")
    cases = [case for case in (*VALUES, *APPLICATIONS) if takes_part(case, stack)]
    assert len(cases) >= (1 if "applications" in stack.groups else 4)
    result = Result()
    with pair(cases[0], stack) as (server, client):
        for case in cases:
            fewer = attrs.evolve(case, parameters={**case.parameters, **small(case.operation)})
            measure(fewer, server, client, 0.02, result)
    assert len(result.rates) == len(cases)
    assert all(value > 0 for value in (*result.rates, *result.costs))


def small(operation: str) -> dict[str, int]:
    return {"items": 500} if operation == "stream" else {"in_flight": 4}


def test_both_ends_are_measured_in_the_same_cases() -> None:
    """But those that compare checkouts: they are about the server."""
    of_server = [case.name.partition("/")[2] for case in VALUES]
    of_client = [case.name.partition("/")[2] for case in CLIENT]
    assert [name for name in of_server if name not in of_client] == ["checked", "union"]
    assert {case.end for case in CLIENT} == {"client"}


def test_the_report(tmp_path: Path) -> None:
    """JSON is divided by each of the others, and CBOR where it is the first row of its case."""
    names = ["values/order", "values/order-cbor", "values-client/stream"]
    report = small_run(tmp_path / "results.md", "val-json,val-cbor", names)
    assert [(row[1], bool(row[3])) for row in rows(report, GROUPS["values"])] == [
        ("rsocket_trio, JSON", False),
        ("rsocket_trio, CBOR", True),
        ("rsocket_trio, CBOR", False),
    ]
    assert len(rows(report, GROUPS["values-client"])) == 2
    assert "processor of the client" in report
    assert "Not measured" not in report


async def test_an_application_is_more_than_types() -> None:
    """A request passes the middleware, and the handler gets what it depends on."""
    before = TIMES.seconds
    async with connected_pair(router, data_mime_type="application/json") as requester:
        order = await Caller(requester).request_response(
            "order", VALUES_SENT["order"], returns=Order
        )
    assert order == VALUES_SENT["order"]
    assert TIMES.seconds > before


def test_a_stack_whose_packages_are_absent_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is named."""
    monkeypatch.setattr("benchmarks.values.ends.find_spec", lambda _: None)
    absent = {stack.name: stack.missing() for stack in STACKS_OF_VALUES}
    assert absent["val-fastapi"] == "not installed: fastapi, uvicorn, httptools, aiohttp"
    assert [name for name, missing in absent.items() if missing is None] == list(OURS)


def test_titles_name_the_pinned_versions() -> None:
    """What `pip install '.[peers]'` brings is what the report names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(each.split("==") for each in project["optional-dependencies"]["peers"])
    named = {}
    for stack in STACKS_OF_VALUES:
        named |= dict(re.findall(r"([A-Za-z][\w-]*) (\d[\d.]*\d)", stack.title))
    for title, version in named.items():
        name = {"FastAPI": "fastapi", "rsocket-py": "rsocket"}.get(title, title)
        assert pinned[name] == version
    assert set(named) == {"websockets", "FastAPI", "uvicorn", "aiohttp", "grpcio", "rsocket-py"}
