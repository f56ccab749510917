"""The golden vectors of the metadata extensions, by kind."""

import json
from pathlib import Path

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))


def pytest_generate_tests(metafunc):
    """A test marked ``vectors("kind", ...)`` runs once per vector of those kinds."""
    marker = metafunc.definition.get_closest_marker("vectors")
    if marker is not None:
        chosen = [vector for vector in VECTORS if vector["kind"] in marker.args]
        assert chosen
        metafunc.parametrize("vector", chosen, ids=[vector["name"] for vector in chosen])


def pytest_configure(config):
    config.addinivalue_line("markers", "vectors(*kinds): run once per golden vector of those kinds")
