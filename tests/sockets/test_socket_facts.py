"""The facts that the kernel has about the other end of a socket."""

from __future__ import annotations

import socket
import struct

import pytest
import trio

from rsocket_trio.sockets.socket_facts import (
    PeerCredentials,
    facts_about,
    peer_credentials,
    socket_addresses,
)


class Answering:
    """A stream on a socket that answers with chosen bytes and names."""

    def __init__(self, family: int, *, data: bytes = b"", name: object = None) -> None:
        self.socket = self
        self.family = family
        self.data = data
        self.name = name

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option, size) == (socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return self.data

    def getsockname(self) -> object:
        if self.name is None:
            raise OSError
        return self.name

    getpeername = getsockname


def test_ids_are_unsigned():
    """A user of a namespace may have an id above 2^31; the largest says that it is not known."""
    data = struct.pack("=iII", 7, 3_000_000_000, 3_000_000_001)
    stream = Answering(socket.AF_UNIX, data=data)
    assert peer_credentials(stream) == PeerCredentials(7, 3_000_000_000, 3_000_000_001)
    unknown = Answering(socket.AF_UNIX, data=struct.pack("=iii", 0, -1, -1))
    assert peer_credentials(unknown) is None
    assert facts_about(unknown) == {"peer_credentials": None}


async def test_tcp_has_no_credentials():
    """The kernel answers the question with zeros there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = await trio.open_tcp_stream(*listener.getsockname())
    async with stream:
        assert peer_credentials(stream) is None
        assert facts_about(stream) == {}


@pytest.mark.parametrize(
    ("family", "name", "text"),
    [
        ("AF_UNIX", "", ""),
        ("AF_UNIX", "/run/a", "/run/a"),
        ("AF_UNIX", b"\0name\xff", "@name\udcff"),
        ("AF_INET", ("10.0.0.1", 5), "10.0.0.1:5"),
        ("AF_INET6", ("::1", 5, 0, 0), "[::1]:5"),
        ("AF_VSOCK", (3, 5), "3:5"),
        ("AF_VSOCK", (2**32 - 1, 5), "any:5"),
    ],
)
def test_the_text_of_a_name(family: str, name: object, text: str):
    """Each family of sockets has its own names."""
    if not hasattr(socket, family):
        pytest.skip(f"no {family}")
    assert socket_addresses(Answering(getattr(socket, family), name=name)) == (text, text)


@pytest.mark.parametrize("family", ["AF_UNIX", "AF_INET", "AF_VSOCK"])
def test_a_peer_that_is_gone(family: str):
    """Its addresses are empty, its cid is not known."""
    stream = Answering(getattr(socket, family))
    assert socket_addresses(stream) == ("", "")
    if family == "AF_VSOCK":
        assert facts_about(stream) == {"peer_cid": None}
