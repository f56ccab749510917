"""The plugin: it is light, registers the markers, and tells the outcome of each rule."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rsocket_trio_tck_plugin as plugin
from rsocket_trio.reactive_streams.tck import verdicts
from tests.programs import environment

ROOT = Path(__file__).parents[3]
SUITE = """
    from rsocket_trio.reactive_streams import from_iterable
    from rsocket_trio.reactive_streams.tck import PublisherVerification, verify_publisher

    class Rude:
        def __init__(self, publisher):
            self.publisher = publisher

        def subscribe(self, subscriber):
            self.publisher.subscribe(Named(subscriber))

    class Named:
        # Its publisher does not notice None, and has no link to the subscriber's errors.
        def __init__(self, subscriber):
            self.on_next = lambda element: subscriber.on_next(element)
            self.on_error = lambda error: subscriber.on_error(error)
            self.on_complete = lambda: subscriber.on_complete()
            self.on_subscribe = lambda subscription: subscriber.on_subscribe(subscription)

    class TestGood(PublisherVerification):
        def publisher(self, n):
            return from_iterable(range(n))

    TestBad = verify_publisher(lambda n: Rude(from_iterable(range(n))), max_elements=1)

    def test_of_something_else():
        pass
"""


def pytest_run(directory: Path, *options: str) -> tuple[str, dict]:
    """Run pytest with the plugin on a suite of two classes. Return its output and the report."""
    (directory / "test_suite.py").write_text(textwrap.dedent(SUITE))
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    argv = ["-m", "pytest", "-p", "rsocket_trio_tck_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *argv, "--strict-markers", "--color=no", "--rs-report=it.json", *options],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr, json.loads((directory / "it.json").read_text())


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """All tests of both classes."""
    return pytest_run(tmp_path_factory.mktemp("whole"), "-v")


def test_without_v_there_are_lines_for_what_failed(tmp_path):
    """The others are one line, and where nothing failed that line is all: it stands in each run."""
    some, _ = pytest_run(tmp_path, "-k", "r1_09_none or r3_09")
    assert "test_suite.py::TestBad: 1 failed" in some
    assert "TestGood:" not in some
    assert "rules of Reactive Streams: 1 class, tests: 4 passed (-v lists the rules)" in some
    good, _ = pytest_run(tmp_path, "-k", "TestGood and r3_09")
    assert "rules of Reactive Streams: 1 class, tests: 3 passed (-v lists the rules)" in good
    assert "= rules of Reactive Streams =" not in good


def test_the_summary_has_a_line_for_each_class(whole_run):
    """It counts the rules by outcome, and tells what failed, with the cause."""
    summary = whole_run[0].partition("= rules of Reactive Streams =")[2]
    assert re.search(r"(?m)^test_suite\.py::TestGood: 26 passed, 1 not checked, 2 not app", summary)
    assert re.search(r"(?m)^test_suite\.py::TestBad: 1 failed, \d+ passed", summary)
    assert re.search(r"(?m)^    failed: 1\.9$", summary)
    assert "failed: test_r1_09_none_is_a_type_error: rule 1.9: subscribe(None) returned" in summary
    assert "test_of_something_else" not in summary


def test_verbose_lists_the_rules(whole_run):
    """With ``-v`` each rule is in a list."""
    summary = whole_run[0].partition("test_suite.py::TestGood: ")[2]
    assert re.search(r"(?m)^    passed: set-up 1\.1 1\.2 .*3\.17$", summary)
    assert re.search(r"(?m)^    not applicable: 3\.1 3\.14$", summary)
    assert re.search(r"(?m)^    not checked: 1\.4$", summary)


def test_the_report_is_json(whole_run):
    """``--rs-report`` has the outcome of each rule and of each test."""
    report = whole_run[1]
    assert report["version"] == 1
    assert [*report["classes"]] == ["test_suite.py::TestBad", "test_suite.py::TestGood"]
    bad, good = report["classes"].values()
    assert bad["rules"]["1.9"] == "failed"
    assert good["rules"] == {
        **dict.fromkeys(good["rules"], "passed"),
        "1.4": "not checked",
        "3.1": "not applicable",
        "3.14": "not applicable",
    }
    assert len(good["rules"]) == 29
    test = bad["tests"]["test_r1_09_none_is_a_type_error"]
    assert test["rule"] == "1.9"
    assert test["required"] is True
    assert test["reason"].startswith("rule 1.9: subscribe(None) returned")


def test_a_few_tests_in_several_processes(tmp_path):
    """``-k r3_09`` selects tests by rule, and pytest-xdist sends their outcomes."""
    output, report = pytest_run(tmp_path, "-n", "1", "-k", "TestGood and r3_09 and of_zero")
    assert "1 passed" in output
    assert report["classes"]["test_suite.py::TestGood"]["rules"] == {"3.9": "passed"}


def test_the_plugin_imports_no_framework():
    """pytest imports it in every run, so it must cost nothing."""
    code = (
        "import sys, rsocket_trio_tck_plugin;"
        "print({'trio', 'attrs', 'rsocket_trio'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_the_words_of_the_kit_are_those_of_the_plugin():
    """It tells rules that are not applicable from others by the words of the kit."""
    assert verdicts.NOT_APPLICABLE == plugin.NOT_APPLICABLE


def test_the_plugin_is_an_entry_point():
    """pytest finds it after installation, by the name under which ``-p`` registers it too."""
    text = (ROOT / "pyproject.toml").read_text()
    assert (
        '[project.entry-points.pytest11]\nrsocket_trio_tck_plugin = "rsocket_trio_tck_plugin"'
        in text
    )
    assert text.count('"rsocket_trio_tck_plugin.py"') == 2
