"""``bench``: its figures and its table."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rsocket_trio.cli import pace as pace_module
from rsocket_trio.cli.pace import Pace
from rsocket_trio.cli.tally import Tally
from rsocket_trio.errors import Invalid, Rejected

Cli = Callable[..., subprocess.CompletedProcess[bytes]]
SHORT = ("--warmup", "0.1", "--duration", "0.3")


@pytest.mark.parametrize(
    ("interaction", "options", "items"),
    [
        ("request_response", ("--concurrency", "8"), True),
        ("request_stream", ("--data", "500", "--prefetch", "32"), True),
        ("request_stream", ("--data", "0"), False),
        ("request_channel", ("--items", "50", "--size", "10"), True),
        ("fire_and_forget", ("--data", "x", "--route", "log"), False),
        ("request_response", ("--data", "empty"), False),
    ],
)
def test_figures_of_every_interaction(
    cli: Cli, server: dict[str, str], interaction: str, options: tuple[str, ...], items: bool
) -> None:
    """Requests, items and latencies are counted for every interaction."""
    done = cli(
        "bench", "--raw", server["tcp"], "--interaction", interaction, "--json", *SHORT, *options
    )
    assert (done.returncode, done.stderr) == (0, b"")
    figures = json.loads(done.stdout)
    assert figures["interaction"] == interaction
    assert figures["requests"] > 0
    assert figures["requests_per_second"] > 0
    assert (figures["items"] > 0) is items
    assert figures["errors"] == {}
    latency = figures["latency_ms"]
    assert (
        0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
    )


def test_figures_are_a_table_by_default(cli: Cli, server: dict[str, str]) -> None:
    done = cli("bench", "--raw", server["tcp"], *SHORT)
    names = [line.rpartition("  ")[0].strip() for line in done.stdout.decode().splitlines()]
    assert done.returncode == 0
    assert names[0].startswith("uri")
    assert done.stdout.splitlines()[-1].startswith(b"latency ms           p50 ")


@pytest.mark.parametrize("mime", ["application/cbor", "application/json", "text/plain"])
def test_a_router_reads_data_of_a_size(start_cli, cli: Cli, tmp_path: Path, mime: str) -> None:
    """They are a text of its type, so a bench without --data has no errors."""
    (tmp_path / "app.py").write_text(
        "from rsocket_trio import Router\n"
        "router = Router()\n"
        "@router.request_response('length')\n"
        "async def length(text: str) -> int:\n"
        "    assert len(text) == 300\n"
        "    return 1\n"
    )
    server = start_cli("serve", str(tmp_path / "app.py"), "--listen", "tcp://127.0.0.1:0")
    uri = server.stdout.readline().decode().removeprefix("listening on ").strip()
    what = ("--route", "length", "--size", "300", "--data-mime", mime)
    done = cli("bench", uri, *what, *SHORT, "--json")
    assert (done.returncode, json.loads(done.stdout)["errors"]) == (0, {})


def test_errors_are_counted(cli: Cli, server: dict[str, str]) -> None:
    """Errors of the peer are counted, the first is printed, and the status is 1."""
    done = cli("bench", "--raw", server["tcp"], "--data", "error:no", "--json", *SHORT)
    figures = json.loads(done.stdout)
    assert done.returncode == 1
    assert figures["requests"] == 0
    assert figures["errors"]["ApplicationError"] > 0
    assert figures["latency_ms"] == dict.fromkeys(["p50", "p90", "p99", "p99.9", "max"])
    assert done.stderr == b"first error: APPLICATION_ERROR: no\n"
    table = cli("bench", "--raw", server["tcp"], "--data", "error:no", "--quiet", *SHORT)
    assert b"p50 -  p90 -" in table.stdout
    assert table.stderr == b""


def test_a_lost_connection(start_cli: Callable[..., subprocess.Popen[bytes]]) -> None:
    """It is one line, and status 3, however many requests were open; and what was measured."""
    target = "rsocket_trio.testing.peer:app"
    serving = start_cli("serve", target, "--listen", "tcp://127.0.0.1:0")
    assert serving.stdout is not None
    uri = serving.stdout.readline().decode().removeprefix("listening on ").strip()
    terminal, theirs = os.openpty()
    process = start_cli(
        "bench", "--raw", uri, "--concurrency", "8", "--duration", "1000", "--json", stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while b"measuring: " not in shown:
        shown += os.read(terminal, 1000)
    serving.send_signal(signal.SIGKILL)
    assert process.wait() == 3
    rest = os.read(terminal, 1000)
    os.close(terminal)
    assert rest.count(b"rsocket-trio: error: ") == 1
    assert process.stdout is not None
    figures = json.loads(process.stdout.read())
    assert figures["whole"] is False
    assert figures["requests"] > 0


def test_a_rate_that_the_peer_cannot_keep(cli: Cli, server: dict[str, str]) -> None:
    """Requests that begin late count from when they should have begun; others are not hidden."""
    done = cli(
        "bench", "--raw", server["tcp"], "--data", "0", "--json", *SHORT,
        "--rate", "1000000", "--concurrency", "2", "--ramp", "0.1",
    )  # fmt: skip
    figures = json.loads(done.stdout)
    assert done.returncode == 0
    assert figures["intended_per_second"] == 1_000_000
    assert figures["not_begun"] > 1000
    assert figures["requests_per_second"] < 500_000
    # The last answers came to requests of the beginning: of a time before the measurement.
    assert figures["latency_ms"]["max"] > 300


def test_the_times_of_a_rate() -> None:
    """In the ramp there are half as many requests as behind it in the same time."""
    pace = Pace(rate=100, ramp=2)
    times = [pace.due(number) for number in range(300)]
    assert times == sorted(times)
    assert (times[0], times[25], times[100], times[200]) == (0, 1, 2, 3)
    assert Pace(rate=4, ramp=0).due(6) == 1.5


async def test_late_requests_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that should have begun by now, in the ramp too."""
    now = 0.0
    monkeypatch.setattr(pace_module, "perf_counter_ns", lambda: int(now * 1e9))
    pace = Pace(rate=10, ramp=2)
    now = 1.0
    assert pace.late == 3  # at 0, 0.63 and 0.89 seconds
    assert [await pace.next() / 1e9 for _ in range(2)] == pytest.approx([0, 0.632], abs=0.001)
    assert pace.late == 1
    now = 3.0
    assert pace.late == 10 + 10 + 1 - 2


def test_the_warm_up_does_not_count() -> None:
    """Results of the warm-up are dropped."""
    tally = Tally()
    assert tally.phase == "warm-up"
    tally.answered(tally._began)
    tally.items += 3
    tally.error(Invalid("early"))
    tally.start()
    assert tally.phase == "measuring"
    assert (tally.requests, tally.items, tally.first_error) == (0, 0, None)
    assert set(tally.latencies_ms().values()) == {None}


def test_tally_of_errors() -> None:
    """Errors are counted by kind, so that many different texts cost no memory."""
    tally = Tally()
    for number in range(100):
        tally.error(Rejected(f"number {number}"))
    tally.error(Invalid("other"))
    assert tally.errors == {"Rejected": 100, "Invalid": 1}
    assert tally.first_error == "REJECTED: number 0"


def test_a_tally_that_has_stopped() -> None:
    """Its time does not go on."""
    tally = Tally()
    tally.stop()
    assert tally.seconds == tally.seconds
    assert tally.per_second(0) == 0
