"""Sockets that another program has opened: by number and by systemd, on every wire."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from rsocket_trio import (
    ConnectFailed,
    Payload,
    Router,
    ServerResume,
    connect,
    lumberjack,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.sockets import systemd
from rsocket_trio.uri import Uri, parse_uri
from tests.programs import environment

app = Router()


@app.request_response("hello")
async def hello() -> str:
    return "hello"


@app.events
async def take(events: list[dict[str, Any]]) -> None:
    """Take events of Lumberjack."""


FORMS = [
    ("fd:3", Uri(scheme="fd", host="3")),
    ("fd://3", Uri(scheme="fd", host="3")),
    ("tls+fd://3", Uri(scheme="tls+fd", host="3")),
    ("ws+fd://3/a?b", Uri(scheme="ws+fd", host="3", path="/a?b")),
    ("wss+systemd://web", Uri(scheme="wss+systemd", host="web", path="/")),
    ("systemd:", Uri(scheme="systemd")),
    ("systemd://app.socket", Uri(scheme="systemd", host="app.socket")),
]


@pytest.mark.parametrize(("text", "uri"), FORMS)
def test_addresses_of_open_sockets(text: str, uri: Uri) -> None:
    """TLS and WebSocket stand before the place; the text of each is read as the same."""
    assert parse_uri(text) == uri
    assert parse_uri(str(uri)) == uri
    assert uri.is_encrypted == text.startswith(("tls", "wss"))
    assert uri.is_websocket == text.startswith("w")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fd://3/x", "not the number of a file descriptor"),
        ("ws+fd://x/rsocket", "not the number of a file descriptor"),
        ("systemd://a b", "blank"),
        ("systemd://a/b", "not the name of a socket"),
        ("systemd://me@x", "a user or password"),
        ("unix+fd://3", "is not one of tcp, tls, unix, ws, wss"),
    ],
)
def test_wrong_addresses_of_open_sockets(text: str, why: str) -> None:
    """The text says what is wrong."""
    with pytest.raises(ValueError, match=why):
        parse_uri(text)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def serving(start: Any) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        server = await nursery.start(start)
        yield
        await server.aclose(grace=0)


@pytest.mark.parametrize("kind", ["tcp", "unix"])
@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws", "wss"])
async def test_rsocket_on_an_open_socket(
    scheme: str, kind: str, authority: trustme.CA, tmp_path: Path
) -> None:
    """TLS and WebSocket work on it as elsewhere; the file of a Unix socket stays."""
    import ssl

    sock, path = listening(kind, tmp_path)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    encrypted = scheme in ("tls", "wss")
    place = "fd" if scheme == "tcp" else f"{scheme}+fd"
    path_of = "/rsocket" if scheme.startswith("ws") else ""
    port = sock.getsockname()[1] if kind == "tcp" else None
    start = partial(
        serve,
        app,
        f"{place}://{sock.detach()}{path_of}",
        ssl_context=server_side if encrypted else None,
    )
    async with serving(start):
        if kind == "tcp":
            target = f"{scheme}://localhost:{port}{path_of}"
            context = client_side if encrypted else None
            async with connect(target, ssl_context=context) as client:
                answer = await client.request_response(Payload(metadata=None), route="hello")
                assert answer.data
        elif scheme == "tcp":
            async with connect(f"unix://{path}") as client:
                assert (await client.request_response(Payload(), route="hello")).data
    assert kind == "tcp" or os.path.exists(path)


def listening(kind: str, tmp_path: Path) -> tuple[socket.socket, str]:
    if kind == "tcp":
        return socket.create_server(("127.0.0.1", 0)), ""
    path = str(tmp_path / "socket")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    sock.listen()
    return sock, path


@pytest.mark.parametrize("wire", ["rsio", "lumberjack", "ttrpc", "rsio+ws"])
async def test_other_wires_on_an_open_socket(wire: str, tmp_path: Path) -> None:
    """One mechanism for all: they accept there."""
    sock, _ = listening("tcp", tmp_path)
    port = sock.getsockname()[1]
    address = f"{wire}+fd://{sock.detach()}" + ("/x" if wire == "rsio+ws" else "")
    package: Any = {"rsio": rsio, "rsio+ws": rsio, "lumberjack": lumberjack, "ttrpc": ttrpc}[wire]
    async with serving(partial(package.serve, app, address)):
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


@pytest.mark.parametrize("address", ["fd://3", "systemd://web", "ws+fd://3/x"])
async def test_nobody_dials_a_listening_socket(address: str) -> None:
    """A number may be that of something else at the next dial, so it is no address of a client."""
    with pytest.raises(ValueError, match="is a listening socket: only a server can use it"):
        async with connect(address):
            pass


@pytest.mark.parametrize("options", [{}, {"reuse_port": True}])
async def test_resumption_where_others_may_accept(options: dict[str, Any], tmp_path: Path) -> None:
    """It is refused, unless the program says that nobody else does."""
    sock, _ = listening("tcp", tmp_path)
    port = sock.getsockname()[1]
    address = f"fd://{sock.fileno()}"
    if options:
        sock.close()
        address = f"tcp://127.0.0.1:{port}"
    with pytest.raises(ValueError, match=r"other processes may accept.*sole_process=True"):
        await serve(app, address, resume=ServerResume(), **options)
    start = partial(serve, app, address, resume=ServerResume(sole_process=True), **options)
    sock.detach()
    async with serving(start), connect(f"tcp://127.0.0.1:{port}"):
        pass


async def test_two_servers_on_one_port() -> None:
    """Each has asked for it; a third that has not is refused."""
    first = partial(serve, app, "tcp://127.0.0.1:0", reuse_port=True)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(first)
        again = partial(serve, app, server.uris[0], reuse_port=True)
        second = await nursery.start(again)
        assert second.uris == server.uris
        with pytest.raises(OSError, match="cannot listen on"):
            await serve(app, server.uris[0])
        await server.aclose(grace=0)
        async with connect(second.uris[0]):
            pass
        await second.aclose(grace=0)
    with pytest.raises(ValueError, match="no address is TCP"):
        await serve(app, "unix:///tmp/x", reuse_port=True)


@pytest.mark.parametrize("number", ["0", "-1", "1025", "1000000000", "9" * 5000, "x", ""])
def test_numbers_that_systemd_has_not_written(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken, and nothing fails but what asks for a socket."""
    monkeypatch.setattr(systemd._Inherited, "sockets", None)
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", number)
    with pytest.raises(OSError, match="has given no socket to this process"):
        systemd.activated("")


