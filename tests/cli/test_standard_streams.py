"""Closed and full standard streams: an error of one line, and their numbers are not reused."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rsocket_trio import os_support
from rsocket_trio.spool import open_spool

PING = "00000001100070696e67"
SERVE = ("serve", "rsocket_trio.testing.peer:app", "--listen", "tcp://127.0.0.1:0", "--quiet")

Shell = Callable[..., subprocess.CompletedProcess[bytes]]
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
@pytest.mark.parametrize("command", ["request", "stream", "decode", "bench", "serve"])
def test_unwritable_output(
    shell: Shell, server: dict[str, str], command: str, redirection: str
) -> None:
    """Output that cannot be written is an error of one line, status 4."""
    arguments = {
        "request": ("request", server["tcp"], "ping"),
        "stream": ("stream", server["tcp"], "3", "--raw"),
        "decode": ("decode", PING),
        "bench": ("bench", server["tcp"], "--duration", "0.01", "--warmup", "0"),
        "serve": SERVE,
    }[command]
    done = shell(redirection, *arguments)
    assert done.returncode == 4, done.stderr
    assert done.stderr.startswith(b"rsocket-trio: error: ")
    assert b"standard output" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_unwritable_help(shell: Shell, option: str) -> None:
    """Output that is written at the end only gives the same error."""
    done = shell("> /dev/full", option)
    line = b"rsocket-trio: error: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (4, line)


def test_a_reader_of_the_addresses_that_has_gone(start_cli: Start) -> None:
    """``serve | true`` ends without a message, as by SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = start_cli(*SERVE, stdout=writer)
        _, errors = process.communicate(timeout=20)
    finally:
        os.close(writer)
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.parametrize("command", ["channel", "request", "decode"])
def test_closed_input(shell: Shell, server: dict[str, str], command: str) -> None:
    """It is an error of one line, status 4."""
    arguments = ("-",) if command == "decode" else (server["tcp"], "-")
    done = shell("<&-", command, *arguments)
    assert (done.returncode, done.stdout) == (4, b""), done.stderr
    assert done.stderr.startswith(b"rsocket-trio: error: ")
    assert b"standard input" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_closed_input_that_is_not_needed(shell: Shell, server: dict[str, str]) -> None:
    """A command that reads no input works without it."""
    done = shell("<&-", "request", server["tcp"], "ping", "--raw")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ping\n", b"")


@pytest.mark.parametrize(
    ("status", "output", "arguments"),
    [
        (0, b"ping\n", ["request", "SERVER", "ping", "--trace", "--raw"]),
        (1, b"", ["request", "SERVER", "error:no", "--raw"]),
        (2, b"", ["request"]),
        (3, b"", ["request", "tcp://127.0.0.1:1"]),
    ],
)
def test_closed_standard_error(
    shell: Shell, server: dict[str, str], status: int, output: bytes, arguments: list[str]
) -> None:
    """Errors are not printed on standard output instead; the statuses stay."""
    done = shell("2>&-", *(server["tcp"] if each == "SERVER" else each for each in arguments))
    assert (done.returncode, done.stdout, done.stderr) == (status, output, b"")


@pytest.mark.parametrize("command", ["channel", "decode"])
def test_a_line_without_an_end(shell: Shell, server: dict[str, str], command: str) -> None:
    """It costs bounded memory: the command ends with an error of one line."""
    arguments = ("-",) if command == "decode" else (server["tcp"], "--route", "channel")
    done = shell("< /dev/zero", command, *arguments)
    assert done.returncode == 4
    assert b"a line of standard input has more than 64 MiB" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(not os_support.POLLED_FILES, reason="a pipe does not tell of its other end")
@pytest.mark.parametrize("command", ["channel", "ttrpc", "lumberjack", "spool"])
def test_a_reader_that_goes_while_nothing_is_printed(
    start_cli: Start,
    server: dict[str, str],
    ttrpc_server: str,
    descriptor_set: str,
    tmp_path: Path,
    command: str,
) -> None:
    """A command that prints what comes ends at once, not with the next line."""
    arguments = {
        "channel": ("channel", server["tcp"]),
        "ttrpc": (
            *("ttrpc", "stream", ttrpc_server, "ttrpc.integration.streaming.Streaming/EchoStream"),
            *("--descriptor-set", descriptor_set),
        ),
        "lumberjack": ("lumberjack", "serve", "--listen", "lumberjack://127.0.0.1:0"),
        "spool": ("spool", "read", "spool", "--follow"),
    }[command]

    async def make() -> None:
        async with open_spool(tmp_path / "spool"):
            pass

    trio.run(make)
    process = start_cli(*arguments)
    assert process.stdout is not None
    assert process.stderr is not None
    if command == "lumberjack":
        assert process.stdout.readline().startswith(b"listening on ")
    process.stdout.close()
    assert process.wait(20) == 141
    assert b"Traceback" not in process.stderr.read()
