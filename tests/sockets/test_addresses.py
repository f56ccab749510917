"""Each kind of address can be dialled and listened on; both ends know the facts."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from uuid import uuid4

import pytest

from rsocket_trio import os_support
from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.socket_facts import PeerCredentials
from rsocket_trio.sockets.unix import connect_unix, listen_unix
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.ttrpc.addresses import ttrpc_uri
from rsocket_trio.uri import Uri
from tests.sockets.echoing import ask, echo_server, reach

OWN = PeerCredentials(pid=os.getpid(), uid=os.getuid(), gid=os.getgid())


@pytest.fixture
def name() -> str:
    """A name of the abstract namespace that no other test has."""
    return f"@rsocket-trio/{uuid4()} ?"


async def test_a_unix_socket_knows_its_peer(tmp_path: Path) -> None:
    """The credentials are a tuple with names."""
    path = f"{tmp_path}/a socket"
    async with assert_no_leaks(), echo_server(path) as server:
        assert server.uri == ttrpc_uri(path)
        async with await reach(path) as client:
            assert await ask(client) == b"ping"
            for info in (client.info, server.infos[0]):
                assert info.scheme == "ttrpc+unix"
                assert info.extra["peer_credentials"] == OWN == tuple(OWN)
                assert isinstance(info.extra["peer_credentials"], PeerCredentials)
            assert (client.info.peer, server.infos[0].local) == (path, path)
    assert not os.path.exists(path)


async def test_an_abstract_socket(name: str) -> None:
    """It has no file, its name is free again after its end, and it has the usual facts."""
    uri = ttrpc_uri(f"unix://{name.replace('?', '%3F').replace(' ', '%20')}")
    for _ in range(2):
        async with assert_no_leaks(), echo_server(uri) as server:
            assert server.uri == uri
            async with await reach(uri) as client:
                assert await ask(client) == b"ping"
                assert client.info.peer == server.infos[0].local == name
                assert server.infos[0].listener == str(uri)
                assert server.infos[0].extra["peer_credentials"] == OWN
        with pytest.raises(ConnectFailed, match="Connection refused"):
            await reach(uri)


async def test_other_programs_find_an_abstract_socket(name: str) -> None:
    """The name for the kernel is a NUL and the name behind the @."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name[1:])
        listener.listen()
        async with await reach(Uri(scheme="ttrpc+unix", path=name)):
            listener.accept()[0].close()


async def test_an_abstract_name_that_is_taken(name: str) -> None:
    """Two servers cannot have it."""
    uri = Uri(scheme="ttrpc+unix", path=name)
    async with await listen_unix(uri):
        with pytest.raises(OSError, match="Address already in use"):
            await listen_unix(uri)


async def test_a_system_without_abstract_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what can be used."""
    monkeypatch.setattr(os_support, "ABSTRACT_SOCKETS", False)
    with pytest.raises(ConnectFailed, match="only Linux has abstract sockets: use unix:///path"):
        await reach("unix://@name")


@pytest.mark.parametrize("scheme", ["ttrpc+unix", "unix"])
async def test_a_path_that_is_too_long(tmp_path: Path, scheme: str) -> None:
    """The error names the limit, and has its errno; Python's own has neither."""
    long = Uri(scheme=scheme, path=str(tmp_path / ("a" * 108)))
    text = rf"at most 107 bytes, and this one has {len(long.path)}"
    with pytest.raises(OSError, match=text) as refused:
        await listen_unix(long)
    assert refused.value.errno == errno.ENAMETOOLONG
    with pytest.raises(OSError, match=text):
        await connect_unix(long)
    name = Uri(scheme=scheme, path="@" + "a" * 107)
    async with await listen_unix(name), await connect_unix(name):
        pass


async def test_tcp_has_no_delay() -> None:
    """A small frame leaves at once, in both directions; TCP says nothing about processes."""
    async with echo_server("tcp://127.0.0.1:0") as server:
        async with await reach(server.uri) as client:
            assert await ask(client) == b"ping"
            sock = client.stream.socket  # type: ignore[attr-defined]  # a DirectStream
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert client.info.peer == server.infos[0].local == server.uri.authority
            assert client.info.extra == server.infos[0].extra == {}