def test_a_watchdog_that_systemd_has_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is none."""
    for text in ("0", "-5", "9" * 5000, "x", ""):
        monkeypatch.setenv("WATCHDOG_USEC", text)
        assert systemd.watchdog_interval() is None
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    assert systemd.watchdog_interval() == 1.5


async def test_a_host_that_no_resolver_takes() -> None:
    """It is an error that names the address, as other addresses that cannot be listened on."""
    for options in ({}, {"reuse_port": True}):
        with pytest.raises(OSError, match=r"cannot listen on tcp://a+:0: .*host name"):
            await serve(app, f"tcp://{'a' * 70}:0", **options)


CHILD = """
import os, subprocess, sys
import trio
from rsocket_trio import Router, serve
from rsocket_trio.sockets.systemd import activated

os.environ["LISTEN_PID"] = os.environ.get("TEST_PID") or str(os.getpid())

async def main():
    async with trio.open_nursery() as nursery:
        for name in sys.argv[1:]:
            server = await nursery.start(serve, Router(), name)
            print(*server.uris, flush=True)
            await server.aclose()

try:
    trio.run(main)
except* OSError as group:
    print(group.exceptions[0].strerror)
inherited = [each for each in os.environ if each.startswith("LISTEN_")]
child = subprocess.run(
    [sys.executable, "-c", "import os; print(os.path.exists('/proc/self/fd/3'))"],
    close_fds=False, capture_output=True, text=True)
