"""Values that are nested too deeply, in programs that have raised Python's limit of recursion."""

import subprocess
import sys

import pytest

from rsocket_trio.nesting import is_too_deep

PROGRAM = """
import sys
from typing import Any
from rsocket_trio import json_texts
from rsocket_trio.codecs import CborCodec, CodecError, JsonCodec
from rsocket_trio.codecs.mismatch import Mismatch
from rsocket_trio.lumberjack.log_handler import json_text

sys.setrecursionlimit(10**6)
of_itself = {}
of_itself["again"] = [of_itself, of_itself]
deep = []
for _ in range(90_000):
    deep = {"deep": deep}
"""


@pytest.mark.parametrize(
    ("written", "outcome"),
    [
        ("json_texts.write(deep)", "RecursionError"),
        ("json_texts.write(of_itself)", "RecursionError"),
        ("JsonCodec().encode(deep, Any)", "Mismatch"),
        ("CborCodec().encode(deep, Any)", "Mismatch"),
        ("json_text.encode_event(deep, 1000) or 1 / 0", "None"),
    ],
)
def test_a_raised_limit_of_recursion_is_no_crash(written, outcome):
    """The encoders in C went on until the stack of the process ended."""
    program = f"{PROGRAM}\ntry:\n    {written}\nexcept Exception as error:\n    "
    program += "print(type(error).__name__)\nelse:\n    print(None)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, outcome), done.stderr


@pytest.mark.parametrize("kind", [list, tuple, dict, set, frozenset])
def test_levels_are_counted_exactly(kind, monkeypatch):
    monkeypatch.setattr("rsocket_trio.nesting.getrecursionlimit", lambda: 2000)
    inner = frozenset() if kind in (set, frozenset) else kind()
    for _ in range(9):
        inner = {1: inner} if kind is dict else frozenset([inner]) if kind is set else kind([inner])
    assert not is_too_deep(inner, 10)
    assert is_too_deep(inner, 9)


def test_parts_that_come_many_times_are_looked_at_once(monkeypatch):
    monkeypatch.setattr("rsocket_trio.nesting.getrecursionlimit", lambda: 2000)
    many = []
    for _ in range(100):
        many = [many, many]
    assert not is_too_deep(many, 101)
    many.append(many)
    assert is_too_deep(many, 101)


def test_values_are_not_looked_at_under_the_usual_limit(monkeypatch):
    """The encoders raise an error then, and looking takes time."""
    monkeypatch.setattr("rsocket_trio.nesting.getrecursionlimit", lambda: 1000)
    assert not is_too_deep([[[]]], 1)
