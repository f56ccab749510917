"""isal and orjson make Lumberjack faster; where they cannot be imported, all goes on without."""

from __future__ import annotations

import importlib.util
import sys
import zlib

import pytest

from rsocket_trio.lumberjack.client import plain_json
from rsocket_trio.lumberjack.wire import compression, json_texts


@pytest.fixture
def without(monkeypatch):
    """A function that imports a module once more, in a process without isal and orjson.

    Other tests replace what a module found; only these see how it looks.
    """
    for name in ("isal", "isal.isal_zlib", "orjson"):
        monkeypatch.setitem(sys.modules, name, None)

    def again(module):
        spec = importlib.util.spec_from_file_location(f"{module.__name__}_again", module.__file__)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    return again


def test_compression(without):
    found = without(compression)
    assert not found.is_fast()
    assert zlib.decompress(found.compress(b"abc", 1)) == b"abc"


def test_reading_json(without):
    assert without(json_texts).read_all([b'{"a":1}', b"2"]) == [{"a": 1}, 2]


def test_writing_json(without):
    """`json` encodes the events then."""
    assert without(plain_json).encode_plain([{"a": 1}]) is None
