"""The command-line tool: what it prints, and what it says when something is wrong."""

import linecache
import signal
import subprocess
import sys
import typing

import pytest


@pytest.fixture
def tool(run, telemetry):
    """Runs the tool against the telemetry server."""
    return lambda *arguments: run("websocket_tool.py", "--uri", telemetry["ws"], *arguments)


def output(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_facts(tool):
    """A fact a line."""
    lines = output(tool("facts"))
    assert any(line.startswith("kernel   ") for line in lines)
    assert len(lines) == 8


def test_load(tool):
    """As many samples as are wanted."""
    lines = output(tool("load", "--every", "0.05", "--take", "3"))
    assert len(lines) == 3
    assert all("% " in line and " load " in line for line in lines)


def test_lines(tool):
    """The lines as they are in the file."""
    with open(typing.__file__) as file:
        assert output(tool("lines", "typing.py")) == file.read().splitlines()


def test_grep(tool):
    """The lines with any of the patterns, with their numbers."""
    lines = output(tool("grep", "typing.py", "class Protocol", "class NamedTuple("))
    assert len(lines) > 0
    for line in lines:
        number, _, text = line.partition(": ")
        assert linecache.getline(typing.__file__, int(number)).rstrip("\n") == text


def test_note(tool):
    """A note is left without a word."""
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
    """What the service refuses is one line, in its own words."""
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
def test_no_connection(run, uri, says):
    """That there is no connection, or no such address, is one line."""
    done = run("websocket_tool.py", "--uri", uri, "facts")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(says)
    assert done.stderr.count("\n") == 1


@pytest.fixture
def start(examples, environment, telemetry):
    """Starts the tool, with its output going to us."""

    def start(*arguments):
        return subprocess.Popen(
            [sys.executable, examples / "websocket_tool.py", "--uri", telemetry["ws"], *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    return start


def test_interrupted(start):
    """Ctrl-C ends it without a traceback."""
    with start("load", "--every", "0.05") as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (130, "")


def test_reader_has_enough(start):
    """``| head -1`` is no error worth a word."""
    with start("lines", "_pydecimal.py") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=20) == 141
