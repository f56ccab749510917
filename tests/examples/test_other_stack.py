"""The tests of a foreign service, run as its own team would run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

# The interoperability tests install the same modules.
MODULES = Path(__file__).parents[1] / "interop/js/node_modules"


def run_tests(examples, environment):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", examples / "other_stack"],
        cwd=examples.parent,
        env=environment | {"NODE_PATH": str(MODULES), "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_tests_of_the_foreign_service_pass(examples, environment):
    """If Node or rsocket-js is absent they say so."""
    done = run_tests(examples, environment | {"INTEROP": ""})
    assert done.returncode == 0, done.stdout
    if "not installed" in done.stdout:
        if os.environ.get("INTEROP") == "required":
            pytest.fail(done.stdout, pytrace=False)
        pytest.skip("Node or rsocket-js is not installed: run tests/interop/setup.sh")
    assert "4 passed" in done.stdout


@pytest.mark.parametrize(("required", "outcome"), [("", "4 skipped"), ("required", "4 errors")])
def test_without_node(examples, environment, required, outcome):
    """Without Node they are skipped by name, and fail where they are required."""
    done = run_tests(examples, environment | {"PATH": "", "INTEROP": required})
    assert outcome in done.stdout
    assert "not installed: Node" in done.stdout
