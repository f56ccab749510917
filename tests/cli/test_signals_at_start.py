"""A signal at each point of the start of a program.

A program reports its imports, and its opens of files, databases and sockets, to an audit hook. The
hook here looks at each report who would get a signal. At some of them it forks, and sends a signal
to the child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rsocket_trio.spool import Batch, open_spool
from tests.programs import environment

PROGRAM = r"""
import json, os, signal, sys

REPORTS = ("import", "open", "os.mkdir", "sqlite3.connect", "socket.__new__", "socket.bind")
report, program, *arguments = sys.argv[1:]
EACH = 25
began, statuses, strangers, points = False, set(), set(), 0

def hook(event, details):
    global began, points
    if event not in REPORTS:
        return
    handler = signal.getsignal(signal.SIGINT)
    module = getattr(handler, "__module__", None)
    if module == "rsocket_trio.__main__":
        began, points = True, points + 1
        if points % EACH == 0:
            number = (signal.SIGINT, signal.SIGTERM)[points // EACH % 2]
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), number)
                for _ in range(1000):
                    pass
                os._exit(99)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            statuses.add(f"{number:d}: {status}")
    elif began and module != "trio._signals":
        strangers.add(str(handler))

sys.addaudithook(hook)
sys.argv = ["program", *arguments]
import rsocket_trio.__main__ as programs
status = getattr(programs, program)()
began = False
with open(report, "w") as file:
    json.dump({"statuses": sorted(statuses), "strangers": sorted(strangers), "points": points,
               "status": status}, file)
"""

COMMANDS = {
    "request": ("request", "tcp://127.0.0.1:1", "x"),
    "serve": ("serve", "rsocket_trio.testing.peer:app", "--listen", "unix:///nowhere/at/all"),
    "decode": ("decode", "00"),
    "bench": ("bench", "tcp://127.0.0.1:1"),
    "lumberjack serve": ("lumberjack", "serve", "--listen", "unix:///nowhere/at/all"),
    "lumberjack ship": (
        *("lumberjack", "ship", "LOG", "--to", "lumberjack://127.0.0.1:1", "--timeout", "0.1"),
        *("--registry", "REGISTRY"),
    ),
    "collect": ("collect", "--spool", "NEW", "--listen", "unix:///nowhere/at/all"),
    "collect --status": ("collect", "--status", "tcp://127.0.0.1:1"),
    "spool info": ("spool", "info", "SPOOL"),
    "spool read": ("spool", "read", "SPOOL"),
    "rsio subscribe": ("rsio", "subscribe", "rsio://127.0.0.1:1", "name"),
    "ttrpc call": ("ttrpc", "call", "--hex", "unix:///nowhere/at/all", "a.B/C", "00"),
    "conformance": ("conformance", "--list"),
}


@pytest.mark.parametrize("command", COMMANDS)
async def test_commands(command: str, tmp_path: Path) -> None:
    """Each point has the status of the signal, and no text; or trio's receiver of signals.

    Only this would see an import, or a step of a command, during which Ctrl-C is an exception.
    """
    async with open_spool(tmp_path / "spool") as spool:
        await spool.append(Batch(1, b"{}", encoding="json"))
    (tmp_path / "log").write_text("a line\n")
    places = {name: str(tmp_path / name.lower()) for name in ("LOG", "REGISTRY", "NEW", "SPOOL")}
    words = [places.get(word, word) for word in COMMANDS[command]]
    found, errors = _run(tmp_path, "main", *words)
    assert found["statuses"] == ["15: 143", "2: 130"]
    assert found["strangers"] == []
    assert found["points"] > 100
    assert b"Traceback" not in errors


def test_the_plugin_of_protoc(tmp_path: Path) -> None:
    """The other program of this package."""
    found, errors = _run(tmp_path, "protoc_plugin", "--version")
    assert found["statuses"] == ["15: 143", "2: 130"]
    assert found["points"] > 20
    assert errors == b""


def test_in_the_background(tmp_path: Path) -> None:
    """A shell has a program in the background ignore SIGINT: so it stays."""
    script = """
import signal, rsocket_trio.__main__ as programs
programs.main()
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"],
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        check=True,
    )
    assert done.stdout.endswith(b"True\n")


def _run(directory: Path, program: str, *words: str) -> tuple[dict[str, Any], bytes]:
    report = directory / "report"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(report), program, *words],
        env=environment(),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert report.exists(), (done.returncode, done.stderr, os.listdir(directory))
    found: dict[str, Any] = json.loads(report.read_text())
    return found, done.stderr