print(inherited, child.stdout.strip())
"""


def activate(sockets: list[socket.socket], *arguments: str, **more: str) -> list[str]:
    """Run the program as systemd does: with the sockets from descriptor 3 on."""
    numbers = " ".join(f"{3 + place}<&{sock.fileno()}" for place, sock in enumerate(sockets))
    closing = " ".join(f"{sock.fileno()}<&-" for sock in sockets)
    program = [sys.executable, "-c", CHILD]
    done = subprocess.run(
        ["bash", "-c", f'exec "$@" {numbers} {closing}', "sh", *program, *arguments],
        pass_fds=[sock.fileno() for sock in sockets],
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def two_sockets() -> Iterator[list[socket.socket]]:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    # Above the numbers that they get.
    high = [socket.socket(fileno=os.dup2(each.fileno(), 50 + at)) for at, each in enumerate(made)]
    yield high
    for each in made + high:
        each.close()


def test_sockets_of_systemd(two_sockets: list[socket.socket]) -> None:
    """They are found by name, or all; a second server finds them too; children get nothing."""
    lines = activate(
        two_sockets,
        "systemd://web",
        "systemd:",
        "systemd://other",
        LISTEN_FDS="2",
        LISTEN_FDNAMES="web:admin",
    )
    assert lines[:2] == ["systemd://web", "systemd://"]
    assert lines[2].endswith("systemd has given no socket of this name, but of admin, web")
    assert lines[3] == "[] False"


@pytest.mark.parametrize(
    "more",
    [
        {"LISTEN_FDS": "2", "TEST_PID": "1"},
        {"LISTEN_FDS": "x"},
        {"LISTEN_FDS": "-1"},
        {"LISTEN_FDS": "0"},
        {},
    ],
)
def test_sockets_that_are_not_for_this_process(
    more: dict[str, str], two_sockets: list[socket.socket]
) -> None:
    """The variables may be those of a parent, or wrong: no descriptor is touched."""
    lines = activate(two_sockets, "systemd:", **more)
    assert lines[0].startswith("cannot listen on systemd://: systemd has given no socket")
    assert lines[1].startswith("[]")


def test_a_name_is_not_needed(two_sockets: list[socket.socket]) -> None:
    """Without LISTEN_FDNAMES the name is that of sd_listen_fds(3)."""
    assert activate(two_sockets, "systemd://unknown", LISTEN_FDS="1")[0] == "systemd://unknown"


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a path or an abstract name; a service without it, or with a dead one, goes on."""
    place = f"@rsocket-trio-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(place.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", place)
        assert systemd.notify("READY=1\nSTATUS=fine")
        assert sock.recv(100) == b"READY=1\nSTATUS=fine"
        sock.setblocking(False)
        while systemd.notify("WATCHDOG=1"):  # until its queue is full; it does not wait
            pass
    for wrong in (place, "", "relative"):
        monkeypatch.setenv("NOTIFY_SOCKET", wrong)
        assert not systemd.notify("READY=1")


@pytest.mark.parametrize(
    ("time", "pid", "interval"),
    [("3000000", None, 1.5), ("3000000", "1", None), ("x", None, None), ("0", None, None)],
)
def test_the_watchdog_of_systemd(
    time: str, pid: str | None, interval: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told twice as often as it asks for, and only by the process that is meant."""
    monkeypatch.setenv("WATCHDOG_USEC", time)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", pid)
    assert systemd.watchdog_interval() == interval


async def test_what_is_no_listening_socket() -> None:
    """The number stays open, and the error names it."""
    here, there = socket.socketpair()
    with here, there:
        with pytest.raises(OSError, match="it is not a listening socket"):
            await serve(app, f"fd://{here.fileno()}")
        here.send(b"x")
    with pytest.raises(OSError, match="the descriptor 2147483647 is not open"):
        await serve(app, "fd://2147483647")
    with pytest.raises(ConnectFailed):
        async with connect("tcp://127.0.0.1:1"):
            pass
