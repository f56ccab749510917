"""``--metrics``: what a scraper reads at the address of ``--health``."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from rsocket_trio.cli.exits import Failure
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.cli.serving import Deployment
from tests.cli.senders import Sender

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
StartCli = Callable[..., subprocess.Popen[bytes]]

APP = """\
from rsocket_trio import CallMeter, Responder, Router

app = Router()
counted = Router(middleware=[CallMeter()])
other = Responder()

@app.request_response("double")
@counted.request_response("double")
async def double(data: int) -> int:
    return data * 2
"""

TCP = ("--listen", "tcp://127.0.0.1:0")
RSIO = ("--listen", "rsio://127.0.0.1:0")
WORKERS = ("--workers", "2")
HEALTH = ("--health", "http://127.0.0.1:0")


def call(kind: str) -> str:
    labels = f'interaction="request_response",route="{kind}"'
    return f"rsocket_trio_calls_started_total{{{labels}}} 1.0"


@pytest.mark.parametrize(
    ("target", "listen", "expected"),
    [
        ("app", TCP, [call("double")]),
        ("counted", TCP, [call("double")]),
        ("app", TCP + RSIO, [call("double"), 'rsocket_trio_connections{wire="rsio"} 0.0']),
        ("counted", TCP + RSIO, [call("double")]),
        ("other", TCP, []),
        (
            "app",
            TCP + RSIO + WORKERS,
            [call("double"), 'rsocket_trio_connections{wire="rsio"} 0.0'],
        ),
    ],
)
def test_a_scrape(
    start_cli: StartCli,
    cli: Cli,
    tmp_path: Path,
    target: str,
    listen: tuple[str, ...],
    expected: list[str],
) -> None:
    """Each call is there once, also with a meter of the application, and with several servers."""
    (tmp_path / "app.py").write_text(APP)
    process = start_cli("serve", f"app.py:{target}", *listen, *HEALTH, "--metrics")
    assert process.stdout is not None
    lines = [
        process.stdout.readline().decode().split() for _ in range(listen.count("--listen") + 1)
    ]
    cli("request", lines[0][-1], "21", "--route", "double")
    with urlopen(f"{lines[-1][-1]}/metrics") as answer:
        found = answer.read().decode().splitlines()
    assert 'rsocket_trio_connections_accepted_total{wire="rsocket"} 1.0' in found
    for line in expected:
        assert found.count(line) == 1
    assert bool(expected) == any("calls_started" in line for line in found)


SERVICE = """\
from rsocket_trio import ttrpc

app = ttrpc.Service("birds.Parrot")

@app.method("Say")
async def say(words: bytes) -> bytes:
    return words
"""


@pytest.mark.parametrize("wire", ["ttrpc", "lumberjack"])
def test_other_wires(start_cli: StartCli, cli: Cli, tmp_path: Path, wire: str) -> None:
    """Their servers have the page and the lines, also where no Router is served."""
    (tmp_path / "app.py").write_text(SERVICE)
    arguments = ["app.py", "--listen", "tcp://127.0.0.1:0"]
    if wire == "lumberjack":
        arguments = ["--listen", "lumberjack://127.0.0.1:0"]
    options = ["--metrics", "--access-log", "access.log", "--access-log-format", "json"]
    process = start_cli(wire, "serve", *arguments, *HEALTH, *options)
    assert process.stdout is not None
    uri, pages = (process.stdout.readline().decode().split()[-1] for _ in range(2))
    if wire == "ttrpc":
        assert cli("ttrpc", "call", uri, "birds.Parrot/Say", "0a", "--hex").stdout == b"0a\n"
        kind, route = "request_response", "birds.Parrot/Say"
    else:
        with Sender(int(uri.rpartition(":")[2])) as sender:
            sender.send(b"{}", b"{}")
            assert 2 in sender.acks(2)
        kind, route = "events", ""
    with urlopen(f"{pages}/metrics") as answer:
        found = answer.read().decode()
    assert f'rsocket_trio_calls_started_total{{interaction="{kind}",route="{route}"}} 1.0' in found
    assert f'rsocket_trio_connections_accepted_total{{wire="{wire}"}} 1.0' in found
    process.terminate()
    assert process.wait(20) == 0
    line = json.loads((tmp_path / "access.log").read_text())
    assert (line["interaction"], line["route"], line["outcome"]) == (kind, route, "completed")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], b"--metrics needs --health URL"),
    ],
)
def test_refusals(cli: Cli, tmp_path: Path, options: list[str], text: bytes) -> None:
    """They come before anything listens, and say why."""
    (tmp_path / "app.py").write_text(APP)
    done = cli("serve", "app.py", *TCP, "--metrics", *options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert text in done.stderr


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.delitem(sys.modules, "rsocket_trio.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    args = build_parser().parse_args(["serve", "app.py", *TCP, *HEALTH, "--metrics"])
    with pytest.raises(Failure, match=r"rsocket-trio\[metrics\]"):
        with Deployment(args).observing(None):
            raise AssertionError("observed")
