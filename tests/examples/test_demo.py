"""``make demo``: its output, also when a part of it fails."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

INTERACTIONS = (
    "request_response",
    "request_stream",
    "request_channel",
    "fire_and_forget",
    "metadata_push",
)
PARTS = ("demo.py", "demo_logs.py", "demo_processes.py")


def test_the_demo_works(run):
    """Every interaction is shown over both transports, with bytes, rate, peak and window."""
    done = run("demo.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    telemetry, logs = done.stdout.split("\na log file: ")
    _, tcp, ws = telemetry.split("\nclient over ")
    assert tcp.startswith("tcp://")
    assert ws.startswith("ws://")
    for part in (tcp, ws):
        assert [name for name in INTERACTIONS if f"  {name} " not in part] == []
        assert "INVALID: no such file" in part
        streams = re.findall(
            r"(\d+) items, \d+ bytes, [\d,]+ items/s; unread at most (\d+), window (\d+)", part
        )
        assert len(streams) == 4
        for items, peak, window in streams:
            assert 0 < int(peak) <= int(window)
            assert int(items) > 0
    check_logs(logs)
    assert done.stdout.endswith("everything worked\n")


def check_logs(shown: str) -> None:
    """The counts in the output agree."""
    written = re.match(r"([\d,]+) records with ([\d,]+) lines\n", shown)
    assert re.search(r"\n  killed \(SIGKILL\) with [\d,]+ events in the spool", shown)
    shipped = re.search(r"\n  the shipper says: ([\d,]+) lines are acknowledged, after 1 ", shown)
    kept = re.search(
        r"\n  the spool: ([\d,]+) events, ([\d,]+) of them distinct, with ([\d,]+) lines; "
        r"([\d,]+) came twice\n",
        shown,
    )
    assert written is not None
    assert shipped is not None
    assert kept is not None
    records, lines = written.groups()
    assert (kept[2], kept[3], shipped[1]) == (records, lines, lines)
    events, distinct, again = (int(kept[n].replace(",", "")) for n in (1, 2, 4))
    assert events == distinct + again
    assert int(lines.replace(",", "")) > distinct


@pytest.fixture
def broken_demo(examples, tmp_path, run):
    """Run a copy of the demo with some text of a file replaced."""

    def broken_demo(file: str, old: str, new: str):
        for name in (*PARTS, "demo_client.py", "host_telemetry.py"):
            shutil.copy(examples / name, tmp_path)
        text = (tmp_path / file).read_text()
        assert text.count(old) == 1
        (tmp_path / file).write_text(text.replace(old, new))
        return run(tmp_path / "demo.py")

    return broken_demo


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        # The server does not start.
        ("host_telemetry.py", "router = Router()\n", "import absent\n",
         "the server ended: .*absent"),
        # It answers wrongly.
        ("host_telemetry.py", 'yield line.rstrip("\\n")', "yield line.strip()",
         "the client failed: Unexpected: the text of .*"),
        # It dies on the way. The error of the client is not the reason.
        ("host_telemetry.py", "raise Invalid(\"no such", "os._exit(7)\n        (\"no such",
         "the server ended"),
        # The client fails.
        ("demo_client.py", "async def main(", "import absent\nasync def main(",
         "the client failed: .*absent"),
        # It takes too long: after half of its usual time it is stopped.
        ("demo.py", "fail_after(LONGEST)", "fail_after(1.8)", "not finished after"),
    ],
    ids=["no server", "wrong answers", "server dies", "no client", "too slow"],
)  # fmt: skip
def test_a_failing_part_is_reported(broken_demo, file, old, new, says):
    """Each failure is one line on stderr and status 1, and no process is left running."""
    done = broken_demo(file, old, new)
    assert done.returncode == 1, done
    assert re.fullmatch(rf"demo: {says}.*\n", done.stderr), done.stderr
    for port in re.findall(r"^a server .* tcp://127.0.0.1:(\d+)", done.stdout):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))


LOGS_ONLY = """
import sys, tempfile, trio
from pathlib import Path
from demo_logs import ship_a_log
from demo_processes import Failed

with tempfile.TemporaryDirectory() as directory:
    try:
        trio.run(ship_a_log, Path(directory))
    except Failed as failed:
        sys.exit(f"demo: {failed}")
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"serve", "--quiet"', '"serve", "--absent"',
         "the receiver ended: .*unrecognized arguments: --absent"),
        ("str(log.path), ", '"absent.log", ',
         "the shipper ended: .*absent.log.*"),
        # The counts do not agree.
        ('event["message"]', 'event["message"][:9]', "the file has 40000 records with .* lines"),
        # All of the file comes twice.
        ("range(before - len(again), before)", "range(before + 1)",
         "not only the last events before the kill came twice"),
        ("log.path.read_text", "__file__ and Path(__file__).read_text",
         "the spool has other lines than the file"),
    ],
    ids=["no receiver", "no file", "too few lines", "duplicates", "other lines"],
)  # fmt: skip
def test_a_failing_part_of_the_logs(examples, tmp_path, run, old, new, says):
    """Each failure is one line on stderr and status 1."""
    for name in PARTS:
        shutil.copy(examples / name, tmp_path)
    text = (tmp_path / "demo_logs.py").read_text()
    assert text.count(old) == 1
    (tmp_path / "demo_logs.py").write_text(text.replace(old, new))
    (tmp_path / "logs_only.py").write_text(LOGS_ONLY)
    done = run(tmp_path / "logs_only.py")
    assert done.returncode == 1, done
    assert re.fullmatch(rf"demo: {says}\n", done.stderr), done.stderr


def test_control_c_ends_the_demo(examples, environment):
    """It ends at once and without a traceback."""
    with subprocess.Popen(
        [sys.executable, examples / "demo.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # as a shell does: the signal goes to the whole group
    ) as process:
        assert process.stdout.readline().startswith("a server")
        while "host.facts" not in (line := process.stdout.readline()):
            assert line, "the demo has ended"
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (130, "")
