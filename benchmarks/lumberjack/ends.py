"""The Lumberjack stacks and cases.

In the group ``lumberjack-server`` the same sender ships to each server. In ``lumberjack-client``
each client ships to a server that only acknowledges, at once or after a while, to the server of
go-lumber, or to the input of Logstash. In
``lumberjack-filebeat`` Filebeat ships a file to each server.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..model import Case, Stack
from .filebeat_client import filebeat_missing

__all__ = ["LOGSTASH_JAR", "LUMBERJACK_CASES", "LUMBERJACK_GROUPS", "LUMBERJACK_STACKS"]

LOGSTASH_JAR: Final = Path(__file__).parents[2] / "tests/interop/java/target/peer.jar"
"""The program with the Beats input of Logstash."""


_GO_PEER: Final = Path(__file__).parent / "go" / "peer"
_CLIENT: Final = "lumberjack-client"
_FILEBEAT: Final = "lumberjack-filebeat"
_SERVER: Final = "lumberjack-server"

LUMBERJACK_GROUPS: Final = {
    _SERVER: "Lumberjack: the server, with the same sender for all",
    _CLIENT: "Lumberjack: the client",
    _FILEBEAT: "Lumberjack: Filebeat and each server",
}


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.lumberjack.{name}"]


def _go_missing() -> str | None:
    if _GO_PEER.is_file():
        return None
    return "its program is not built: run benchmarks/setup.sh (it needs Go)"


def _pylogbeat_missing() -> str | None:
    return None if find_spec("pylogbeat") else "the package pylogbeat is not installed"


def _isal_missing() -> str | None:
    return None if find_spec("isal") else "the package isal is not installed"


def _logstash_missing() -> str | None:
    if shutil.which("java") and LOGSTASH_JAR.is_file():
        return None
    return "its input is not built: run tests/interop/setup.sh (it needs a JDK and Maven)"


_SENDER: Final = _module("sender")
_SINK: Final = _module("sink")
_SLOW_SINK: Final = [*_SINK, "--delay", "5"]
_LOGSTASH: Final = _module("logstash_server")
_GO_SERVER: Final = [str(_GO_PEER), "server"]

LUMBERJACK_STACKS: Final = [
    Stack(
        name="lj-ours",
        title="rsocket_trio",
        server=_module("ours_server"),
        client=_module("ours_client"),
        groups=frozenset({_SERVER, _CLIENT, _FILEBEAT}),
    ),
    Stack(
        name="lj-fast",
        title="rsocket_trio with isal",
        server=_module("ours_server"),
        client=[*_module("ours_client"), "--fast"],
        groups=frozenset({_CLIENT}),
        missing=_isal_missing,
    ),
    Stack(
        name="lj-spool",
        title="rsocket_trio, durable in a spool",
        server=[*_module("ours_server"), "--spool"],
        client=_SENDER,
        groups=frozenset({_SERVER}),
    ),
    Stack(
        name="lj-ship",
        title="`rsocket-trio lumberjack ship`",
        server=_SINK,
        client=_module("ship_client"),
        groups=frozenset({_CLIENT}),
    ),
    Stack(
        name="lj-go",
        title="go-lumber 0.2.0",
        server=_GO_SERVER,
        client=_module("go_client"),
        groups=frozenset({_SERVER, _CLIENT, _FILEBEAT}),
        missing=_go_missing,
    ),
    Stack(
        name="lj-pylogbeat",
        title="pylogbeat 2.1.0",
        server=_SINK,
        client=_module("pylogbeat_client"),
        groups=frozenset({_CLIENT}),
        missing=_pylogbeat_missing,
    ),
    Stack(
        name="lj-raw",
        title="rsocket_trio, bytes not decoded",
        server=[*_module("ours_server"), "--raw"],
        client=_SENDER,
        groups=frozenset({_SERVER}),
    ),
    Stack(
        name="lj-raw-spool",
        title="rsocket_trio, bytes not decoded, durable in a spool",
        server=[*_module("ours_server"), "--raw", "--spool"],
        client=_SENDER,
        groups=frozenset({_SERVER}),
    ),
    Stack(
        name="lj-sink",
        title="a server that only acknowledges",
        server=_SINK,
        client=_SENDER,
        groups=frozenset({_SERVER, _FILEBEAT}),
    ),
    Stack(
        name="lj-prepared",
        title="a client with prepared bytes",
        server=_SINK,
        client=_SENDER,
        groups=frozenset({_CLIENT}),
    ),
]

_LEVELS: Final = {"plain": 0, "compressed": 3}


def _parameters(level: int, connections: int = 1, *, texts: bool = False) -> Mapping[str, object]:
    return {"level": level, "windows": 2, "connections": connections, "texts": texts}


def _server_case(kind: str, connections: int, *only: str) -> Case:
    more = f"-{connections}" if connections > 1 else ""
    return Case(
        name=f"lumberjack/server-{kind}{more}",
        title=f"{kind}, {connections} connection{'s' if connections > 1 else ''}",
        group=_SERVER,
        operation="ship",
        parameters=_parameters(_LEVELS[kind], connections),
        only=only,
        client=_SENDER,
        reference=only[0],
    )


def _spool_case(kind: str, spooled: str, *others: str, title: str) -> Case:
    return Case(
        name=f"lumberjack/{spooled.removeprefix('lj-')}-{kind}",
        title=f"{kind}, 1 connection, {title}",
        group=_SERVER,
        operation="ship",
        parameters=_parameters(_LEVELS[kind]),
        only=(spooled, *others),
        client=_SENDER,
        reference=spooled,
    )


_SINGLE: Final = Case(
    name="lumberjack/server-single",
    title="plain, 1 connection, one event in a window, {windows} windows in flight",
    group=_SERVER,
    operation="ship",
    parameters={**_parameters(0), "size": 1, "windows": 64},
    only=("lj-ours", "lj-go", "lj-raw"),
    client=_SENDER,
    reference="lj-ours",
)
_MISSING: Final = {_GO_SERVER[-1]: _go_missing, _LOGSTASH[-1]: _logstash_missing}


def _client_case(kind: str, name: str, title: str, server: list[str], *only: str) -> Case:
    return Case(
        name=f"lumberjack/client-{name}-{kind}",
        title=f"{kind}, {title}",
        group=_CLIENT,
        operation="ship",
        parameters=_parameters(_LEVELS[kind], texts=name.endswith("texts")),
        only=only,
        server=server,
        server_args={"lj-pylogbeat": ["--running"]},
        client_args={"lj-pylogbeat": ["--reconnect"]} if server is _LOGSTASH else {},
        end="client",
        reference=only[0],
        missing=_MISSING.get(server[-1], lambda: None),
    )


def _filebeat_case(kind: str) -> Case:
    return Case(
        name=f"lumberjack/filebeat-{kind}",
        title=f"Filebeat, {kind}",
        group=_FILEBEAT,
        operation="ship",
        parameters=_parameters(_LEVELS[kind]),
        client=_module("filebeat_client"),
        reference="lj-ours",
        missing=filebeat_missing,
    )


LUMBERJACK_CASES: Final = [
    *(
        _server_case(kind, connections, "lj-ours", "lj-go", "lj-raw", "lj-sink")
        for connections in (1, 4)
        for kind in _LEVELS
    ),
    _SINGLE,
    *(
        _spool_case(kind, "lj-spool", "lj-ours", title="with a spool and without")
        for kind in _LEVELS
    ),
    *(
        _spool_case(kind, "lj-raw-spool", "lj-raw", title="not decoded, with a spool and without")
        for kind in _LEVELS
    ),
    *(
        _client_case(
            *(kind, "sink", "to a server that only acknowledges", _SINK),
            *("lj-ours", "lj-fast", "lj-go", "lj-pylogbeat", "lj-prepared"),
        )
        for kind in _LEVELS
    ),
    *(
        _client_case(
            *(kind, "slow", "to a server that takes 5 ms for each window", _SLOW_SINK),
            *("lj-ours", "lj-fast", "lj-go", "lj-pylogbeat", "lj-prepared"),
        )
        for kind in _LEVELS
    ),
    *(
        _client_case(
            *(kind, "logstash", "to the Beats input of Logstash", _LOGSTASH),
            *("lj-ours", "lj-fast", "lj-go", "lj-pylogbeat", "lj-prepared"),
        )
        for kind in _LEVELS
    ),
    *(
        _client_case(
            *(kind, "texts", "to a server that only acknowledges, events are JSON texts", _SINK),
            *("lj-ours", "lj-fast", "lj-go", "lj-pylogbeat"),
        )
        for kind in _LEVELS
    ),
    *(
        _client_case(
            *(kind, "go", "to the server of go-lumber", _GO_SERVER),
            *("lj-ours", "lj-fast", "lj-go", "lj-prepared"),
        )
        for kind in _LEVELS
    ),
    *(
        _client_case(
            *(kind, "ship", "lines of a file, to a server that only acknowledges", _SINK),
            *("lj-ship", "lj-prepared"),
        )
        for kind in _LEVELS
    ),
    *(_filebeat_case(kind) for kind in _LEVELS),
]
