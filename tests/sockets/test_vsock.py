"""vsock: on this machine where its kernel can, and with TCP in its place everywhere."""

from __future__ import annotations

import errno
import socket

import pytest
import trio

from rsocket_trio import os_support
from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.vsock import listen_vsock
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.ttrpc.addresses import ttrpc_uri
from tests.sockets.echoing import ask, echo_server, reach
from tests.vsock import imitated_vsock, missing_loopback

MISSING = missing_loopback()

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_VSOCK"), reason="Python without vsock")


@pytest.fixture(params=["imitated", "real"])
def vsock(request: pytest.FixtureRequest):
    """Nothing, or why this machine cannot."""
    if request.param == "real" and MISSING:
        pytest.skip(MISSING)
    return request.param


async def test_a_connection_of_this_machine_with_itself(vsock: str) -> None:
    """Port 0 is any free port; both ends know the cid of the other."""
    async with assert_no_leaks():
        if vsock == "imitated":
            with imitated_vsock():
                await _connect_locally()
        else:
            await _connect_locally()


async def _connect_locally() -> None:
    async with echo_server("vsock://any:0") as server:
        assert (server.uri.host, server.uri.port > 0) == ("any", True)
        port = server.uri.port
        async with await reach(f"vsock://local:{port}") as client:
            assert await ask(client) == b"ping"
            (info,) = server.infos
            assert info.scheme == client.info.scheme == "ttrpc+vsock"
            assert info.listener == f"ttrpc+vsock://any:{port}"
            assert client.info.peer == f"1:{port}"
            assert info.peer == client.info.local
            assert client.info.extra == info.extra == {"peer_cid": 1}


async def test_the_kernel_gives_a_free_port() -> None:
    """This needs no loopback."""
    try:
        listener = await listen_vsock(ttrpc_uri("vsock://any:0"))
    except OSError as error:
        pytest.skip(f"no vsock here: {error}")
    async with listener:
        port = listener.socket.getsockname()[1]
        assert port >= 1024
        with pytest.raises(OSError, match="Address already in use"):
            await listen_vsock(ttrpc_uri(f"vsock://any:{port}"))


async def test_failures_are_explained() -> None:
    """A cid that does not exist or cannot be dialled, and a port where no process listens."""
    with imitated_vsock():
        with pytest.raises(ConnectFailed, match=r"ttrpc\+vsock://7:1: No such device"):
            await reach("vsock://7:1")
        with pytest.raises(ConnectFailed, match="the cid 'any' is for servers"):
            await reach("vsock://any:1")
        with pytest.raises(OSError, match="no cid of this machine"):
            await listen_vsock(ttrpc_uri("vsock://7:1"))
        async with await listen_vsock(ttrpc_uri("vsock://any:0")) as listener:
            port = listener.socket.getsockname()[1]
        async with assert_no_leaks():
            with pytest.raises(ConnectFailed, match="Connection refused"):
                await reach(f"vsock://local:{port}")


async def test_a_system_without_vsock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may not know it, or the kernel may not: the error is the same."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    wanted = "this system has no vsock: use unix:// or tcp://"
    with monkeypatch.context() as patch:
        patch.setattr(os_support, "VSOCK", False)
        with pytest.raises(ConnectFailed, match=wanted):
            await reach("vsock://3:1024")
    monkeypatch.setattr(trio.socket, "socket", refuse)
    with pytest.raises(OSError, match=wanted) as caught:
        await listen_vsock(ttrpc_uri("vsock://any:0"))
    assert caught.value.errno == errno.EAFNOSUPPORT


async def test_another_error_of_the_kernel_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many open files has nothing to do with vsock."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(trio.socket, "socket", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        await listen_vsock(ttrpc_uri("vsock://any:0"))
