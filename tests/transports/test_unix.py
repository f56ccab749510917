"""Socket files: who owns them, and who may remove them."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.file_lock import locked
from rsocket_trio.sockets.socket_facts import peer_credentials
from rsocket_trio.sockets.unix import (
    UnixListener,
    connect_unix,
    listen_unix,
)
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports import (
    FrameTransport,
    accept_transports,
    open_transport,
)
from rsocket_trio.uri import Uri


@pytest.fixture
def uri(tmp_path: Path) -> Uri:
    return Uri(scheme="unix", path=str(tmp_path / "a socket"))


def leave_stale(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)


async def test_the_file_exists_while_a_server_listens(uri: Uri) -> None:
    """Closing removes the file, also if the close is cancelled; closing again is fine."""
    for cancelled in (False, True):
        listener = await listen_unix(uri)
        assert os.path.exists(uri.path)
        with trio.CancelScope() as scope:
            if cancelled:
                scope.cancel()
            await listener.aclose()
        assert not os.path.exists(uri.path)
    await listener.aclose()


async def test_a_server_removes_its_file(uri: Uri) -> None:
    """A cancelled server leaves no file."""

    async def handle(transport: FrameTransport) -> None:
        raise AssertionError("connected")

    async with trio.open_nursery() as nursery:
        bound = await nursery.start(partial(accept_transports, uri, handle))
        assert bound == [uri]
        assert os.path.exists(uri.path)
        nursery.cancel_scope.cancel()
    assert not os.path.exists(uri.path)


async def test_a_stale_file_is_replaced(uri: Uri) -> None:
    """A socket file without a listener does not keep a server from starting."""
    leave_stale(uri.path)
    with pytest.raises(ConnectFailed, match="Connection refused"):
        async with open_transport(uri):
            raise AssertionError("connected")
    async with await listen_unix(uri) as listener, await connect_unix(uri):
        await (await listener.accept()).aclose()


async def test_two_servers_that_begin_at_once_with_a_stale_file(
    uri: Uri, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """The one that is delayed between its check and its bind takes nothing from the other."""
    leave_stale(uri.path)
    ask = trio.open_unix_socket
    asked, go_on = trio.Event(), trio.Event()

    async def held_up(path: str) -> trio.SocketStream:
        try:
            return await ask(path)
        finally:
            if not asked.is_set():
                asked.set()
                await go_on.wait()

    monkeypatch.setattr("trio.open_unix_socket", held_up)
    outcomes: list[object] = []

    async def begin() -> None:
        try:
            outcomes.append(await listen_unix(uri))
        except OSError as error:
            outcomes.append(error.errno)

    nursery.start_soon(begin)
    await asked.wait()
    nursery.start_soon(begin)
    await trio.testing.wait_all_tasks_blocked()
    go_on.set()
    with trio.fail_after(20):
        while len(outcomes) < 2:
            await trio.lowlevel.checkpoint()
    assert outcomes.count(errno.EADDRINUSE) == 1
    (listener,) = [each for each in outcomes if isinstance(each, UnixListener)]
    await (await listener.accept()).aclose()  # The check of the other server.
    async with listener, await connect_unix(uri):
        await (await listener.accept()).aclose()
    assert os.listdir(Path(uri.path).parent) == []


async def test_a_program_that_does_not_use_the_lock(
    uri: Uri, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program that takes the place meanwhile keeps it."""
    leave_stale(uri.path)
    ask = trio.open_unix_socket
    with socket.socket(socket.AF_UNIX) as other:

        async def overtaken(path: str) -> trio.SocketStream:
            try:
                return await ask(path)
            except ConnectionRefusedError:
                os.rename(path, path + ".old")
                other.bind(path)
                other.listen()
                raise

        with monkeypatch.context() as patch:
            patch.setattr("trio.open_unix_socket", overtaken)
            with pytest.raises(OSError, match="in use") as caught:
                await listen_unix(uri)
        assert caught.value.errno == errno.EADDRINUSE
        async with await connect_unix(uri):
            other.accept()[0].close()


RACER = """
import sys, trio
from rsocket_trio.sockets.unix import listen_unix
from rsocket_trio.uri import Uri

async def main():
    for path in sys.stdin:
        try:
            listener = await listen_unix(Uri(scheme="unix", path=path.strip()))
        except OSError as error:
            print(error.errno, flush=True)
            sys.stdin.readline()
        else:
            print("listens", flush=True)
            sys.stdin.readline()
            await listener.aclose()
        print("closed", flush=True)

trio.run(main)
"""


