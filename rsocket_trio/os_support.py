"""The features of the operating system that this package can use, but does not need.

The tests run on Linux. The package should run on every system that trio runs on: each name below
says what happens without the feature.

Other modules read a name at the time of use, as ``os_support.UNIX_SOCKETS``, so that a test can
switch a feature off.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from importlib.util import find_spec
from typing import Final

__all__ = [
    "ABSTRACT_SOCKETS",
    "ALLOCATION",
    "DESCRIPTORS",
    "DIRECT_SOCKETS",
    "EPOLL",
    "EPOLL_EVENTS",
    "EPOLL_LASTING",
    "FILE_LOCKS",
    "HANDED_SOCKETS",
    "NO_ABSTRACT_SOCKETS",
    "NO_UNIX_SOCKETS",
    "NO_VSOCK",
    "PIPE_SIZE",
    "POLLED_FILES",
    "POLL_HANGUP",
    "POSITIONED_READS",
    "PROCESSES",
    "RELOAD_SIGNALS",
    "RESOURCE_LIMITS",
    "STOP_SIGNALS",
    "UNIX_SOCKETS",
    "VSOCK",
]

DIRECT_SOCKETS: bool = os.name == "posix"
"""A socket is a file descriptor, which ``os.read`` and ``os.write`` accept. If not, trio's own
socket streams are used (`rsocket_trio.sockets.direct`)."""

EPOLL: bool = hasattr(select, "epoll")
"""The kernel can watch many sockets with one registration for each. If not, each wait registers its
socket anew, as trio does (`rsocket_trio.sockets.readiness`)."""

EPOLL_EVENTS: Final[int] = sum(
    getattr(select, name, 0) for name in ("EPOLLIN", "EPOLLPRI", "EPOLLRDHUP", "EPOLLET")
)
"""The events that a socket is watched for: something to read, once for each arrival."""

EPOLL_LASTING: Final[int] = sum(
    getattr(select, name, 0) for name in ("EPOLLPRI", "EPOLLRDHUP", "EPOLLHUP", "EPOLLERR")
)
"""The events after which one read may not take all: the end of a connection, or of what its peer
sends, and urgent data, before which a read stops."""

ALLOCATION: bool = hasattr(os, "posix_fallocate")
"""Disk space can be given to a file without writing it. If not, a spool writes its reserve."""

RESOURCE_LIMITS: bool = find_spec("resource") is not None
"""The limits of a process are known. If not, a spool finds a limit on the size of files when it is
reached."""

FILE_LOCKS: bool = find_spec("fcntl") is not None
"""There are file locks (flock). If not, `rsocket_trio.spool` raises an error that says so."""

UNIX_SOCKETS: bool = hasattr(socket, "AF_UNIX") and FILE_LOCKS
"""There are Unix sockets, and file locks, which a listener on one needs. If not, ``unix://``
addresses raise an error that says so."""

ABSTRACT_SOCKETS: bool = UNIX_SOCKETS and sys.platform.startswith("linux")
"""Unix sockets may have a name that is no file. If not, ``unix://@name`` addresses raise an error
that says so."""

HANDED_SOCKETS: bool = ABSTRACT_SOCKETS and hasattr(socket, "SOCK_SEQPACKET")
"""A connection can be handed to another process, in a message that keeps its bounds. If not, there
is one process for an address (`rsocket_trio.workers`)."""

VSOCK: bool = hasattr(socket, "AF_VSOCK")
"""There are sockets between a virtual machine and its host. If not, ``vsock://`` addresses raise an
error that says so."""

POLLED_FILES: bool = hasattr(select, "poll") and os.name == "posix"
"""Pipes and files can be polled. If not, the command line reads and writes standard input and
output in threads."""

POSITIONED_READS: bool = hasattr(os, "pread")
"""A file can be read at an offset (pread). If not, ``lumberjack ship`` says so and ends."""

POLL_HANGUP: int = getattr(select, "POLLRDHUP", 0) if POLLED_FILES else 0
"""The event that the peer of a socket sends no more, whether its bytes have been read or not. If 0,
a Lumberjack server that does not read from a sender notices later that it has left."""

PROCESSES: bool = os.path.isdir("/proc/self")
"""``/proc`` describes processes. If not, `rsocket_trio.testing` cannot measure the memory that a
process has used."""

DESCRIPTORS: str | None = next(filter(os.path.isdir, ["/proc/self/fd", "/dev/fd"]), None)
"""A directory that lists the open file descriptors of this process. If ``None``,
`rsocket_trio.testing.assert_no_leaks` looks for tasks only."""

STOP_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)
)
"""The signals that stop long-running commands: Ctrl-C, kill, and on Windows Ctrl-Break."""

RELOAD_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGHUP",) if hasattr(signal, name)
)
"""The signals for which long-running commands read certificates and tokens again."""

PIPE_SIZE: Final[int] = getattr(select, "PIPE_BUF", 512)
"""The bytes that a pipe accepts, at least, when it is ready for writing (POSIX, "pipe")."""

NO_UNIX_SOCKETS: Final = "this system has no Unix sockets: use tcp:// or ws://"

NO_ABSTRACT_SOCKETS: Final = "only Linux has abstract sockets: use unix:///path"

NO_VSOCK: Final = "this system has no vsock: use unix:// or tcp://"
