"""``--wiretap`` and ``--wiretap-file``: frames as they pass, which ``decode`` takes back."""

from __future__ import annotations

import json
import re
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
PREFIX = re.compile(rb"^[-0-9]+ [0-9:,]+ INFO rsocket_trio\.cli\.wiretap: ", re.MULTILINE)


@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
def test_frames_as_they_pass(cli: Cli, server: dict[str, str], scheme: str, tmp_path: Path):
    """Text on standard error, JSON in the file; the output is as it was."""
    file = tmp_path / "frames"
    done = cli(
        "request", server[scheme], "ping", "--route", "echo", "--raw", "--auth-bearer", "PASSWORD",
        "--setup-data", "0x504153", "--wiretap", "--wiretap-file", str(file),
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (b"ping\n", 0)
    lines = PREFIX.sub(b"", done.stderr).decode().splitlines()
    assert re.match(r"#1 to .", lines[0])
    words = [line.split()[1:3] for line in lines[1:]]
    assert words[0] == ["->", "SETUP"]
    assert ["<-", "PAYLOAD"] in words
    assert any("REQUEST_RESPONSE" in line and line.endswith("route='echo'") for line in lines)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = file.read_text()
    assert b"PASSWORD".hex() not in written
    assert "PASSWORD" not in done.stderr.decode()
    kept = [json.loads(line) for line in written.splitlines()]
    assert [each["direction"] for each in kept] == [
        {"->": "sent", "<-": "received"}[word] for word, _ in words
    ]
    again = cli("decode", f"@{file}")
    assert again.returncode == 0
    assert again.stdout.decode().splitlines() == lines[1:]
    (setup, *_) = map(json.loads, cli("decode", "--json", f"@{file}").stdout.splitlines())
    assert (setup["type"], setup["direction"], setup["connection"]) == ("SETUP", "sent", 1)
    assert setup["metadata"] == [{"mime": "message/x.rsocket.authentication.v0", "auth": "bearer"}]


def test_the_file_alone(cli: Cli, server: dict[str, str]):
    """Nothing is printed for it, also where the log has all that the command does."""
    done = cli("request", server["tcp"], "ping", "--raw", "--verbose", "--wiretap-file", "frames")
    assert done.returncode == 0
    assert b"wiretap" not in done.stderr


def test_the_file_cannot_be_written(cli: Cli, server: dict[str, str], tmp_path: Path):
    """An error of one line, before a connection is made."""
    done = cli("request", server["tcp"], "--wiretap-file", str(tmp_path / "no" / "file"))
    assert done.returncode == 2
    assert b"--wiretap-file: cannot write" in done.stderr


def test_a_server(start_cli: Callable[..., subprocess.Popen[bytes]], cli: Cli, tmp_path: Path):
    """Both protocols of a port, several connections, and other wires by their addresses."""
    file = tmp_path / "frames"
    process = start_cli(
        "serve", "rsocket_trio.testing.peer:app", "--listen", "tcp://127.0.0.1:0",
        "--wiretap-file", str(file),
    )  # fmt: skip
    assert process.stdout is not None
    uri = process.stdout.readline().decode().split()[-1]
    for protocol in ("rsocket", "reactivesocket"):
        done = cli("request", uri, "ping", "--route", "echo", "--raw", "--protocol", protocol)
        assert done.stdout == b"ping\n"
    process.terminate()
    assert process.wait() == 0
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(each["connection"], each["protocol"]) for each in kept} == {
        (1, "rsocket"),
        (2, "reactivesocket"),
    }
    assert cli("decode", f"@{file}").returncode == 0


def test_inherited_sockets(start_cli: Callable[..., subprocess.Popen[bytes]], cli: Cli):
    """A listener that is open already gives connections like others."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        descriptor, port = listener.fileno(), listener.getsockname()[1]
        process = start_cli(
            "serve", "rsocket_trio.testing.peer:app", "--listen", f"fd://{descriptor}", "--wiretap",
            pass_fds=[descriptor],
        )  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        assert cli("request", f"tcp://127.0.0.1:{port}", "ping", "--raw").returncode == 0
    process.terminate()
    assert b"<- REQUEST_RESPONSE" in process.communicate()[1]


def test_workers_do_not_share_a_file(cli: Cli):
    """They would write over the lines of each other."""
    done = cli(
        "serve", "app.py", "--listen", "tcp://127.0.0.1:0", "--workers", "2", "--wiretap-file", "x"
    )
    assert (done.returncode, Path("x").exists()) == (2, False)
    assert b"--wiretap-file does not work with --workers: use --wiretap" in done.stderr
