"""Socket files: whose they are, and who may take them away."""

from __future__ import annotations

import errno
import os
import socket
from functools import partial
from pathlib import Path

import pytest
import trio

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.transports import FrameTransport, open_transport, serve_listener
from rsocket_trio.transports.unix import connect_unix, listen_unix, peer_credentials
from rsocket_trio.uri import Uri


@pytest.fixture
def uri(tmp_path: Path) -> Uri:
    return Uri(scheme="unix", path=str(tmp_path / "a socket"))


def leave_stale(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)


async def test_the_file_is_there_while_somebody_listens(uri: Uri) -> None:
    """Closing removes the file, also when it is cancelled; closing again is fine."""
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
        bound = await nursery.start(partial(serve_listener, uri, handle))
        assert bound == [uri]
        assert os.path.exists(uri.path)
        nursery.cancel_scope.cancel()
    assert not os.path.exists(uri.path)


async def test_a_stale_file_is_replaced(uri: Uri) -> None:
    """A socket file that nobody listens on does not keep a server from starting."""
    leave_stale(uri.path)
    with pytest.raises(ConnectFailed, match="Connection refused"):
        async with open_transport(uri):
            raise AssertionError("connected")
    async with await listen_unix(uri) as listener, await connect_unix(uri):
        await (await listener.accept()).aclose()


async def test_a_file_in_use_is_left_alone(uri: Uri) -> None:
    """A second server is refused, and the first is still reached."""
    async with await listen_unix(uri) as listener:
        with pytest.raises(OSError, match="somebody listens") as caught:
            await listen_unix(uri)
        assert caught.value.errno == errno.EADDRINUSE
        await (await listener.accept()).aclose()  # The question whether somebody is there.
        async with await connect_unix(uri):
            await (await listener.accept()).aclose()


async def test_a_server_too_busy_to_answer_is_there(uri: Uri) -> None:
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
        with pytest.raises(OSError, match="somebody listens"):
            await listen_unix(uri)
        for sock in waiting:
            sock.close()
    assert os.path.exists(uri.path)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
async def test_what_is_no_socket_is_left_alone(uri: Uri, kind: str) -> None:
    """Files, directories and links are nobody's to unlink."""
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


async def test_a_file_that_is_another_one_now_is_left_alone(uri: Uri) -> None:
    """Closing removes only what was made here."""
    listener = await listen_unix(uri)
    os.rename(uri.path, uri.path + ".old")
    leave_stale(uri.path)
    await listener.aclose()
    assert os.path.exists(uri.path)


async def test_a_path_that_cannot_be(uri: Uri) -> None:
    """No directory, or too long a name: an OSError."""
    with pytest.raises(FileNotFoundError):
        await listen_unix(Uri(scheme="unix", path=uri.path + "/deeper"))
    with pytest.raises(OSError, match="too long"):
        await listen_unix(Uri(scheme="unix", path=uri.path + "x" * 200))


async def test_a_socket_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not say who it is, there is nothing to know."""
    a, b = trio.socket.socketpair()
    with a, b:
        stream = trio.SocketStream(a)
        assert peer_credentials(stream) == (os.getpid(), os.getuid(), os.getgid())
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert peer_credentials(stream) is None
    monkeypatch.undo()
    assert peer_credentials(stream) is None
