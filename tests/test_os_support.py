"""Systems with fewer features than Linux: a feature is removed, and the rest works."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from rsocket_trio import (
    ClientResume,
    ConnectFailed,
    Payload,
    ServerResume,
    connect,
    os_support,
    serve,
)
from rsocket_trio.cli.exits import Failure
from rsocket_trio.cli.stdio import LineReader, Writer
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.testing.leaks import assert_no_leaks, open_file_descriptors
from rsocket_trio.testing.memory import peak_memory, resident_memory
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import open_transport

ROOT = Path(__file__).parent.parent

POOR = """
import os, select, signal, socket, sys
import trio

# trio is trio: it has been made for this system. What is left is ours to do without.
unix = socket.AF_UNIX
for module, names in {
    socket: ["AF_UNIX", "SO_PEERCRED"],
    select: ["poll", "PIPE_BUF", "POLLRDHUP"],
    os: ["O_NOFOLLOW", "O_CLOEXEC", "getuid", "fork"],
}.items():
    for name in names:
        delattr(module, name)
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
isdir = os.path.isdir
os.path.isdir = lambda path: not str(path).startswith(("/proc", "/dev")) and isdir(path)
"""

EVERYTHING = """
import importlib, pkgutil
import rsocket_trio
from rsocket_trio import Payload, Responder, connect, os_support, serve

os_support.DIRECT_SOCKETS = False
for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(os_support.UNIX_SOCKETS, os_support.POLLED_FILES, os_support.PROCESSES,
      os_support.DESCRIPTORS, os_support.PIPE_SIZE)

socket.AF_UNIX = unix  # trio wakes itself by one

class Echo(Responder):
    async def request_response(self, payload):
        return payload

async def main():
    async with trio.open_nursery() as nursery:
        uris = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/x"]
        server = await nursery.start(serve, Echo(), *uris)
        for uri in server.uris:
            async with connect(uri) as requester:
                print((await requester.request_response(Payload(b"hello"))).data)
        await server.aclose()
    try:
        await serve(Echo(), "unix:///tmp/never")
    except OSError as error:
        print(error.strerror)

trio.run(main)
"""


def test_everything_imports_and_works_without_linux_features() -> None:
    """No Unix sockets, poll, fcntl, /proc or descriptors: each module, and a request."""
    done = subprocess.run(
        [sys.executable, "-c", POOR + EVERYTHING],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "False False False None 512",
        "b'hello'",
        "b'hello'",
        "cannot listen on unix:///tmp/never: this system has no Unix sockets: use tcp:// or ws://",
    ]


async def test_no_unix_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both ends give the same error as for a failing address."""
    monkeypatch.setattr(os_support, "UNIX_SOCKETS", False)
    uri = f"unix://{tmp_path}/socket"
    with pytest.raises(OSError, match="this system has no Unix sockets") as listening:
        await serve(KnownAnswers(), uri)
    assert listening.value.errno == errno.EAFNOSUPPORT
    with pytest.raises(ConnectFailed, match="this system has no Unix sockets"):
        async with connect(uri):
            raise AssertionError("connected")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("scheme", ["tcp", "ws", "unix"])
async def test_all_interactions(
    scheme: str, plain: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both ends of a connection work over trio's own streams as over direct sockets."""
    monkeypatch.setattr(os_support, "DIRECT_SOCKETS", not plain)
    uri = f"unix://{tmp_path}/socket" if scheme == "unix" else f"{scheme}://127.0.0.1:0/"
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, KnownAnswers(), uri)
        async with open_transport(server.uris[0]) as transport:
            assert transport.sends_nowait is not plain
            assert isinstance(transport.stream, DirectStream) is not plain
        async with connect(server.uris[0]) as requester:
            large = Payload(bytes(2**20))
            assert await requester.request_response(large) == large
            async with requester.request_stream(Payload(b"2000"), prefetch=16) as items:
                assert len([item async for item in items]) == 2000
            source = [Payload(b"%d" % number) for number in range(100)]
            async with requester.request_channel(source) as items:
                assert len([item async for item in items]) == 100
            await requester.fire_and_forget(Payload(b"told"))
        await server.aclose(grace=1)


