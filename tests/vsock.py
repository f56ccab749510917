"""vsock without a virtual machine: `imitated_vsock` puts TCP on this machine in its place."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio

from rsocket_trio.uri import VSOCK_ANY

LOCAL = 1
"""VMADDR_CID_LOCAL of vsock(7): the cid of this machine for itself."""


def missing_loopback() -> str:
    """Why no connection by vsock can be made on this machine; empty if it can."""
    if not hasattr(socket, "AF_VSOCK"):
        return "this system has no vsock"
    try:
        with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as sock:
            sock.bind((LOCAL, VSOCK_ANY))
    except OSError as error:
        return f"this kernel has no loopback of vsock: {error.strerror}"
    return ""


class ImitatedVsock(trio.socket.SocketType):
    """A TCP socket that says that it is one of vsock."""

    family = socket.AF_VSOCK

    def __init__(self, inner: trio.socket.SocketType) -> None:
        self.inner = inner

    @property
    def type(self) -> socket.SocketKind:
        return self.inner.type

    def __getattribute__(self, name: str) -> Any:
        # All that is not written here, and that `SocketType` only declares.
        if name in {"inner", "family", "__class__", "__dict__"} or name in vars(ImitatedVsock):
            return super().__getattribute__(name)
        return getattr(self.inner, name)

    def setsockopt(self, level: int, *args: Any) -> None:
        if level == socket.IPPROTO_TCP:
            raise OSError(errno.ENOPROTOOPT, "it is not TCP")
        self.inner.setsockopt(level, *args)

    async def bind(self, address: Any) -> None:
        cid, port = address
        if cid not in {LOCAL, VSOCK_ANY}:
            raise OSError(errno.EADDRNOTAVAIL, "no cid of this machine")
        assert port, "a free port is asked for by VMADDR_PORT_ANY"
        await self.inner.bind(("127.0.0.1", 0 if port == VSOCK_ANY else port))

    async def connect(self, address: Any) -> None:
        cid, port = address
        if cid != LOCAL:
            raise OSError(errno.ENODEV, "No such device")
        await self.inner.connect(("127.0.0.1", port))

    async def accept(self) -> tuple[trio.socket.SocketType, Any]:
        sock, (_, port) = await self.inner.accept()
        return ImitatedVsock(sock), (LOCAL, port)

    def getsockname(self) -> Any:
        return LOCAL, self.inner.getsockname()[1]

    def getpeername(self) -> Any:
        return LOCAL, self.inner.getpeername()[1]


class _Factory(trio.abc.SocketFactory):
    def socket(
        self,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,  # noqa: A002 - the name that trio has given it
        proto: int = 0,
    ) -> trio.socket.SocketType:
        is_vsock = family == socket.AF_VSOCK
        real = socket.socket(socket.AF_INET if is_vsock else family, type, proto)
        wrapped = trio.socket.from_stdlib_socket(real)
        return ImitatedVsock(wrapped) if is_vsock else wrapped


@contextmanager
def imitated_vsock() -> Iterator[None]:
    """Make sockets of vsock in this run of trio that reach this machine, as cid 1."""
    before = trio.socket.set_custom_socket_factory(_Factory())
    try:
        yield
    finally:
        trio.socket.set_custom_socket_factory(before)
