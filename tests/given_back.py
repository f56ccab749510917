"""`everything_is_given_back`: what a test opens through the package is closed at its end."""

from __future__ import annotations

import gc
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

DESCRIPTORS = Path("/proc/self/fd")


def is_open(connection):
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


@pytest.fixture(autouse=True)
def everything_is_given_back(monkeypatch):
    """No test leaves a connection to a database, or a descriptor.

    Whoever opens them closes them: they do not wait for the garbage collector, which is late where
    an exception keeps their frame, and never closes a bare descriptor.
    """
    connect, made = sqlite3.connect, []

    def counted(*args, **settings):
        made.append(connect(*args, **settings))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", counted)
    before = descriptors()
    yield
    assert not [each for each in made if is_open(each)]
    made.clear()
    if descriptors() - before:
        gc.collect()  # of the test itself
        assert not descriptors() - before


def descriptors():
    """The open descriptors, with what they are; none where the system does not tell."""
    found = set()
    for name in os.listdir(DESCRIPTORS) if DESCRIPTORS.is_dir() else ():
        with suppress(FileNotFoundError):  # the descriptor of this listing
            found.add((name, os.readlink(DESCRIPTORS / name)))
    return found
