"""``lumberjack ship``: files to a server, and what the user is told."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from rsocket_trio import os_support

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
Start = Callable[..., subprocess.Popen[bytes]]
SHIP = ("lumberjack", "ship")


class Server:
    """``lumberjack serve`` in a process, and the events that it has printed."""

    def __init__(self, start_cli: Start, *options: str, scheme: str = "lumberjack") -> None:
        self.process = start_cli(
            "lumberjack", "serve", "--listen", f"{scheme}://127.0.0.1:0", "--quiet", *options
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("listening on "), line
        self.uri = line.removeprefix("listening on ").strip()

    def events(self, count: int) -> list[dict[str, Any]]:
        assert self.process.stdout is not None
        return [json.loads(self.process.stdout.readline()) for _ in range(count)]

    def messages(self, count: int) -> list[str]:
        return [event["message"] for event in self.events(count)]


@pytest.fixture
def server(start_cli: Start) -> Server:
    return Server(start_cli)


@pytest.fixture
def nowhere() -> Iterator[str]:
    """The address of a port that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"lumberjack://127.0.0.1:{bound.getsockname()[1]}"


def test_a_file_is_shipped_once(cli: Cli, server: Server, tmp_path: Path) -> None:
    """The second run ships only what is new, and says so."""
    (tmp_path / "a.log").write_bytes(b"one\r\ntwo\nthree")
    command = (*SHIP, "a.log", "--to", server.uri, "--registry", "reg/istry.json")
    done = cli(*command, "--field", "env=test", "--host", "web1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"shipped 3 lines, 14 bytes, of 1 file\n"
    first, *others = server.events(3)
    identity = first["log"]["file"].pop("id")
    assert re.fullmatch("[0-9a-f]{16}", identity)
    assert {event["log"]["file"]["id"] for event in others} == {identity}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("@timestamp"))
    assert first == {
        "message": "one",
        "log": {"file": {"path": str(tmp_path / "a.log")}, "offset": 0},
        "host": {"name": "web1"},
        "fields": {"env": "test"},
    }
    assert [event["message"] for event in others] == ["two", "three"]
    done = cli(*command)
    nothing = f"shipped 0 lines: nothing is new (registry {tmp_path / 'reg' / 'istry.json'})\n"
    assert done.stdout.decode() == nothing
    with (tmp_path / "a.log").open("a") as file:
        file.write("\nfour\n")
    assert cli(*command).returncode == 0
    later = server.events(2)
    assert [event["message"] for event in later] == ["", "four"]
    assert {event["log"]["file"]["id"] for event in later} == {identity}


