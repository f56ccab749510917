"""What the operating system has, and what is done where it has not: decided here and nowhere else.

This is tested on Linux. Nothing else should be needed than what trio runs on: where one of these is
missing, there is another way, slower or with less of an answer.

Who asks reads the name when it is needed, as ``os_support.UNIX_SOCKETS``, so that a test can take
one away.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from importlib.util import find_spec
from typing import Final

__all__ = [
    "DESCRIPTORS",
    "DIRECT_SOCKETS",
    "EPOLL",
    "EPOLL_END",
    "EPOLL_EVENTS",
    "NO_UNIX_SOCKETS",
    "PIPE_SIZE",
    "POLLED_FILES",
    "PROCESSES",
    "STOP_SIGNALS",
    "UNIX_SOCKETS",
]

DIRECT_SOCKETS: bool = os.name == "posix"
"""A socket is a file descriptor, which ``os.read`` and ``os.write`` take. If not, sockets are used
as trio does (`rsocket_trio.transports.direct`)."""

EPOLL: bool = hasattr(select, "epoll")
"""The kernel can watch many sockets with one registration for each. If not, each wait registers its
socket anew, as trio does (`rsocket_trio.transports.readiness`)."""

EPOLL_END: Final[int] = sum(
    getattr(select, name, 0) for name in ("EPOLLRDHUP", "EPOLLHUP", "EPOLLERR")
)
"""The events that mean the end of a connection, or of what its peer sends."""

EPOLL_EVENTS: Final[int] = sum(
    getattr(select, name, 0) for name in ("EPOLLIN", "EPOLLRDHUP", "EPOLLET")
)
"""The events that a socket is watched for: something to read, once for each arrival."""

UNIX_SOCKETS: bool = hasattr(socket, "AF_UNIX") and find_spec("fcntl") is not None
"""There are Unix sockets, and locks of files, for who listens on one. If not, ``unix://`` is an
error that says so."""

POLLED_FILES: bool = hasattr(select, "poll") and os.name == "posix"
"""Pipes and files say when they are ready. If not, standard input and output of the command line
are read and written in threads."""

PROCESSES: bool = os.path.isdir("/proc/self")
"""``/proc`` tells about processes. If not, `rsocket_trio.testing` cannot tell how much memory one
has used."""

DESCRIPTORS: str | None = next(filter(os.path.isdir, ["/proc/self/fd", "/dev/fd"]), None)
"""A directory that lists the open file descriptors of this process. If there is none,
`rsocket_trio.testing.assert_no_leaks` looks for tasks only."""

STOP_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)
)
"""What stops the commands that run for long: Ctrl-C, kill, and Ctrl-Break where there is that."""

PIPE_SIZE: Final[int] = getattr(select, "PIPE_BUF", 512)
"""A pipe that is ready to be written takes so many bytes, at least (POSIX, "pipe")."""

NO_UNIX_SOCKETS: Final = "there are no Unix sockets on this system"
