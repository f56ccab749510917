"""The entry point: usage, help, and the end of a command."""

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from rsocket_trio._version import __version__
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.cli.main import main

COMMANDS = ["serve", "request", "fnf", "stream", "channel", "push", "decode", "bench"]
GROUPS = {"lumberjack": ["serve", "ship"], "spool": ["info", "read"]}
IN_GROUPS = [f"{group} {name}" for group, names in GROUPS.items() for name in names]
ALL = [*COMMANDS, *GROUPS, *IN_GROUPS]
URI = "tcp://127.0.0.1:7878"


@pytest.mark.parametrize("command", ALL)
def test_the_help_of_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command has a help with examples and the exit statuses; so has each group."""
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"\nexamples:\n  rsocket-trio {command} " in shown
    assert "exit status:" in shown


def test_the_help_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """The help of the program names every command."""
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in (*COMMANDS, *GROUPS):
        assert re.search(rf"^    {command}\s", shown, re.MULTILINE)


def test_the_help_needs_no_trio() -> None:
    """It comes several times as fast as with trio and sockets."""
    code = (
        "from rsocket_trio.cli.main import main; main(['--help']); import sys; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.splitlines()[-1].split()
    assert "rsocket_trio.cli.grammar" in modules
    assert {"trio", "ssl", "rsocket_trio.transports"}.isdisjoint(modules)


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of a group names every command in it."""
    assert main([group, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^    {command} ", shown, re.MULTILINE) for command in GROUPS[group])


@pytest.mark.parametrize("command", [None, *ALL])
def test_the_examples_of_the_help(command: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """They are right usage."""
    assert main([*(command or "").split(), "--help"]) == 0
    examples = re.findall(r"^  rsocket-trio (.+ .*)$", capsys.readouterr().out, re.MULTILINE)
    assert len(examples) >= 2
    for example in examples:
        words = shlex.split(re.sub(r" [<>|] .*", "", example))
        assert build_parser().parse_args(words).command == words[0]


def test_the_frames_of_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """They can be decoded."""
    for arguments in (["--help"], ["decode", "--help"]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        examples = re.findall(r"^  rsocket-trio (decode [^<@\n]*)$", shown, re.MULTILINE)
        assert examples
        for example in examples:
            assert main(shlex.split(example)) == 0


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the name and the version."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rsocket-trio {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["lumberjack"], "required: COMMAND"),
        (["lumberjack", "unknown"], "invalid choice: 'unknown'"),
        (["unknown"], "invalid choice: 'unknown'"),
        (["decode"], "required: HEX"),
        (["decode", "--protocol", "smtp", "00"], "invalid choice: 'smtp'"),
        (["decode", "--js", "00"], "unrecognized arguments: --js"),
        (["request"], "required: URI"),
        (["request", "localhost"], "argument URI: 'localhost' is not an address"),
        (["serve", "app.py"], "required: --listen"),
        (["lumberjack", "serve"], "required: --listen"),
        (["lumberjack", "serve", "--listen", URI], "argument --listen: 'tcp://127.0.0.1:7878' is"),
        (["request", URI, "--tls-server-name", ""], "argument --tls-server-name: '' is no name"),
        (["request", URI, "--tls-server-name", "a..b"], "'a..b' is no name of a host"),
        (["serve", "app.py", "--listen", "http://x"], "argument --listen: 'http://x' is no"),
        (
            ["serve", "app.py", "--listen", "lumberjack://x"],
            "or the command rsocket-trio lumberjack;",
        ),
        (["request", "lumberjacks://x"], "or the command rsocket-trio lumberjack;"),
        (["serve", "app.py", "--listen", URI, "--grace", "-1"], "'-1' is not a number of seconds"),
        (
            ["serve", "app.py", "--listen", URI, "--grace", "nan"],
            "'nan' is not a number of seconds",
        ),
        (["serve", "app.py", "--listen", URI, "--grace", "x"], "'x' is not a number of seconds"),
        (["stream", URI, "--take", "x"], "'x' is not a whole number"),
        (["stream", URI, "--take", "0"], "0 is not between 1 and 2147483647"),
        (["stream", URI, "--prefetch", "2147483648"], "2147483648 is not between"),
        (["request", URI, "--keepalive", "0"], "'0' is not a number of seconds above 0"),
        (["request", URI, "--header", "no colon"], "a header is 'NAME: VALUE'"),
        (["request", URI, "--header", ": value"], "a header is 'NAME: VALUE'"),
        (["request", URI, "--verbose", "--quiet"], "not allowed with argument"),
        (["bench", URI, "--size", "1", "--data", "x"], "not allowed with argument"),
        (["bench", URI, "--interaction", "metadata_push"], "invalid choice: 'metadata_push'"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is on standard error, with status 2."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err.splitlines()[-1]


def test_a_reader_that_has_gone(start_cli: Callable[..., subprocess.Popen[bytes]]) -> None:
    """A command whose output is not read any more ends without a message, as by SIGPIPE."""
    process = start_cli("decode", "-")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"00\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"error:")
    process.stdout.close()
    process.stdin.write(b"00\n")
    process.stdin.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""


def test_a_reader_of_the_help_that_has_gone(
    start_cli: Callable[..., subprocess.Popen[bytes]],
) -> None:
    """Output that is written at the end only ends in the same way."""
    process = start_cli("--help", stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""


def test_control_c_while_reading_input(start_cli: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Ctrl-C ends a command that reads its input, without a traceback, with status 130."""
    process = start_cli("decode", "-")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"00\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert process.stderr.read() == b""


def test_the_package_runs_as_a_module(
    program: Callable[..., subprocess.CompletedProcess[bytes]],
) -> None:
    """The module runs as python -m rsocket_trio, and usage has this name."""
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"rsocket-trio {__version__}\n".encode())
