"""Who is measured: how each stack's programs are started, and what a stack cannot do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import attrs

HERE = Path(__file__).parent
ROOT = HERE.parent
PYTHON = [sys.executable, "-m"]
JAR = "java/target/bench.jar"
WARM_UP = {"java": 10.0, "js": 2.0}
"""Seconds of processor time after which HotSpot and V8 have compiled what a case needs. Time of the
clock would mean less where others use the processor, too: the compilers wait as all else does."""


@attrs.frozen(kw_only=True)
class Stack:
    """One implementation.

    Attributes:
        name: What ``--stacks`` selects by.
        title: What the report calls it.
        server: The command of its server; the scheme is added.
        client: The command of its client; the server's URI is added.
        groups: The groups of cases it can take part in.
        cannot: The cases it cannot run, with the reason.
        missing: Why its programs cannot be run here; ``None`` if they can.
        warm_up: Seconds of processor time that its server is given before anything is measured,
            because it compiles while it runs.
        directory: Where its programs are run, and so what Python imports first.
        family: The name that cases give arguments by; its own name unless two are of one kind.
    """

    name: str
    title: str
    server: list[str]
    client: list[str]
    groups: frozenset[str]
    cannot: dict[str, str] = attrs.field(factory=dict)
    missing: Callable[[], str | None] = lambda: None
    warm_up: float = 0.0
    directory: Path = ROOT
    family: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))


def _node() -> str | None:
    if shutil.which("node") is None:
        return "node is not installed"
    if not (HERE / "js" / "node_modules").is_dir():
        return "its modules are not installed: run benchmarks/setup.sh"
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
    """The version of an installed distribution, or that it is absent."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def tool_version(*command: str) -> str:
    """What a tool says of its version, in one line, or that it is absent."""
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
            "tcp/large": "it reassembles fragments but sends none, and a frame ends at 16 MiB",
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
        cannot={"tcp/streams": "it has no streams"},
    ),
]

RAW_CLIENT = [*PYTHON, "benchmarks.raw_client"]
