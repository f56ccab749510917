"""``serve --metrics``: what a scraper reads at the address of ``--health``."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from rsocket_trio.cli.exits import Failure
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.cli.metrics import Metrics
from rsocket_trio.cli.serving import Deployment

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
    """Each call is there once, also with a meter of the application, and with two servers."""
    (tmp_path / "app.py").write_text(APP)
    process = start_cli("serve", f"app.py:{target}", *listen, *HEALTH, "--metrics")
    assert process.stdout is not None
    lines = [process.stdout.readline().decode().split() for _ in range(len(listen) // 2 + 1)]
    cli("request", lines[0][-1], "21", "--route", "double")
    with urlopen(f"{lines[-1][-1]}/metrics") as answer:
        found = answer.read().decode().splitlines()
    assert 'rsocket_trio_connections_accepted_total{wire="rsocket"} 1.0' in found
    for line in expected:
        assert found.count(line) == 1
    assert bool(expected) == any("calls_started" in line for line in found)


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
        Metrics(Deployment(args), None)
