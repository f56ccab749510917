"""The floors of the dependencies exclude versions with known faults of security."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.programs import ROOT

FIRST_SAFE = {
    "cbor2": "5.9",  # CVE-2025-68131, CVE-2026-26209
    "protobuf": "6.33.5",  # CVE-2025-4565, CVE-2026-0994
    "pyarrow": "23.0.1",  # CVE-2026-25087
    "wsproto": "1.3",  # the first that needs h11 0.16: CVE-2025-43859
}


def requirements():
    with open(f"{ROOT}/pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    groups = project["optional-dependencies"]
    return [Requirement(each) for each in sum(groups.values(), project["dependencies"])]


@pytest.mark.parametrize("name", FIRST_SAFE)
def test_a_floor_excludes_known_faults(name):
    """In every group: one that repeats a dependency must not lower its floor."""
    found = [each for each in requirements() if each.name == name]
    assert found
    for each in found:
        floors = [Version(part.version) for part in each.specifier if part.operator == ">="]
        assert max(floors) >= Version(FIRST_SAFE[name]), each


def test_the_tests_run_with_what_may_be_installed():
    """Else the floors say nothing about what was tested."""
    wrong = []
    for each in requirements():
        try:
            installed = version(each.name)
        except PackageNotFoundError:  # of a group that is not installed
            continue
        if not each.specifier.contains(installed, prereleases=True):
            wrong.append(f"{each}: {installed}")
    assert wrong == []
