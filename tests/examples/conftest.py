"""The examples as a user runs them: as programs, with a telemetry server of the CLI."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import rsocket_trio
from tests import programs
from tests.time_limit import LONGEST

ROOT = Path(rsocket_trio.__file__).parents[1]
EXAMPLES = Path(__file__).parents[2] / "examples"
DEADLINE = 0.9 * LONGEST
"""Seconds within which a program has to end."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def examples() -> Path:
    """The directory of the examples."""
    return EXAMPLES


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The environment for a program that uses the package under test, wherever it runs."""
    return programs.environment(PYTHONWARNINGS="error")


@pytest.fixture(scope="session")
def run(environment: dict[str, str]) -> Run:
    """Run a Python program to its end; a path is relative to the directory of the examples."""

    def run(program: str | Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, EXAMPLES / program, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=DEADLINE,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def telemetry(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """A process that serves host_telemetry.py; its addresses by scheme."""
    target = f"{EXAMPLES / 'host_telemetry.py'}:router"
    addresses = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/rsocket"]
    listen = [argument for uri in addresses for argument in ("--listen", uri)]
    with subprocess.Popen(
        [sys.executable, "-m", "rsocket_trio", "serve", target, *listen, "--quiet"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in addresses]
            uris = [line.strip().removeprefix("listening on ") for line in lines]
            yield {uri.partition(":")[0]: uri for uri in uris}
        finally:
            process.terminate()


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Import an example anew, as if its directory were the working directory."""

    def load(path: str) -> ModuleType:
        file = EXAMPLES / path
        # Paths that serve.py adds are removed after the test, too.
        monkeypatch.setattr(sys, "path", [str(file.parent), *sys.path])
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, file.stem, module)  # Annotations are looked up there.
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def chromium() -> str:
    """The path of the browser. A separate fixture: a skip inside a trio task loses its reason."""
    found = shutil.which("chromium")
    if found is None:
        missing = "chromium is not installed: run tests/interop/setup.sh"
        if os.environ.get("INTEROP") == "required":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return found
