"""The stacks: how to start their programs, and the cases that a stack cannot run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from .lumberjack.ends import LUMBERJACK_STACKS
from .model import Stack
from .rsio.ends import RSIO_STACKS
from .ttrpc.ends import TTRPC_STACKS
from .values.ends import VALUES_STACKS

HERE = Path(__file__).parent
PYTHON = [sys.executable, "-m"]
JAR = "java/target/bench.jar"
WARM_UP = {"java": 10.0, "js": 2.0}
"""Seconds of processor time after which HotSpot and V8 have compiled the code of a case. It is not
wall-clock time, because the compilers also wait when other programs use the processor."""


def _node() -> str | None:
    if shutil.which("node") is None:
        return "node is not installed"
    if not (HERE / "js" / "node_modules").is_dir():
        return "its packages are not installed: run benchmarks/setup.sh"
    return None


def _java() -> str | None:
    if shutil.which("java") is None:
        return "java is not installed"
    if not (HERE / JAR).is_file():
        return "its programs are not built: run benchmarks/setup.sh (it needs a JDK and Maven)"
    return None


def _go() -> str | None:
    if not (HERE / "go" / "peer").is_file():
        return "its program is not built: run benchmarks/setup.sh (it needs Go)"
    return None


def _rsocket_py() -> str | None:
    return None if find_spec("rsocket") else "the package rsocket is not installed"


def package_version(name: str) -> str:
    """Return the version of a distribution, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def tool_version(*command: str) -> str:
    """Return the first line that a tool prints about its version, or "not installed"."""
    if shutil.which(command[0]) is None:
        return "not installed"
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout or done.stderr).partition("\n")[0].strip()


_PY_GROUPS = {"tcp", "server"} | ({"ws"} if find_spec("aiohttp") else set())

STACKS = [
    Stack(
        name="ours",
        title="rsocket_trio",
        server=[*PYTHON, "benchmarks.ours_server"],
        client=[*PYTHON, "benchmarks.ours_client"],
        groups=frozenset({"tcp", "ws", "server"}),
    ),
    Stack(
        name="py",
        title="rsocket-py 0.4.20",
        server=[*PYTHON, "benchmarks.py_server"],
        client=[*PYTHON, "benchmarks.py_client"],
        groups=frozenset(_PY_GROUPS),
        missing=_rsocket_py,
    ),
    Stack(
        name="js",
        title="rsocket-js 0.0.27",
        server=["node", "benchmarks/js/server.js"],
        client=["node", "benchmarks/js/client.js"],
        groups=frozenset({"tcp", "ws", "server"}),
        cannot={
            "tcp/large": "it sends no fragments, and a frame has less than 16 MiB",
        },
        missing=_node,
        warm_up=WARM_UP["js"],
    ),
    Stack(
        name="java",
        title="rsocket-java 1.1.5",
        server=["java", "-cp", f"benchmarks/{JAR}", "bench.Server"],
        client=["java", "-cp", f"benchmarks/{JAR}", "bench.Client"],
        groups=frozenset({"tcp", "ws", "server"}),
        missing=_java,
        warm_up=WARM_UP["java"],
    ),
    Stack(
        name="go",
        title="rsocket-go 0.8.16",
        server=["benchmarks/go/peer", "server"],
        client=["benchmarks/go/peer", "client"],
        groups=frozenset({"tcp", "ws", "server"}),
        missing=_go,
    ),
    Stack(
        name="floor",
        title="floor: bare trio sockets",
        server=[*PYTHON, "benchmarks.floor_server"],
        client=[*PYTHON, "benchmarks.floor_client"],
        groups=frozenset({"tcp"}),
        cannot={"tcp/streams": "it has no concurrent streams"},
    ),
    *VALUES_STACKS,
    *LUMBERJACK_STACKS,
    *TTRPC_STACKS,
    *RSIO_STACKS,
]

RAW_CLIENT = [*PYTHON, "benchmarks.raw_client"]
