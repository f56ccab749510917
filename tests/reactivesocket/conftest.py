"""Golden vectors of the ReactiveSocket draft, and strategies for its frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ALL = json.loads((Path(__file__).parent.parent / "vectors" / "reactivesocket.json").read_text())


def of_kind(*kinds):
    return [vector for vector in ALL if vector["kind"] in kinds]


def pytest_generate_tests(metafunc):
    frames = of_kind("v0-frame", "v0-frame-lenient")
    cases = {
        "vector": frames,
        "malformed_vector": of_kind("v0-malformed"),
        "sequence": of_kind("v0-sequence"),
    }
    for argument, vectors in cases.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, vectors, ids=[v["name"] for v in vectors])


@pytest.fixture(scope="session")
def vectors():
    """All vectors by name."""
    return {vector["name"]: vector for vector in ALL}
