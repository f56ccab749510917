"""The command line as a user runs it: with standard streams, as a process where needed."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from rsocket_trio.cli.main import main
from tests.programs import ROOT

COMMAND = (sys.executable, "-m", "rsocket_trio")
DEADLINE = 30
"""Seconds within which a process has to end."""


def _environment() -> dict[str, str]:
    # Standard output is buffered, as it is for most users.
    return os.environ | {
        "PYTHONPATH": ROOT,
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


@contextmanager
def _standard_streams(*fds: int) -> Iterator[None]:
    """Replace 0, 1 and 2, and make ``sys.stdin`` and the others as in a new process."""
    saved = [os.dup(number) for number in range(3)]
    names = ("stdin", "stdout", "stderr")
    objects = [getattr(sys, name) for name in names]
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    try:
        yield
    finally:
        for name, before in zip(names, objects, strict=True):
            getattr(sys, name).close()
            setattr(sys, name, before)
        for number, before in enumerate(saved):
            os.dup2(before, number)
            os.close(before)


@contextmanager
def _no_logging() -> Iterator[None]:
    """Undo the set-up of logging, as in a new process."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    try:
        yield
    finally:
        root.handlers, root.level = handlers, level


@pytest.fixture
def cli(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run a command to its end, in a temporary directory.

    It runs in this process: importing the package takes longer than most commands. The `program`
    and `start_cli` fixtures test the beginning and end of a process.
    """

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        monkeypatch.chdir(tmp_path)
        theirs, ours = zip(os.pipe(), os.pipe()[::-1], os.pipe()[::-1], strict=True)
        with ThreadPoolExecutor(3) as pool:
            feeding = pool.submit(_write_all, ours[0], stdin)
            reading = [pool.submit(_read_all, fd) for fd in ours[1:]]
            with _no_logging(), _standard_streams(*theirs):
                status = main(arguments)
            feeding.result()
            output, errors = [read.result() for read in reading]
        return subprocess.CompletedProcess(arguments, status, output, errors)

    return run


def _write_all(fd: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(fd, "wb") as file:  # It may stay unread.
        file.write(data)


def _read_all(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run a command to its end, in a process, in a temporary directory."""

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
    """Run a command with a redirection: only a shell can close a standard stream."""

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
    """Start a command with pipes to it, in a temporary directory; killed with the test."""
    with ExitStack() as stack:

        def start(*arguments: str, **kwargs: Any) -> subprocess.Popen[bytes]:
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = subprocess.Popen(
                [*COMMAND, *arguments], cwd=tmp_path, env=_environment(), **(pipes | kwargs)
            )
            stack.enter_context(process)  # Waits for it and closes its pipes.
            stack.callback(process.kill)
            return process

        yield start


PROTOS = Path(__file__).parent / "protos"


@pytest.fixture(scope="session")
def ttrpc_server() -> Iterator[str]:
    """A process that serves `tests.cli.ttrpc_app`; its address."""
    arguments = ("ttrpc", "serve", "tests.cli.ttrpc_app", "--listen")
    with (
        TemporaryDirectory() as directory,
        subprocess.Popen(
            [*COMMAND, *arguments, f"unix://{directory}/socket"],
            stdout=subprocess.PIPE,
            env=_environment(),
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            assert line.startswith("listening on ")
            yield line.removeprefix("listening on ").rstrip("\n")
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def descriptor_set(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the services of the .proto files in ``protos``."""
    path = tmp_path_factory.mktemp("descriptors") / "set.binpb"
    options = (f"-I{PROTOS}", "--include_imports", f"--descriptor_set_out={path}")
    protoc = (sys.executable, "-m", "grpc_tools.protoc")
    subprocess.run([*protoc, *options, "failing.proto"], check=True)
    return str(path)
