"""What systemd gives to a service, and is told by it: `activated`, `notify`, `watchdog_interval`.

The protocols are those of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3). Each is a few
variables of the environment. Those of the sockets are removed when they are first read: a program
that this process starts must not take them for its own.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from .adopt import socket_of

__all__ = ["activated", "notify", "watchdog_interval"]

_FIRST: Final = 3  # SD_LISTEN_FDS_START
_DIGITS: Final = 20  # those of a u64
_MOST: Final = 1024
"""The most sockets that are taken: more is no number that systemd has written."""


class _Inherited:
    """The listening sockets that this process has got, once they have been looked for."""

    sockets: list[tuple[str, socket.socket]] | None = None


def activated(name: str) -> list[socket.socket]:
    """Return the sockets of a name (``FileDescriptorName=``), or all of them for an empty name.

    They are duplicates, which the caller owns: the sockets themselves stay open as long as this
    process, so that a server may be started again.

    Raises:
        OSError: There is no such socket; the text says which there are.
    """
    if _Inherited.sockets is None:
        _Inherited.sockets = _take()
    there = _Inherited.sockets
    if not there:
        text = "systemd has given no socket to this process (LISTEN_PID, LISTEN_FDS)"
        raise OSError(errno.ENOENT, text)
    found = [sock for each, sock in there if name in ("", each)]
    if not found:
        names = ", ".join(sorted({each for each, _ in there}))
        raise OSError(errno.ENOENT, f"systemd has given no socket of this name, but of {names}")
    return [each.dup() for each in found]


def _take() -> list[tuple[str, socket.socket]]:
    pid, count, names = (
        os.environ.pop(each, "") for each in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    )
    many = _positive(count)
    if pid != str(os.getpid()) or many > _MOST:
        return []
    named = names.split(":") if names else []
    found: list[tuple[str, socket.socket]] = []
    for place in range(many):
        descriptor = _FIRST + place
        os.set_inheritable(descriptor, False)
        name = named[place] if place < len(named) else "unknown"
        found.append((name, socket_of(descriptor)))
    return found


def notify(state: str) -> bool:
    """Tell systemd about the state of this service, e.g. ``READY=1`` or ``STATUS=3 of 4``.

    The command line does so itself. A program that is a service of ``Type=notify`` calls this when
    its servers accept connections, and with ``STOPPING=1`` when they stop.

    Args:
        state: Assignments as in sd_notify(3), one for each line.

    Returns:
        Whether there is somebody to tell, and it was told. A service runs without it too, so no
        error is raised.
    """
    place = os.environ.get("NOTIFY_SOCKET", "")
    if not place.startswith(("/", "@")):
        return False
    if place.startswith("@"):  # the abstract namespace of unix(7)
        place = f"\0{place[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(state.encode(), place)
    except OSError:  # also a full queue: what it is told next has the same meaning
        return False
    return True


def watchdog_interval() -> float | None:
    """Return how often systemd wants ``WATCHDOG=1``, in seconds; ``None`` if it does not.

    It is half of ``WatchdogSec=``, as sd_watchdog_enabled(3) asks for.
    """
    time = os.environ.get("WATCHDOG_USEC", "")
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return _positive(time) / 2e6 or None


def _positive(text: str) -> int:
    """Return a number of the environment; 0 if it is none that systemd has written."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else 0