def test_a_registry_whose_name_is_not_text(cli: Cli, server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n")
    registry = os.fsdecode(bytes(tmp_path) + b"/r\xff.json")
    for found in (b"shipped 1 line", rb"r\udcff.json)"):
        done = cli(*SHIP, str(tmp_path / "a.log"), "--to", server.uri, "--registry", registry)
        assert (done.returncode, found in done.stdout) == (0, True), done


def test_the_default_registry(
    cli: Cli, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is where the XDG specification says; a relative path there is ignored."""
    (tmp_path / "a.log").write_text("1\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert cli(*SHIP, "a.log", "--to", server.uri).returncode == 0
    assert (tmp_path / "state" / "rsocket-trio" / "ship.json").exists()
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cli(*SHIP, "a.log", "--to", server.uri).returncode == 0
    assert (tmp_path / "home/.local/state/rsocket-trio/ship.json").exists()


def test_no_registry(cli: Cli, server: Server, tmp_path: Path) -> None:
    """Everything is shipped each time, and nothing is written."""
    (tmp_path / "a.log").write_text("1\n")
    for _ in range(2):
        assert cli(*SHIP, "a.log", "--to", server.uri, "--no-registry").returncode == 0
    assert server.messages(2) == ["1", "1"]
    assert os.listdir(tmp_path) == ["a.log"]


def test_version_1(cli: Cli, server: Server, tmp_path: Path) -> None:
    """The keys are those of logstash-forwarder. A byte order mark is no part of a line."""
    (tmp_path / "a.log").write_bytes(f"\ufeff1\n\xe9\n{'x' * 30}\n".encode())
    options = ("--lumberjack-version", "1", "--field", "env=test", "--host", "web1")
    options += ("--max-line", "20")
    assert cli(*SHIP, "a.log", "--to", server.uri, "--no-registry", *options).returncode == 0
    path = str(tmp_path / "a.log")
    events = server.events(3)
    (identity,) = {event.pop("file_id") for event in events}
    cut = events.pop()
    assert (cut["line"], cut["flags"]) == ("x" * 20, "truncated")
    assert re.fullmatch("[0-9a-f]{16}", identity)
    assert events == [
        {"env": "test", "file": path, "host": "web1", "offset": "0", "line": "1"},
        {"env": "test", "file": path, "host": "web1", "offset": "5", "line": "\xe9"},
    ]


def test_multiline_encoding_and_long_lines(cli: Cli, server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"1 caf\xe9\n  at a\n2 " + b"x" * 100 + b"\n")
    options = ("--multiline-start", r"^\d", "--encoding", "latin-1", "--max-line", "20")
    assert cli(*SHIP, "a.log", "--to", server.uri, "--no-registry", *options).returncode == 0
    first, second = server.events(2)
    assert (first["message"], first["log"]["flags"]) == ("1 café\n  at a", ["multiline"])
    assert (second["message"], second["log"]["flags"]) == ("2 " + "x" * 18, ["truncated"])


def test_lines_that_are_json(cli: Cli, server: Server, tmp_path: Path) -> None:
    """Their members are fields; the key of a line is ours; a line that is none is shipped too."""
    lines = ['{"level":"info","message":"m","log":{"offset":-1}}', "text", '{"level":"warn"}']
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    command = (*SHIP, "a.log", "--to", server.uri, "--no-registry", "--json")
    assert (done := cli(*command)).returncode == 0, done
    first, text, last = server.events(3)
    assert (first["level"], first["message"]) == ("info", "m")
    assert first["json"] == {"log": {"offset": -1}}
    assert [event["log"]["offset"] for event in (first, text, last)] == [0, 51, 56]
    assert (text["message"], text["error"]["type"]) == ("text", "json")
    assert cli(*command, "--json-key", "app").returncode == 0
    assert [event.get("app", {}).get("level") for event in server.events(3)] == [
        "info",
        None,
        "warn",
    ]
    done = cli(*command, "--lumberjack-version", "1", "--json-key", "app", "--field", "env=x")
    assert done.returncode == 0
    first, text, _ = server.events(3)
    assert (first["app"], first["env"]) == (lines[0], "x")
    assert (text["line"], json.loads(text["error"])["type"]) == ("text", "json")


def test_an_object_over_several_lines(cli: Cli, server: Server, tmp_path: Path) -> None:
    """Lines are joined before they are read as JSON."""
    (tmp_path / "a.log").write_text('{\n  "a": 1\n}\n{\n  "a": 2\n}\n')
    options = ("--json", "--multiline-start", r"^\{")
    assert cli(*SHIP, "a.log", "--to", server.uri, "--no-registry", *options).returncode == 0
    assert [event["a"] for event in server.events(2)] == [1, 2]


def test_state_as_json(cli: Cli, server: Server, tmp_path: Path) -> None:
    """The last line has the result."""
    (tmp_path / "a.log").write_text("1\n2\n")
    done = cli(*SHIP, "a.log", "--to", server.uri, "--no-registry", "--status-json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["state"] == "done"
    assert (last["lines_read"], last["lines_acknowledged"], last["bytes_acknowledged"]) == (2, 2, 4)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("missing.log",), "cannot read {}/missing.log: No such file or directory"),
        ((".",), "it is a directory"),
        (("*.none",), "no file matches this pattern"),
        (("a.log", "--encoding", "utf-16"), "--encoding: utf-16 is not supported"),
        (("a.log", "--max-line", "3M"), "--max-line may be 2M at most"),
        (("a.log", "--window", "100000"), "--window may be 65536 at most"),
        (("a.log", "--ca", "ca.pem"), "--ca works only with lumberjacks:// addresses"),
        (("a.log", "--field", "no"), "'no' is not NAME=VALUE"),
        (("a.log", "--field", "a=" + "b" * 70_000), "--field and --host are too long"),
        (("a.log", "--json-key", "app"), "--json-key needs --json"),
        (("a.log", "--json", "--json-key", "host"), "--json-key: give another name"),
        (("a.log", "--json", "--json-key", ""), "--json-key: give another name"),
        (("a.log", "--json", "--json-key", "error"), "may have a field 'error'"),
        (("a.log", "--multiline-start", "("), "'(' is no regular expression"),
        (
            ("a.log", "--multiline-start", "a", "--multiline-continue", "b"),
            "give either --multiline-start or --multiline-continue",
        ),
        (("a.log", "--to", "tcp://localhost:1"), "argument --to: 'tcp://localhost:1' is"),
        (("a.log", "--registry", "a.log"), "is no registry"),
    ],
)
def test_wrong_usage(
    cli: Cli, nowhere: str, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    """It is found before anything is sent."""
    (tmp_path / "a.log").write_text("1\n")
    registry = () if "--registry" in arguments else ("--no-registry",)
    done = cli(*SHIP, *arguments, "--to", nowhere, *registry)
    assert done.returncode == 2
    assert text.format(tmp_path) in done.stderr.decode()


def test_files_that_cannot_be_read(cli: Cli, server: Server, tmp_path: Path) -> None:
    """The others are shipped, and the status says that something is missing."""
    (tmp_path / "a.log").write_text("1\n")
    (tmp_path / "b.log").write_text("2\n", "utf-16")
    files = ("missing.log", "a.log", "b.log")
    done = cli(*SHIP, *files, "--to", server.uri, "--registry", "r", "--status-json")
    assert done.returncode == 2
    assert server.messages(1) == ["1"]
    state = json.loads(done.stdout.splitlines()[-1])
    assert (state["files_not_open"], [each["path"] for each in state["not_open"]]) == (
        2,
        [str(tmp_path / "missing.log"), str(tmp_path / "b.log")],
    )
    *_, error = done.stderr.decode().splitlines()
    assert f"error: cannot read {tmp_path / 'missing.log'}: No such file or directory; " in error
    assert "it seems to be UTF-16" in error


def test_files_that_are_not_open_at_the_end(
    start_cli: Start, server: Server, tmp_path: Path
) -> None:
    """They are named, with the reasons."""
    (tmp_path / "a.log").write_text("1\n")
    process = start_cli(*SHIP, "--follow", "a.log", "b.log", "--to", server.uri, "--registry", "r")
    assert server.messages(1) == ["1"]
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=20)
    assert (process.returncode, errors.count(b"b.log")) == (0, 1)
    assert output.decode() == (
        "shipped 1 line, 2 bytes, of 1 file; not open yet:\n"
        f"  {tmp_path / 'b.log'}: No such file or directory\n"
    )


def test_links(cli: Cli, server: Server, tmp_path: Path) -> None:
    """A pattern follows none unless it is asked for, and names them."""
    (tmp_path / "secret").write_text("1\n")
    (tmp_path / "a.log").symlink_to("secret")
    (tmp_path / "b.log").write_text("2\n")
    command = (*SHIP, "*.log", "--to", server.uri, "--registry", "r")
    done = cli(*command)
    assert (done.returncode, done.stderr.count(b"a.log is a link")) == (0, 1)
    assert server.messages(1) == ["2"]
    assert cli(*command, "--follow-links").returncode == 0
    assert server.messages(1) == ["1"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_no_permission(cli: Cli, nowhere: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").touch(mode=0)
    done = cli(*SHIP, "a.log", "--to", nowhere, "--no-registry")
    assert done.returncode == 2
    assert b"a.log: Permission denied" in done.stderr


def test_a_system_without_pread(cli: Cli, nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_support, "POSITIONED_READS", False)
    assert b"this system cannot read files" in cli(*SHIP, "a.log", "--to", nowhere).stderr


def test_a_server_that_cannot_be_reached(cli: Cli, nowhere: str, tmp_path: Path) -> None:
    """The reason is printed, and --timeout gives up."""
    (tmp_path / "a.log").write_text("1\n2\n")
    done = cli(*SHIP, "a.log", "--to", nowhere, "--registry", "r", "--timeout", "0.3")
    assert done.returncode == 3
    assert b"Connection refused" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert b"nothing was acknowledged for 0.3 s (--timeout); lines that wait: 2; no server" in last


def test_another_process_has_the_registry(
    start_cli: Start, cli: Cli, nowhere: str, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text("1\n")
    command = (*SHIP, "a.log", "--to", nowhere, "--registry", "r")
    process = start_cli(*command)
    assert process.stderr is not None
    process.stderr.readline()  # it has tried to connect
    done = cli(*command)
    assert done.returncode == 2
    assert f"process {process.pid} uses the registry".encode() in done.stderr


def test_following_until_a_signal(start_cli: Start, server: Server, tmp_path: Path) -> None:
    """New lines, a rotation and a new file; then the status is 0."""
    log = tmp_path / "a.log"
    log.write_text("1\n")
    process = start_cli(
        *SHIP, "--follow", "*.log", "--to", server.uri, "--registry", "r", "--poll", "0.02"
    )
    assert server.messages(1) == ["1"]
    log.rename(tmp_path / "a.log.1")
    log.write_text("2\n")
    assert server.messages(1) == ["2"]
    (tmp_path / "b.log").write_text("3\n4 has no end")
    assert server.messages(1) == ["3"]
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    (line,) = errors.decode().splitlines()
    assert line.endswith(f"INFO rsocket_trio: connected to {server.uri}")
    assert output == b"shipped 3 lines, 6 bytes, of 3 files\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_server_is_away(
    start_cli: Start, nowhere: str, tmp_path: Path, number: int
) -> None:
    """After --grace, the status says that not everything is acknowledged."""
    (tmp_path / "a.log").write_text("1\n2\n")
    process = start_cli(
        *SHIP, "--follow", "a.log", "--to", nowhere, "--registry", "r", "--grace", "0.1"
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(number)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert output == (
        b"shipped 0 lines; 2 more read and not acknowledged: the next run ships them\n"
    )


def test_a_second_signal(start_cli: Start, nowhere: str, tmp_path: Path) -> None:
    """It ends the wait for acknowledgements."""
    (tmp_path / "a.log").write_text("1\n")
    process = start_cli(*SHIP, "a.log", "--to", nowhere, "--registry", "r", "--grace", "1000")
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # two equal signals at once may become one
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143


def test_progress_on_a_terminal(start_cli: Start, nowhere: str, tmp_path: Path) -> None:
    """One line, which is removed before a line of the log, and at the end."""
    (tmp_path / "a.log").write_text("1\n2\n")
    terminal, theirs = os.openpty()
    process = start_cli(
        *SHIP, "a.log", "--to", nowhere, "--no-registry", "--timeout", "1", stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(terminal, 4096):
            shown += block
    except OSError:  # Linux reports the end of a terminal like this
        pass
    finally:
        os.close(terminal)
    assert process.wait(timeout=20) == 3
    clear = b"\r\x1b[K"
    assert b"0 lines, 0 bytes acknowledged, 0 lines/s, 2 wait, not connected" in shown
    for line in shown.split(b"\n"):
        assert b"WARNING" not in line or clear in line.partition(b"WARNING")[0]
    assert clear + b"rsocket-trio: error: gave up" in shown


def test_the_reader_of_the_state_ends(start_cli: Start, nowhere: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("1\n")
    process = start_cli(*SHIP, "a.log", "--to", nowhere, "--no-registry", "--status-json")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 141


def test_a_server_that_does_not_answer(cli: Cli, tmp_path: Path) -> None:
    """The last line says that a server is connected, and what to check."""
    (tmp_path / "a.log").write_text("1\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"lumberjack://127.0.0.1:{silent.getsockname()[1]}"
        done = cli(*SHIP, "a.log", "--to", uri, "--no-registry", "--timeout", "0.5")
    assert done.returncode == 3
    assert b"a server is connected, but acknowledges nothing" in done.stderr


def test_standard_input(cli: Cli) -> None:
    """It is refused, and the message says what to do."""
    done = cli(*SHIP, "-", "--to", "lumberjack://127.0.0.1:1", "--no-registry")
    assert done.returncode == 2
    assert b"standard input cannot be shipped" in done.stderr


def test_tls(start_cli: Start, cli: Cli, tmp_path: Path) -> None:
    """With a certificate of the client; without --ca, the server is not trusted."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("127.0.0.1", "client"):
        authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(
            tmp_path / f"{name}.pem"
        )
    server = Server(start_cli, "--cert", "127.0.0.1.pem", "--ca", "ca.pem", scheme="lumberjacks")
    (tmp_path / "a.log").write_text("1\n")
    command = (*SHIP, "a.log", "--to", server.uri, "--no-registry", "--cert", "client.pem")
    refused = cli(*command, "--timeout", "1")
    assert refused.returncode == 3
    assert b"the authority that issued it is not trusted (--ca, " in refused.stderr
    assert cli(*command, "--ca", "ca.pem").returncode == 0
    assert cli(*command, "--insecure").returncode == 0
    named = ("--ca", "ca.pem", "--tls-server-name")
    assert cli(*command, *named, "127.0.0.1").returncode == 0
    assert cli(*command, *named, "localhost", "--timeout", "1").returncode == 3
    assert server.messages(3) == ["1", "1", "1"]
