"""``--access-log``: lines in a file or on standard output, which nobody may read."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]
Start = Callable[..., tuple[subprocess.Popen[bytes], str]]

APP = """\
from rsocket_trio import Responder, Router

app = Router()
other = Responder()

@app.request_response("double.{room}")
async def double(room: str, data: int) -> int:
    return data * 2
"""


@pytest.fixture
def start(start_cli: StartCli, tmp_path: Path) -> Start:
    (tmp_path / "app.py").write_text(APP)

    def begin(*options: str) -> tuple[subprocess.Popen[bytes], str]:
        process = start_cli("serve", "app.py", "--listen", "tcp://127.0.0.1:0", *options)
        assert process.stdout is not None
        uri = process.stdout.readline().decode().removeprefix("listening on ").strip()
        return process, uri

    return begin


def test_a_file_of_json(start: Start, cli: Cli, tmp_path: Path) -> None:
    """A line for each call is there at the end, and what was left out is summed up."""
    process, uri = start("--access-log", "access.log", "--access-log-format", "json")
    cli("request", uri, "21", "--route", "double.secret")
    for _ in range(12):
        cli("request", uri, "21", "--route", "secret")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert (lines[0]["route"], lines[0]["outcome"]) == ("double.{room}", "completed")
    assert lines[0]["peer"].startswith("127.0.0.1:")
    left_out = [each["count"] for each in lines if each.get("event") == "left out"]
    assert len(lines) - len(left_out) + sum(left_out) == 13
    assert "secret" not in str(lines)


def test_standard_output_that_nobody_reads_stops_no_server(start: Start, cli: Cli) -> None:
    """A full pipe: lines are dropped, calls are answered, and the server stops when it is told."""
    process, uri = start("--access-log")
    for _ in range(2):
        done = cli("bench", uri, "--route", "double.x", "--data", "21", "--duration", "1")
        assert done.returncode == 0, done.stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert process.stdout is not None
    assert b" route=double.{room} peer=127.0.0.1:" in process.stdout.readline()


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_workers_write_into_one_file(start: Start, start_cli: StartCli, tmp_path: Path) -> None:
    """Each call of each worker has one whole line, also after a generation has taken over."""
    process, uri = start("--access-log", "access.log", "--workers", "2")
    assert process.stderr is not None
    options = ("--route", "double.x", "--data", "21", "--duration", "0.2", "--warmup", "0")
    answers = 0
    for _ in range(2):
        runs = [start_cli("bench", uri, *options, "--json") for _ in range(2)]  # one at each worker
        answers += sum(json.loads(each.communicate()[0])["requests"] for each in runs)
        process.send_signal(signal.SIGHUP)
        while b"new connections get what is now in the files" not in process.stderr.readline():
            pass
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    lines = (tmp_path / "access.log").read_text().splitlines()
    whole = re.compile(r"time=\S+ interaction=request_response route=double.\{room\} peer=(\S+) .*")
    found = [whole.fullmatch(line) for line in lines]
    assert len({each[1] for each in found if each is not None}) == 4
    assert None not in found
    assert len(lines) >= answers


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["app.py:other", "--access-log"], b"--access-log needs a Router, and the target is a"),
        (["app.py", "--access-log", "no/such/file"], b"cannot write to no/such/file: No such file"),
        (["app.py", "--access-log-format", "json"], b"--access-log-format needs --access-log"),
    ],
)
def test_refusals(cli: Cli, tmp_path: Path, arguments: list[str], text: bytes) -> None:
    (tmp_path / "app.py").write_text(APP)
    done = cli("serve", *arguments, "--listen", "tcp://127.0.0.1:0")
    assert done.returncode
    assert text in done.stderr


def test_events_and_lines_do_not_mix(cli: Cli) -> None:
    """``lumberjack serve`` prints events there, unless it has a spool."""
    done = cli("lumberjack", "serve", "--listen", "lumberjack://127.0.0.1:0", "--access-log")
    assert done.returncode == 2
    assert b"standard output has the events: --access-log needs a FILE" in done.stderr
