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
PARTS = (
    "demo.py",
    "demo_logs.py",
    "demo_processes.py",
    "demo_rsio.py",
    "demo_ttrpc.py",
    "host_telemetry.py",
)


def test_the_demo_works(run):
    """Every interaction is shown over both transports, with bytes, rate, peak and window."""
    done = run("demo.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    telemetry, rest = done.stdout.split("\none router over two protocols: ")
    over_ttrpc, rest = rest.split("\npublishers over a network: ")
    over_rsio, logs = rest.split("\na log file: ")
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
    check_ttrpc(over_ttrpc)
    check_rsio(over_rsio)
    check_logs(logs)
    assert done.stdout.endswith("everything worked\n")


def check_rsio(shown: str) -> None:
    """Operators, one source for two readers, packed elements, and an error."""
    assert re.match(r"rsio://127\.0\.0\.1:\d+\n", shown)
    for line in (
        r"the first classes of argparse.py +_AttributeHolder.*",
        r"one source for two readers +3 samples each, and the same ones",
        r"1,000,000 packed numbers +[\d,]+ numbers/s; the sum is right",
        r"a publisher that is not there +publisher 'absent': unknown publisher",
    ):
        assert re.search(rf"^  {line}$", shown, re.MULTILINE), line


def check_ttrpc(shown: str) -> None:
    """Each kind of call is shown, with what RSocket answered beside it."""
    assert re.match(r"tcp://127\.0\.0\.1:\d+ and ttrpc\+unix:///\S+\n", shown)
    for line in (
        r"unary +Facts +\d+ bytes, .* ms; RSocket says the same",
        r"unary +Facts 1000 times, 50 in flight +[\d,]+ calls/s",
        r"server stream Lines argparse.py +\d+ messages, [\d,]+ messages/s; the same",
        r"bidi stream +Grep, 3 patterns sent +\d+ messages; the same",
        r"server stream Load every 0.2 s, .* +[0-2] messages, then the deadline ended it",
        r"unary +Absent +UNIMPLEMENTED: method Absent",
    ):
        assert re.search(rf"^  {line}$", shown, re.MULTILINE), line


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
        for name in (*PARTS, "demo_client.py"):
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
        ("demo.py", "host_telemetry.py'}:router", "host_telemetry.py'}:absent",
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


ONE_PART = """
import sys, tempfile, trio
from pathlib import Path
from {module} import {function}
from demo_processes import Failed

with tempfile.TemporaryDirectory() as directory:
    try:
        trio.run({call})
    except Failed as failed:
        sys.exit(f"demo: {{failed}}")
"""


@pytest.fixture
def broken_part(examples, tmp_path, run):
    """Run a part of the demo alone, with some texts of its file replaced."""

    def broken_part(module: str, call: str, *changes: tuple[str, str]):
        for name in PARTS:
            shutil.copy(examples / name, tmp_path)
        file = tmp_path / f"{module}.py"
        text = file.read_text()
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        file.write_text(text)
        program = tmp_path / "one_part.py"
        program.write_text(
            ONE_PART.format(module=module, function=call.partition(",")[0], call=call)
        )
        return run(program)

    return broken_part


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    by_ttrpc = ", "    import absent\n    by_ttrpc = ",
         "the ttrpc server ended: .*absent.*"),
        # Its answers are others.
        ("[json.loads(line) async for line in replies]",
         "[json.loads(line)[1:] async for line in replies]",
         "the lines of argparse.py over ttrpc differ from those over RSocket"),
        # A call fails.
        ('"argparse.py"', '"absent.py"', "a call failed: INVALID_ARGUMENT: no such file .*"),
        ('"Absent")', '"Facts")', "a method that does not exist has answered"),
        ("'{\"every\": 0.2}'", "'{\"every\": 0}'", "a call failed: INVALID_ARGUMENT: every .*"),
    ],
    ids=["no server", "other answers", "refused call", "answered call", "failing stream"],
)  # fmt: skip
def test_a_failing_part_of_ttrpc(broken_part, old, new, says):
    """Each failure is one line on stderr and status 1."""
    done = broken_part("demo_ttrpc", "call_over_ttrpc, Path(directory)", (old, new))
    assert done.returncode == 1, done
    assert re.fullmatch(rf"demo: {says}\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    with trio.open_signal", "    import absent\n    with trio.open_signal",
         "the rsio server ended: .*absent.*"),
        ('startswith("class "))', 'startswith("def "))',
         "the classes of argparse.py are .*"),
        ("range(first, first + BLOCK)", "[first] * BLOCK",
         "the sum of 1000000 numbers is .*"),
        ('"absent")', '"lines?name=argparse.py")', "a publisher that does not exist has completed"),
        ('"argparse.py"', '"absent.py"',
         r"a publisher failed: publisher 'lines\?\*\*\*': no such file .*"),
    ],
    ids=["no server", "other lines", "other numbers", "a publisher that is there", "refused"],
)  # fmt: skip
def test_a_failing_part_of_rsio(broken_part, old, new, says):
    """Each failure is one line on stderr and status 1."""
    done = broken_part("demo_rsio", "subscribe_over_rsio", (old, new))
    assert done.returncode == 1, done
    assert re.fullmatch(rf"demo: {says}\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("records", "old", "new", "says"),
    [
        (500, '"serve", "--quiet"', '"serve", "--absent"',
         "the receiver ended: .*unrecognized arguments: --absent"),
        (500, "str(log.path), ", '"absent.log", ',
         "the shipper ended: .*absent.log.*"),
        # The counts do not agree.
        (15_000, 'event["message"]', 'event["message"][:9]',
         "the file has 15000 records with .* lines"),
        # All of the file comes twice.
        (15_000, "range(before - len(again), before)", "range(before + 1)",
         "not only the last events before the kill came twice"),
        (15_000, "log.path.read_text", "__file__ and Path(__file__).read_text",
         "the spool has other lines than the file"),
    ],
    ids=["no receiver", "no file", "too few lines", "duplicates", "other lines"],
)  # fmt: skip
def test_a_failing_part_of_the_logs(broken_part, records, old, new, says):
    """Each failure is one line on stderr and status 1; shown with fewer records than the demo has.

    15,000 are enough for a kill in the middle of them.
    """
    fewer = ("RECORDS: Final = 40_000", f"RECORDS: Final = {records}")
    done = broken_part("demo_logs", "ship_a_log, Path(directory)", fewer, (old, new))
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
