"""protoc with the plugin: that of grpcio-tools, and the standard one if it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import environment

HERE = Path(__file__).parent
PROTOS = HERE / "protos"
GOLDEN = HERE / "golden"

Protoc = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin as a program, as an installation makes it."""
    script = tmp_path_factory.mktemp("bin") / "protoc-gen-trio-ttrpc"
    script.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -W error -m rsocket_trio.ttrpc.codegen.plugin "$@"\n'
    )
    script.chmod(0o755)
    return script


@pytest.fixture(scope="session")
def protoc(plugin: Path) -> Protoc:
    """Run a protoc with the plugin, as a user does."""

    def run(
        *arguments: str, compiler: tuple[str, ...] = (sys.executable, "-m", "grpc_tools.protoc")
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(plugin.parent), os.environ["PATH"]])
        return subprocess.run(
            [*compiler, f"-I{PROTOS}", *arguments],
            env=environment(PATH=path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def generated(protoc: Protoc, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what protoc and the plugin write for all .proto files of the tests."""
    directory = tmp_path_factory.mktemp("generated")
    files = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    outputs = [f"--{name}_out={directory}" for name in ("python", "pyi", "trio-ttrpc")]
    done = protoc(*outputs, *files)
    assert (done.returncode, done.stderr) == (0, "")
    return directory
