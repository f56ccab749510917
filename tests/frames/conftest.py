"""Arguments of the tests of frames.

``vector`` is each golden vector of one frame, ``malformed_vector`` each one of the kind
"malformed", ``golden_frame`` the bytes of each well-formed frame, ``sequence`` each sequence.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "rsocket_vectors", Path(__file__).parent / "vectors.py"
)
_vectors = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_vectors)


def pytest_generate_tests(metafunc):
    cases = {
        "vector": [(v["name"], v) for v in _vectors.of_kind("frame", "frame-lenient")],
        "malformed_vector": [(v["name"], v) for v in _vectors.of_kind("malformed")],
        "sequence": [(v["name"], v) for v in _vectors.of_kind("sequence")],
        "golden_frame": _vectors.frames(),
    }
    for argument, named in cases.items():
        if argument in metafunc.fixturenames:
            ids, values = zip(*named, strict=True)
            metafunc.parametrize(argument, values, ids=ids)


@pytest.fixture(scope="session")
def vectors():
    """The module with all vectors."""
    return _vectors


@pytest.fixture(scope="session")
def largest_frame():
    """A PAYLOAD of 16,777,215 bytes."""
    (vector,) = _vectors.of_kind("frame-generated")
    return _vectors.generated(vector)