def test_processes_that_begin_at_once(tmp_path: Path) -> None:
    """Of three processes one listens, every time, and clients reach that one."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for _ in range(3)
    ]

    def tell(line: str) -> list[str]:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(line + "\n")
        return [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]

    try:
        for number in range(20):
            path = str(tmp_path / f"{number}")
            leave_stale(path)
            assert sorted(tell(path)) == [str(errno.EADDRINUSE)] * 2 + ["listens"]
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
            tell("enough")
    finally:
        for racer in racers:
            racer.communicate()
    assert [racer.returncode for racer in racers] == [0] * 3
    assert os.listdir(tmp_path) == []


async def test_a_lock_that_is_never_given_back(
    uri: Uri, autojump_clock: trio.testing.MockClock
) -> None:
    """The wait for a hanging process, or a stranger, has a limit."""
    with open(f"{uri.path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process") as caught:
            await listen_unix(uri)
    assert caught.value.errno == errno.EADDRINUSE
    assert 5 <= trio.current_time() <= 5.1
    # No process holds the lock that a crash has left.
    async with await listen_unix(uri):
        assert os.listdir(Path(uri.path).parent) == [Path(uri.path).name]


async def test_the_lock_of_a_file_that_is_gone(
    uri: Uri, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """A waiter that gets the lock of a removed file asks for the lock of the current file."""
    path = f"{uri.path}.lock"
    holders: list[str] = []

    async def hold(name: str, seconds: float) -> None:
        async with locked(path):
            assert not holders
            holders.append(name)
            await trio.sleep(seconds)
            holders.remove(name)

    for number in range(5):
        nursery.start_soon(hold, f"{number}", 0.5)
    await trio.sleep(4)
    assert not holders
    assert not os.path.exists(path)


async def test_a_file_system_without_locks(
    uri: Uri, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error says so, and no descriptor is left open."""

    def refuse(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    async with assert_no_leaks():
        with pytest.raises(OSError, match="No locks"):
            await listen_unix(uri)
    os.symlink(tmp_path / "elsewhere", f"{uri.path}.lock.lock")
    with pytest.raises(OSError, match="symbolic"):
        await listen_unix(Uri(scheme="unix", path=f"{uri.path}.lock"))


async def test_a_file_in_use_is_left_alone(uri: Uri) -> None:
    """A second server is refused, and the first is still reached."""
    async with await listen_unix(uri) as listener:
        with pytest.raises(OSError, match="another process listens") as caught:
            await listen_unix(uri)
        assert caught.value.errno == errno.EADDRINUSE
        await (await listener.accept()).aclose()  # The check whether a server listens.
        async with await connect_unix(uri):
            await (await listener.accept()).aclose()


async def test_a_busy_server_keeps_its_file(uri: Uri) -> None:
    """A full queue of connections means in use, not stale."""
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(uri.path)
        busy.listen(0)
        waiting = []
        for _ in range(5):
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            waiting.append(sock)
            try:
                sock.connect(uri.path)
            except BlockingIOError:
                break
        with pytest.raises(OSError, match="another process listens"):
            await listen_unix(uri)
        for sock in waiting:
            sock.close()
    assert os.path.exists(uri.path)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
async def test_files_that_are_no_sockets_are_left_alone(uri: Uri, kind: str) -> None:
    """Files, directories and links are not removed."""
    path = Path(uri.path)
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/null")
    with pytest.raises(FileExistsError):
        await listen_unix(uri)
    assert os.path.lexists(path)


async def test_a_replaced_file_is_left_alone(uri: Uri) -> None:
    """Closing removes only its own file."""
    listener = await listen_unix(uri)
    os.rename(uri.path, uri.path + ".old")
    leave_stale(uri.path)
    await listener.aclose()
    assert os.path.exists(uri.path)


async def test_an_impossible_path(uri: Uri) -> None:
    """A missing directory, or a name that is too long, is an OSError."""
    with pytest.raises(FileNotFoundError):
        await listen_unix(Uri(scheme="unix", path=uri.path + "/deeper"))
    with pytest.raises(OSError, match="at most 107 bytes"):
        await listen_unix(Uri(scheme="unix", path=uri.path + "x" * 200))


async def test_a_socket_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the kernel gives no credentials, the facts have none."""
    a, b = trio.socket.socketpair()
    with a, b:
        stream = trio.SocketStream(a)
        assert peer_credentials(stream) == (os.getpid(), os.getuid(), os.getgid())
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert peer_credentials(stream) is None
    monkeypatch.undo()
    assert peer_credentials(stream) is None
