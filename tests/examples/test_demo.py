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


def test_the_demo_works(run):
    """Every interaction is shown over both transports, with bytes, rate, peak and window."""
    done = run("demo.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    _, tcp, ws = done.stdout.split("\nclient over ")
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
    assert done.stdout.endswith("everything worked\n")


@pytest.fixture
def broken_demo(examples, tmp_path, run):
    """Run a copy of the demo with some text of a file replaced."""

    def broken_demo(file: str, old: str, new: str):
        for name in ("demo.py", "demo_client.py", "host_telemetry.py"):
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
