"""Fixtures of the bad days: `scene`, which ends all programs of a test, and a Spark application."""

from __future__ import annotations

import pytest

from tests.interop.support import installed
from tests.ports import held_port

from .agents import BeatAgent
from .scene import Scene


@pytest.fixture
def scene(tmp_path):
    """A directory and the programs of a test. Afterwards none of them is left."""
    with Scene(tmp_path) as scene:
        yield scene


@pytest.fixture(scope="session")
def _applications(tmp_path_factory):
    """One application at a time, which tests use one after the other: it takes ten seconds."""
    with Scene(tmp_path_factory.mktemp("application")) as scene:
        yield scene.one_application()


@pytest.fixture
def application(_applications):
    """A Spark application, ``local[2,4]``, for a test that does not kill it as a whole.

    Queries that the test has started are stopped afterwards.
    """
    running = _applications()
    yield running
    running.ask("stop_all")


@pytest.fixture
def port():
    """A port that is free."""
    with held_port() as port:
        yield port


@pytest.fixture
def filebeat(scene):
    """``filebeat(name, count, *uris, **output)``: a Filebeat that ships so many lines."""
    installed.require("filebeat")

    def start(name, count, *uris, **output):
        return BeatAgent(scene, name, count, *uris, **output).start()

    return start
