"""``ttrpc call`` against a server with known answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import PROTOS

Cli = Callable[..., "subprocess.CompletedProcess[bytes]"]
Call = Callable[..., "subprocess.CompletedProcess[bytes]"]

ECHO = "ttrpc.integration.streaming.Streaming/Echo"


@pytest.fixture
def call(cli: Cli, ttrpc_server: str, descriptor_set: str) -> Call:
    """Call a method of the server, with the types of the descriptor set."""

    def run(method: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        types = ("--descriptor-set", descriptor_set)
        return cli("ttrpc", "call", ttrpc_server, method, *types, *arguments, stdin=stdin)

    return run


def test_a_response_is_printed(call: Call) -> None:
    """Request and response are JSON; characters that a terminal obeys are escaped."""
    done = call(ECHO, '{"seq": 1, "msg": "hällo\\u009b"}')
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == '{"seq": 2, "msg": "hällo\\u009b"}\n'.encode()


@pytest.mark.parametrize("method", [ECHO, f"/{ECHO}"])
def test_a_request_without_data(call: Call, method: str) -> None:
    """It is an empty message. The method may begin with a slash, as others write it."""
    assert call(method).stdout == b'{"seq": 1}\n'


def test_ways_to_give_the_request(call: Call, tmp_path: Path) -> None:
    """The request is an argument, an option, a file or standard input."""
    (tmp_path / "request.json").write_text('{\n  "seq": 5\n}\n')
    for arguments in (["@request.json"], ["-"], ["--data", "@request.json"], ["--data", "-"]):
        assert call(ECHO, *arguments, stdin=b'{"seq":5}').stdout == b'{"seq": 6}\n'
    assert call(ECHO, "--data", '{"seq": 5}').stdout == b'{"seq": 6}\n'
    done = call(ECHO, "{}", "--data", "{}")
    assert done.returncode == 2
    assert b"DATA and --data mean the same: give only one" in done.stderr


def test_defaults(call: Call) -> None:
    """--defaults prints all fields."""
    assert json.loads(call(ECHO, "--defaults").stdout) == {"seq": 1, "msg": ""}


def test_types_of_a_proto_file(cli: Cli, ttrpc_server: str) -> None:
    """--proto compiles the file."""
    types = ("--proto", str(PROTOS / "streaming.proto"))
    done = cli("ttrpc", "call", ttrpc_server, ECHO, '{"msg": "a"}', *types)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"seq": 1, "msg": "a"}\n', b"")


def test_bytes(cli: Cli, call: Call, ttrpc_server: str) -> None:
    """--hex needs no types; with types, the messages are still bytes."""
    done = cli("ttrpc", "call", ttrpc_server, ECHO, "0801 1203616263", "--hex")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"08021203616263\n", b"")
    assert call(ECHO, "0801", "--hex").stdout == b"0802\n"
    done = cli("ttrpc", "call", ttrpc_server, ECHO, "080", "--hex")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"a request is not hexadecimal" in done.stderr


def test_metadata(call: Call) -> None:
    """Pairs are sent in order, also those with the same key; a value may have an =."""
    pairs = ("--metadata", "k=1", "--metadata", "K=2=3", "--metadata", "k=")
    done = call(ECHO, '{"msg": "md"}', *pairs)
    assert json.loads(done.stdout)["msg"] == "map[K:[2=3] k:[1 ]]"
    done = call(ECHO, "--metadata", "text")
    assert done.returncode == 2
    assert b"an entry is KEY=VALUE" in done.stderr


def test_a_deadline(call: Call) -> None:
    """The peer learns the deadline, and a call ends with it."""
    assert json.loads(call(ECHO, '{"msg": "deadline"}').stdout)["msg"] == "nodl"
    answer = json.loads(call(ECHO, '{"msg": "deadline"}', "--deadline", "60").stdout)["msg"]
    assert 50_000 < int(answer.removeprefix("dl=")) <= 60_000
    done = call(ECHO, '{"msg": "sleep"}', "--deadline", "0.05")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: DEADLINE_EXCEEDED: ")


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("test.Failing/Number", "code 77: a code of its own"),
        ("ttrpc.integration.streaming.Streaming/Missing", "UNIMPLEMENTED: method Missing"),
    ],
)
def test_an_error_of_the_peer(call: Call, method: str, line: str) -> None:
    """It is one line with code and text, and status 1."""
    done = call(method)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"rsocket-trio: error: {line}\n"


def test_details_of_an_error(call: Call) -> None:
    """Each detail is a line; a text of the peer cannot control the terminal."""
    done = call("test.Failing/Known", '{"seq": 7}')
    assert (done.returncode, done.stdout) == (1, b"")
    lines = done.stderr.decode().splitlines()
    assert lines[0] == "rsocket-trio: error: NOT_FOUND: no such\\ntask\\x1b[31m"
    details = [json.loads(line.removeprefix("rsocket-trio: detail: ")) for line in lines[1:]]
    assert details == [
        {"@type": "type.googleapis.com/ttrpc.integration.streaming.EchoPayload", "seq": 7},
        {"@type": "x/Unknown", "value_hex": "ff"},
    ]


def test_an_error_as_json(cli: Cli, call: Call, ttrpc_server: str) -> None:
    """--json prints an error as an object on standard error; without types details are bytes."""
    error = json.loads(call("test.Failing/Number", "--json").stderr)["error"]
    assert error == {"code": 77, "status": None, "message": "a code of its own", "details": []}
    done = cli("ttrpc", "call", ttrpc_server, "test.Failing/Known", "0807", "--hex", "--json")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["status"]) == (5, "NOT_FOUND")
    assert error["message"] == "no such\ntask\x1b[31m"
    assert [each["value_hex"] for each in error["details"]] == ["0807", "ff"]


def test_a_response_of_another_type(call: Call) -> None:
    """It is an error, and not of the connection."""
    done = call("test.Failing/Reserved")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: ")
    assert b"Traceback" not in done.stderr


def test_a_response_that_has_no_json(call: Call) -> None:
    """JSON needs the types of all that is in a message; bytes do not."""
    done = call("test.Failing/Wrapped")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"error: the message has no JSON form: " in done.stderr
    assert b"; --hex prints the bytes\n" in done.stderr
    assert call("test.Failing/Wrapped", "--hex").stdout == b"0a09782f556e6b6e6f776e1201ff\n"


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (ECHO, ['{"number": 1}'], 'has no field named "number"'),
        (ECHO, ["{"], "a request must be EchoPayload as JSON: Failed to load JSON"),
        (ECHO, ["[1]"], "a request must be EchoPayload as JSON: "),
        (ECHO, ["1"], "a request must be EchoPayload as JSON: "),
        (ECHO, ['{"seq": -1}'], "a request must be EchoPayload as JSON: "),
        (ECHO, ['{"seq": "x"}'], "a request must be EchoPayload as JSON: "),
        (ECHO, ["[" * 100_000], "a request must be EchoPayload as JSON: "),
        (ECHO, ["@missing"], "cannot read 'missing': No such file or directory"),
        ("Echo", [], "'Echo' is not SERVICE/METHOD, e.g. package.Service/Method"),
        (
            "test.Other/Echo",
            [],
            "there is no service 'test.Other'; there are: test.Failing, ttrpc.",
        ),
        ("test.Failing/Echo", [], "test.Failing has no method 'Echo'; it has: Known, Number"),
        (ECHO + "Stream", [], "is bidi_stream: use rsocket-trio ttrpc stream"),
    ],
)
def test_wrong_requests(call: Call, method: str, arguments: list[str], message: str) -> None:
    """They are found before the call, with one line that says what is wrong."""
    done = call(method, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1
    assert message in done.stderr.decode()


def test_unknown_types(cli: Cli, ttrpc_server: str) -> None:
    """Without types there is only --hex, and the error says so."""
    done = cli("ttrpc", "call", ttrpc_server, ECHO)
    assert done.returncode == 2
    assert b"use --proto FILE or --descriptor-set FILE, or --hex for bytes" in done.stderr
    done = cli("ttrpc", "call", ttrpc_server, "Echo", "--hex")
    assert done.returncode == 2
    assert b"'Echo' is not SERVICE/METHOD" in done.stderr


def test_no_server(cli: Cli, tmp_path: Path) -> None:
    """There is one line, with the address, and status 3."""
    done = cli("ttrpc", "call", f"unix://{tmp_path}/nothing", ECHO, "--hex")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"rsocket-trio: error: cannot connect to ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("uri", ["http://x", "ws://x", "unix://", "lumberjack://x:1", "x"])
def test_wrong_addresses(cli: Cli, uri: str) -> None:
    """Addresses of other protocols are wrong usage."""
    done = cli("ttrpc", "call", uri, ECHO, "--hex")
    assert done.returncode == 2
    assert done.stderr.startswith(b"rsocket-trio ttrpc call: error: argument URI: ")


@pytest.mark.parametrize("command", ["list", "describe", "call", "stream", "serve"])
def test_help(cli: Cli, command: str) -> None:
    """Each command has help, with examples and the exit statuses."""
    done = cli("ttrpc", command, "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"examples:\n  rsocket-trio ttrpc {command} ".encode() in done.stdout
    assert b"exit status:" in done.stdout
