"""Hybrid vsock: a Unix socket of a hypervisor leads to the ports of its virtual machine.

Firecracker and Cloud Hypervisor have it (Firecracker, docs/vsock.md, "Host-Initiated Connections"):
the client sends ``CONNECT port`` and a line end, and gets ``OK`` with a port of the host, and a
line end. Behind this line the connection is a stream. If no process in the machine listens on the
port, the hypervisor closes the connection.
"""

from __future__ import annotations

import re
import socket
from typing import Final

import trio

from ..errors import ConnectFailed

__all__ = ["MAX_ANSWER", "request_port"]

MAX_ANSWER: Final = 32
"""The bytes of the hypervisor's answer, with its line end. ``OK 4294967295`` and a line end have
14."""

_ANSWER: Final = re.compile(rb"OK [0-9]{1,10}\r?\n")


async def request_port(stream: trio.SocketStream, port: int) -> None:
    """Ask the hypervisor for a port of its virtual machine, and read its answer.

    Nothing behind the line end is read.

    Args:
        stream: A connection to the Unix socket of the hypervisor.
        port: The port.

    Raises:
        ConnectFailed: The answer is not ``OK``, or the connection ended.
        OSError: The connection broke.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: always.
    If cancelled: you can only close the stream then.
    """
    await stream.send_all(b"CONNECT %d\n" % port)
    answer = await _read_line(stream.socket)
    if not answer:
        raise ConnectFailed(
            f"the hypervisor closed the connection: no process listens on vsock port {port}"
        )
    if not _ANSWER.fullmatch(answer):
        raise ConnectFailed(f"the hypervisor answered {answer!r} to CONNECT {port}, not OK")


async def _read_line(sock: trio.socket.SocketType) -> bytes:
    """Return a line, or what came before the end or the limit."""
    line = b""
    while len(line) < MAX_ANSWER:
        # Looked at first: what is behind the line belongs to the wire.
        waiting = await sock.recv(MAX_ANSWER - len(line), socket.MSG_PEEK)
        length = waiting.find(b"\n") + 1 or len(waiting)
        line += await sock.recv(length) if length else b""
        if not waiting or line.endswith(b"\n"):
            break
    return line