async def test_resumption_over_plain_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session goes on over another connection, without sends outside of a task."""
    monkeypatch.setattr(os_support, "DIRECT_SOCKETS", False)
    transports = []
    async with trio.open_nursery() as nursery:
        start = partial(serve, KnownAnswers(), "tcp://127.0.0.1:0", resume=ServerResume())
        server = await nursery.start(start)

        def dial():
            transports.append(open_transport(server.uris[0]))
            return transports[-1]

        async with connect(dial, resume=ClientResume()) as requester:
            seen = 0
            async with requester.request_stream(Payload(b"1000"), prefetch=8) as items:
                async for _ in items:
                    seen += 1
                    if seen == 500:
                        link = requester._connection.transport
                        await trio.aclose_forcefully(link.attachment.transport)
            assert seen == 1000
            assert len(transports) == 2
        await server.aclose(grace=1)


async def test_without_a_list_of_descriptors_tasks_are_still_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If open descriptors are unknown, tasks are still looked for."""
    monkeypatch.setattr(os_support, "DESCRIPTORS", None)
    assert open_file_descriptors() == {}
    read, write = os.pipe()
    async with assert_no_leaks():
        copy = os.dup(read)
    async with trio.open_nursery() as nursery:
        with pytest.raises(AssertionError, match="task forgotten"):
            async with assert_no_leaks():
                nursery.start_soon(trio.sleep_forever, name="forgotten")
        nursery.cancel_scope.cancel()
    for descriptor in (read, write, copy):
        os.close(descriptor)


async def test_another_list_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """On systems other than Linux, files are told apart by their numbers."""
    monkeypatch.setattr(os_support, "DESCRIPTORS", "/dev/fd")
    read, write = os.pipe()
    assert open_file_descriptors()[read].startswith("mode ")
    with pytest.raises(AssertionError, match=r"file descriptor \d+ \(mode \d+, device"):
        async with assert_no_leaks():
            copy = os.dup(read)
    for descriptor in (read, write, copy):
        os.close(descriptor)


@pytest.mark.parametrize("ask", [peak_memory, resident_memory])
def test_without_memory_of_processes(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown value is an error that says why, not a number."""
    monkeypatch.setattr(os_support, "PROCESSES", False)
    with pytest.raises(NotImplementedError, match="/proc"):
        ask(os.getpid())


@pytest.fixture
def unpolled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_support, "POLLED_FILES", False)


async def test_lines_by_threads(unpolled: None, tmp_path: Path) -> None:
    """Standard input from a pipe and from a file, while other tasks run."""
    reader, writer = os.pipe()
    lines: list[bytes] = []

    async def read() -> None:
        lines.extend([line async for line in LineReader(reader)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        os.write(writer, b"one\ntwo\nthr")
        os.write(writer, b"ee")
        os.close(writer)
    assert lines == [b"one", b"two", b"three"]
    os.close(reader)
    (tmp_path / "file").write_bytes(b"a\nb\n")
    with open(tmp_path / "file", "rb") as file:
        assert [line async for line in LineReader(file.fileno())] == [b"a", b"b"]


async def test_a_read_in_a_thread_can_be_cancelled(unpolled: None) -> None:
    """Ctrl-C does not wait for a line of input."""
    reader, writer = os.pipe()
    with trio.move_on_after(0.01) as scope:
        async for _ in LineReader(reader):
            raise AssertionError("a line")
    assert scope.cancelled_caught
    os.close(writer)  # The abandoned thread ends.
    os.close(reader)


async def test_writing_by_threads(unpolled: None) -> None:
    """More bytes than a pipe holds arrive, and a closed reader is noticed."""
    reader, writer = os.pipe()
    data = bytes(range(256)) * 1024
    arrived = bytearray()

    def drain() -> None:
        while len(arrived) < len(data):
            arrived.extend(os.read(reader, 2**16))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, drain)
        await Writer(writer).write(data)
    assert arrived == data
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        await Writer(writer).write(b"gone")
    os.close(writer)
    with pytest.raises(Failure, match="cannot read standard input"):
        await anext(LineReader(reader))
