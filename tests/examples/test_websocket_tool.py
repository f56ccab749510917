"""The command-line tool: its output, and its errors."""

import linecache
import signal
import subprocess
import sys
import typing

import pytest


@pytest.fixture
def tool(run, telemetry):
    """Run the tool against the telemetry server."""
    return lambda *arguments: run("websocket_tool.py", "--uri", telemetry["ws"], *arguments)


def output(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_facts_are_printed(tool):
    """It prints a fact a line."""
    lines = output(tool("facts"))
    assert any(line.startswith("kernel   ") for line in lines)
    assert len(lines) == 8


def test_samples_are_printed(tool):
    """It prints the requested number of samples."""
    lines = output(tool("load", "--every", "0.05", "--take", "3"))
    assert len(lines) == 3
    assert all("% " in line and " load " in line for line in lines)


def test_lines_of_a_file_are_printed(tool):
    """It prints the lines as they are in the file."""
    with open(typing.__file__) as file:
        assert output(tool("lines", "typing.py")) == file.read().splitlines()


def test_matches_are_printed(tool):
    """It prints lines with any of the patterns, with their numbers."""
    lines = output(tool("grep", "typing.py", "class Protocol", "class NamedTuple("))
    assert len(lines) > 0
    for line in lines:
        number, _, text = line.partition(": ")
        assert linecache.getline(typing.__file__, int(number)).rstrip("\n") == text


def test_a_note_is_sent(tool):
    """A note is sent, and nothing is printed."""
    assert output(tool("note", "all is well")) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lines", "../x"], "the service answered with an error: no such file"),
        (
            ["load", "--every", "0"],
            "the service answered with an error: every must be 0.05 to 3600",
        ),
    ],
)
def test_refusals(tool, arguments, says):
    """A refusal of the service is one line, with the service's text."""
    done = tool(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(says)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("ws://127.0.0.1:1/rsocket", "cannot connect to ws://127.0.0.1:1/rsocket"),
        ("ftp://127.0.0.1", "'ftp://127.0.0.1' is not an address"),
    ],
)
def test_connection_failures(run, uri, says):
    """A missing connection, or a wrong address, is one line."""
    done = run("websocket_tool.py", "--uri", uri, "facts")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(says)
    assert done.stderr.count("\n") == 1


@pytest.fixture
def start(examples, environment, telemetry):
    """Start the tool, with its output in a pipe."""

    def start(*arguments):
        return subprocess.Popen(
            [sys.executable, examples / "websocket_tool.py", "--uri", telemetry["ws"], *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    return start


def test_control_c_ends_the_tool(start):
    """There is no traceback."""
    with start("load", "--every", "0.05") as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (130, "")


def test_a_reader_that_closes_early(start):
    """``| head -1`` causes no error message."""
    with start("lines", "_pydecimal.py") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=20) == 141
