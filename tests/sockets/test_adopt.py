"""Sockets that are open already: what is taken over, and what is refused and stays as it was."""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from pathlib import Path

import pytest
import trio

from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.adopt import adopt, adopt_listener
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.sockets.socket_facts import PeerCredentials
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.ttrpc.addresses import ttrpc_uri
from tests.sockets.echoing import ask, echo_server, reach

OWN = PeerCredentials(pid=os.getpid(), uid=os.getuid(), gid=os.getgid())


def descriptor_of(sock: socket.socket) -> int:
    return sock.detach()


FORMS = {
    "descriptor": descriptor_of,
    "socket": lambda sock: sock,
    "trio socket": trio.socket.from_stdlib_socket,
    "stream": lambda sock: trio.SocketStream(trio.socket.from_stdlib_socket(sock)),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_pair_of_sockets(form: str) -> None:
    """Each form of an open socket becomes a stream that owns it and knows its peer."""
    async with assert_no_leaks():
        here, there = socket.socketpair()
        async with adopt(FORMS[form](here)) as one, adopt(there, scheme="pair") as other:
            assert isinstance(one.stream, DirectStream)
            await one.stream.send_all(b"ping")
            assert await other.stream.receive_some() == b"ping"
            assert (one.info.scheme, other.info.scheme) == ("fd", "pair")
            assert one.info.extra == other.info.extra == {"peer_credentials": OWN}
            assert (one.info.peer, one.info.local) == ("", "")


async def test_the_facts_of_a_tcp_connection() -> None:
    """They are as for a dialled one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    async with adopt(client) as one, adopt(server) as other:
        assert one.info.peer == other.info.local != ""
        assert one.info.local == other.info.peer != ""
        assert one.info.extra == other.info.extra == {}
        for stream in (one, other):
            sock = stream.stream.socket
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_an_inherited_descriptor_by_its_address() -> None:
    """The stream closes the descriptor, so the address is good for one connection."""
    async with assert_no_leaks():
        here, there = socket.socketpair()
        os.set_inheritable(here.fileno(), True)
        number = here.detach()
        async with adopt(there) as other:
            async with await reach(f"fd:{number}") as client:
                assert not os.get_inheritable(number)
                assert fcntl.fcntl(number, fcntl.F_GETFL) & os.O_NONBLOCK
                assert client.info.scheme == "ttrpc+fd"
                assert client.info.extra["peer_credentials"] == OWN
                await client.stream.send_all(b"ping")
                assert await other.stream.receive_some() == b"ping"
            assert await other.stream.receive_some() == b""
        with pytest.raises(ConnectFailed, match=f"the descriptor {number} is not open"):
            await reach(f"fd:{number}")


CHILD = """
import sys, trio
from rsocket_trio.sockets.dial import dial
from rsocket_trio.ttrpc.addresses import ttrpc_uri

async def hold(stream):
    return stream

async def main():
    async with await dial(ttrpc_uri(sys.argv[1]), hold, handshake_timeout=5) as stream:
        pid, uid, gid = stream.info.extra["peer_credentials"]
        await stream.stream.send_all(str(pid).encode())

trio.run(main)
"""


async def test_another_process_inherits_a_descriptor() -> None:
    """As containerd starts plugins; the peer is the process that has made the pair."""
    here, there = socket.socketpair()
    with there:
        command = [sys.executable, "-c", CHILD, f"fd:{there.fileno()}"]
        async with adopt(here) as stream, trio.open_nursery() as nursery:
            nursery.start_soon(_run, command, there)
            assert await stream.stream.receive_some() == str(os.getpid()).encode()


async def _run(command: list[str], inherited: socket.socket) -> None:
    root = Path(__file__).parents[2]
    await trio.run_process(command, pass_fds=[inherited.fileno()], cwd=root)


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def unconnected() -> socket.socket:
    return socket.socket(socket.AF_INET)


def datagrams() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


REFUSED = [
    (listening, "it is a listening socket, not a connection"),
    (unconnected, "it is not connected"),
    (datagrams, "it is not a stream socket"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
@pytest.mark.parametrize("form", ["descriptor", "socket", "trio socket"])
async def test_a_wrong_socket_is_refused_and_stays(make, why: str, form: str) -> None:
    """It is neither closed nor changed."""
    with make() as sock:
        os.set_inheritable(sock.fileno(), True)
        source = sock.fileno() if form == "descriptor" else FORMS[form](sock)
        with pytest.raises(OSError, match=why):
            adopt(source)
        assert os.get_inheritable(source if form == "descriptor" else source.fileno())
        if form == "descriptor":
            assert sock.getblocking()
            assert not fcntl.fcntl(source, fcntl.F_GETFL) & os.O_NONBLOCK
        elif form == "trio socket":
            source.close()


async def test_what_is_no_socket(tmp_path: Path) -> None:
    """A file stays open; a number that is not open is said so."""
    with open(tmp_path / "file", "w") as file:
        with pytest.raises(ConnectFailed, match=f"the descriptor {file.fileno()} is not a socket"):
            await reach(f"fd:{file.fileno()}")
        file.write("still open")
    with pytest.raises(OSError, match="the descriptor 2147483647 is not open"):
        adopt_listener(2147483647)


@pytest.mark.parametrize("kind", ["unix", "tcp"])
async def test_an_inherited_listening_socket(kind: str, tmp_path: Path) -> None:
    """Its file is not ours, so it stays."""
    path = str(tmp_path / "socket")
    if kind == "unix":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        address = path
    else:
        listener = listening()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    async with assert_no_leaks():
        number = listener.detach()
        try:
            async with echo_server(f"fd:{number}") as server:
                assert server.uri == ttrpc_uri(f"fd:{number}")
                async with await reach(address) as client:
                    assert await ask(client) == b"ping"
                    (info,) = server.infos
                    assert (info.scheme, info.listener) == ("ttrpc+fd", f"ttrpc+fd://{number}")
                    assert info.local == client.info.peer
                    wanted = {"peer_credentials": OWN} if kind == "unix" else {}
                    assert info.extra == wanted
        finally:
            leak = None
            try:
                os.close(number)
                leak = number
            except OSError:
                pass
        assert leak is None, "the listener has not closed the descriptor"
    assert os.path.exists(path) == (kind == "unix")


async def test_a_connection_is_no_listener() -> None:
    """The descriptor stays open."""
    here, there = socket.socketpair()
    with here, there:
        with pytest.raises(OSError, match="it is not a listening socket"):
            adopt_listener(here.fileno())
        here.send(b"x")


async def test_a_cancelled_dial_leaves_the_descriptor_open() -> None:
    """Nothing has been taken over."""
    here, there = socket.socketpair()
    with here, there:
        with trio.move_on_after(0):
            await reach(f"fd:{here.fileno()}")
        here.send(b"x")
