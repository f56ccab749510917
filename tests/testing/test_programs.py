"""Any program beside a test: ready, shown, and ended with its children."""

from __future__ import annotations

import sys

import pytest
import trio

from rsocket_trio.testing.programs import started

SERVER = """
import subprocess, sys, time, socket
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print("child", child.pid, flush=True)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
time.sleep(1000)
"""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks for a process in /proc")
@pytest.mark.parametrize("ready", [None, "listening"])
async def test_a_program_ends_with_its_children(ready):
    """It has a port of its own, and is ready when it listens or says so."""
    async with started(sys.executable, "-c", SERVER, "{port}", ready=ready) as program:
        stream = await trio.open_tcp_stream("127.0.0.1", program.port)
        await stream.aclose()
        await program.wait_for("child")
        child = int(program.output.split()[1])
        assert is_running(child)
    while is_running(child):  # until the system has reaped it
        await trio.sleep(0.01)
    assert program.process.returncode is not None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('the reason'); raise SystemExit(3)", "ended with 3"),
        ("import time; print('the reason', flush=True); time.sleep(1000)", "not ready within"),
    ],
)
async def test_a_program_that_is_not_ready(code, text):
    """The error says so, with what it has written."""
    with pytest.raises(RuntimeError, match=text) as caught:
        async with started(sys.executable, "-c", code, within=3):
            pass
    assert "the reason" in "".join(caught.value.__notes__)


async def test_a_test_that_fails_shows_the_output():
    """As a note of its own error."""
    code = "print('listening at', flush=True); import time; time.sleep(1000)"
    with pytest.raises(AssertionError) as caught:
        async with started(sys.executable, "-c", code, ready="listening"):
            raise AssertionError("of the test")
    assert "listening at" in caught.value.__notes__[0]
