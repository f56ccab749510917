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
PYTHON = [sys.executable, "-m"]


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
    """

    name: str
    title: str
    server: list[str]
    client: list[str]
    groups: frozenset[str]
    cannot: dict[str, str] = attrs.field(factory=dict)
    missing: Callable[[], str | None] = lambda: None


def _node() -> str | None:
    if shutil.which("node") is None:
        return "node is not installed"
    if not (HERE / "js" / "node_modules").is_dir():
        return "its modules are not installed: run benchmarks/setup.sh"
    return None


def _rsocket_py() -> str | None:
    return None if find_spec("rsocket") else "the package rsocket is not installed"


def package_version(name: str) -> str:
    """The version of an installed distribution, or that it is absent."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def node_version() -> str:
    """The version of node, or that it is absent."""
    node = shutil.which("node")
    if node is None:
        return "not installed"
    return subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()


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
