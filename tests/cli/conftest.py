"""The command line as a user runs it: as a process."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import rsocket_trio

COMMAND = (sys.executable, "-m", "rsocket_trio")
DEADLINE = 30
"""Seconds after which a process that should have ended has failed its test."""


def _environment() -> dict[str, str]:
    # The package under test, wherever a test's working directory is.
    source = str(Path(rsocket_trio.__file__).parents[1])
    # Standard output is buffered, as it is for most users.
    return os.environ | {
        "PYTHONPATH": source,
        "PYTHONWARNINGS": "error",
        "PYTHONUNBUFFERED": "",
    }


@pytest.fixture(scope="session")
def server() -> Iterator[dict[str, str]]:
    """A process that serves the known answers; its addresses by scheme."""
    with TemporaryDirectory() as directory:
        addresses = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/path", f"unix://{directory}/socket"]
        listen = [argument for uri in addresses for argument in ("--listen", uri)]
        target = "rsocket_trio.testing.peer:app"
        with subprocess.Popen(
            [*COMMAND, "serve", target, *listen], stdout=subprocess.PIPE, env=_environment()
        ) as process:
            try:
                assert process.stdout is not None
                lines = [process.stdout.readline().decode() for _ in addresses]
                uris = [line.removeprefix("listening on ").rstrip("\n") for line in lines]
                yield {uri.partition(":")[0]: uri for uri in uris}
            finally:
                process.terminate()


@pytest.fixture
def cli(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs a command to its end, in a temporary directory."""

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=_environment(),
            timeout=DEADLINE,
            check=False,
        )

    return run


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs a command with a redirection of its own: only a shell can close a standard stream."""

    def run(redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=tmp_path,
            env=_environment(),
            timeout=DEADLINE,
            check=False,
        )

    return run


@pytest.fixture
def start_cli(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a command with pipes to it, in a temporary directory; killed with the test."""
    with ExitStack() as stack:

        def start(*arguments: str, **kwargs: Any) -> subprocess.Popen[bytes]:
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = subprocess.Popen(
                [*COMMAND, *arguments], cwd=tmp_path, env=_environment(), **(pipes | kwargs)
            )
            stack.enter_context(process)  # waits for it and closes its pipes
            stack.callback(process.kill)
            return process

        yield start
