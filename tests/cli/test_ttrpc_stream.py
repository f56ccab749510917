"""``ttrpc stream`` against a server with known answers."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., "subprocess.CompletedProcess[bytes]"]
StartCli = Callable[..., "subprocess.Popen[bytes]"]

SERVICE = "ttrpc.integration.streaming.Streaming"


@pytest.fixture
def arguments(ttrpc_server: str, descriptor_set: str) -> Callable[..., list[str]]:
    """The arguments of a call, with the types of the descriptor set."""
    return lambda method, *others: [
        *("ttrpc", "stream", ttrpc_server, f"{SERVICE}/{method}"),
        *("--descriptor-set", descriptor_set, *others),
    ]


@pytest.fixture
def stream(cli: Cli, arguments: Callable[..., list[str]]) -> Cli:
    """Call a method of the server."""
    return lambda method, *others, stdin=b"": cli(*arguments(method, *others), stdin=stdin)


def lines(done: subprocess.CompletedProcess[bytes]) -> list[object]:
    """The objects that a command has printed."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_server_stream(stream: Cli) -> None:
    """Each response is a line; the request is one message, from wherever."""
    request = '{"sum": 6, "num": 3}'
    done = stream("DivideStream", request)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"add": 2}\n' * 3, b"")
    assert stream("DivideStream", "-", stdin=request.encode()).stdout == done.stdout
    assert lines(stream("EmptyPayloadStream")) == [{"seq": 1}, {"seq": 2}]
    done = stream("DivideStream", request, request)
    assert done.returncode == 2
    assert b"DivideStream takes one request, not 2" in done.stderr


def test_take(stream: Cli) -> None:
    """--take ends the call early."""
    assert lines(stream("EmptyPayloadStream", "--take", "1")) == [{"seq": 1}]
    done = stream("EchoStream", '{"seq": 1}', '{"seq": 2}', "--take", "1")
    assert (done.returncode, lines(done)) == (0, [{"seq": 2}])


@pytest.mark.parametrize("given", [[], ["-"]])
def test_requests_of_standard_input(stream: Cli, given: list[str]) -> None:
    """Each line is a request; empty lines are none, and the last line needs no end."""
    text = b'{"add": 2}\n\n  \n{"add": 5}'
    assert lines(stream("SumStream", *given, stdin=text)) == [{"sum": 7, "num": 2}]
    assert lines(stream("SumStream", *given, "--defaults")) == [{"sum": 0, "num": 0}]


def test_requests_of_arguments(stream: Cli, tmp_path: Path) -> None:
    """Each argument is a request, and each line of a file."""
    (tmp_path / "parts").write_text('{"add": 10}\n{"add": 20}\n')
    done = stream("SumStream", '{"add": 1}', "@parts", "{}")
    assert lines(done) == [{"sum": 31, "num": 4}]


def test_both_directions(stream: Cli) -> None:
    """Responses without content are lines too."""
    text = b'{"seq": 1}\n{"seq": 2, "msg": "b"}\n'
    assert lines(stream("EchoStream", stdin=text)) == [{"seq": 2}, {"seq": 3, "msg": "b"}]
    assert stream("EchoNullStream", stdin=text).stdout == b"{}\n{}\n"
    assert stream("EchoNull", stdin=text).stdout == b"{}\n"


def test_bytes(cli: Cli, stream: Cli, ttrpc_server: str) -> None:
    """--hex needs the kind of the method, if no types tell it."""
    call = ("ttrpc", "stream", ttrpc_server, f"{SERVICE}/EchoStream", "0801", "0802", "--hex")
    assert cli(*call, "--kind", "bidi_stream").stdout == b"0802\n0803\n"
    assert stream("EchoStream", "0801", "--hex").stdout == b"0802\n"
    done = cli(*call)
    assert done.returncode == 2
    assert b"--hex without --proto or --descriptor-set needs --kind" in done.stderr
    done = stream("EchoStream", "--kind", "server_stream")
    assert done.returncode == 2
    assert b"EchoStream is bidi_stream" in done.stderr


def test_lines_are_sent_and_printed_at_once(
    start_cli: StartCli, arguments: Callable[..., list[str]]
) -> None:
    """A request is sent when its line comes, and a response is printed when it comes."""
    process = start_cli(*arguments("EchoStream"))
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(3):
        process.stdin.write(b'{"seq": %d}\n' % number)
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"seq": number + 1}
    process.stdin.close()
    assert process.stdout.read() == b""
    assert process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_call(
    start_cli: StartCli, arguments: Callable[..., list[str]], number: int
) -> None:
    """A signal ends a call that waits for its input."""
    process = start_cli(*arguments("EchoStream", "--verbose"))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"{}\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert b"Traceback" not in errors


@pytest.mark.parametrize("deadline", [[], ["--deadline", "30"]])
def test_an_error_after_responses(stream: Cli, deadline: list[str]) -> None:
    """The responses before the error are printed."""
    text = b'{"seq": 1}\n{"msg": "err"}\n{"seq": 2}\n'
    done = stream("EchoStream", *deadline, stdin=text)
    assert (done.returncode, lines(done)) == (1, [{"seq": 2}])
    assert done.stderr == b"rsocket-trio: error: UNKNOWN: stream err\n"
    done = stream("EchoStream", "--json", stdin=text)
    assert json.loads(done.stderr)["error"]["message"] == "stream err"


@pytest.mark.parametrize("method", ["EchoStream", "SumStream"])
def test_a_deadline(start_cli: StartCli, arguments: Callable[..., list[str]], method: str) -> None:
    """A call that waits for its input ends with its deadline."""
    process = start_cli(*arguments(method, "--deadline", "0.1"))
    assert process.stderr is not None
    assert process.stderr.read().startswith(
        b"rsocket-trio: error: DEADLINE_EXCEEDED: the call did not end within 0.1 s"
    )
    assert process.wait(20) == 1


@pytest.mark.parametrize("method", ["EchoStream", "SumStream"])
def test_a_wrong_line(stream: Cli, method: str) -> None:
    """A line that is no request ends the command, with status 2."""
    done = stream(method, stdin=b'{}\n\n{"x": 1}\n')
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "error: line 3: a request must be" in said
    assert 'has no field named "x" at' in said
    assert "\\n" not in said
    done = stream(method, "{}", "{")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"error: request 2: a request must be" in done.stderr


@pytest.mark.parametrize(("method", "before"), [("EchoStream", [{"seq": 2}]), ("EchoNull", [])])
def test_a_request_that_is_too_long(stream: Cli, method: str, before: list[object]) -> None:
    """It is not sent, and the command fails, but responses before it are printed."""
    text = b'{"seq": 1}\n{"msg": "%s"}\n' % (b"x" * 5 * 2**20)
    done = stream(method, stdin=text)
    assert (done.returncode, lines(done)) == (1, before)
    assert done.stderr.startswith(b"rsocket-trio: error: RESOURCE_EXHAUSTED: ")


def test_a_method_without_streams(stream: Cli) -> None:
    """There is another command for it."""
    done = stream("Echo")
    assert done.returncode == 2
    assert b"Streaming/Echo has no stream: use rsocket-trio ttrpc call" in done.stderr


def test_a_reader_that_has_gone(start_cli: StartCli, arguments: Callable[..., list[str]]) -> None:
    """The command ends with status 141, without a traceback."""
    process = start_cli(*arguments("EchoStream"))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"{}\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"{}\n")
    process.stdin.flush()
    assert process.wait(20) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
