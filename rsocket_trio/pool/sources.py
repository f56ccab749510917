"""Where the targets of a pool come from: `dns`, `target_file`, and what follows them.

A source is an async iterable of complete sets. Ours are iterators and no generators: an error of
one question does not end them.
"""

from __future__ import annotations

import os
import socket
import stat
from abc import abstractmethod
from collections.abc import AsyncIterator
from copy import copy
from pathlib import Path
from random import random
from typing import Final

import trio

from ..field_checks import COUNT, FINITE, argument
from ..log_policy import logger
from ..uri import AddressKind, Uri, as_uri, kind_of, shown
from .options import Target, as_target

__all__ = ["Watch", "dns", "target_file"]

_AT_LEAST: Final = 1.0
"""Seconds between two questions, also when targets are lost one after the other."""

_JITTER: Final = 0.2
"""The part of each wait that is random, so that the clients of one name do not ask together."""

_ABSENT: Final = 2
"""So many answers without an address remove it: servers of names give parts of long lists."""


class Watch(AsyncIterator[tuple[Target, ...]]):
    """Asks again and again, and gives each set that differs from the last one.

    Each iteration over it asks for itself, so that several pools may have the same source.

    Args:
        every: The time between two questions, in seconds.
        what: What is asked, for the log.

    Attributes:
        failure: Why the last question has no answer; empty if it has one.
    """

    def __init__(self, every: float, what: str) -> None:
        argument("every", every, FINITE)
        self._every = every
        self._what = what
        self._begin()

    def _begin(self) -> None:
        self._asked = False
        self._given: tuple[Target, ...] | None = None
        self.failure = ""  # it is in the log then, once
        self._hurry = trio.Event()

    def __aiter__(self) -> Watch:
        """Return an iterator that begins anew."""
        new = copy(self)
        new._begin()  # noqa: SLF001 - this class
        return new

    async def __anext__(self) -> tuple[Target, ...]:
        """Wait for the next set of targets.

        Checkpoint: always.
        If cancelled: no set is lost.
        """
        while True:
            if self._asked:
                await trio.sleep(min(_AT_LEAST, self._every))
                with trio.move_on_after(self._every * (1 - _JITTER * random())):
                    await self._hurry.wait()
            self._hurry = trio.Event()
            last = self._given
            if (targets := await self.ask()) != last and targets is not None:
                return targets

    async def ask(self) -> tuple[Target, ...] | None:
        """Ask once, now, for a caller that has its own times for it.

        Returns:
            The targets. Without an answer that can be used, which the log says, the last ones, or
            ``None`` if there were none yet.

        Checkpoint: always.
        If cancelled: the targets are as before.
        """
        try:
            self._given = await self._ask()
            self.failure = ""
        except (OSError, ValueError) as error:  # also UnicodeError
            if (text := str(error)) != self.failure:  # once, not with each question
                self.failure = text
                logger.warning("pool: %s: the last targets stay: %s", self._what, error)
        finally:
            self._asked = True
        return self._given

    def __str__(self) -> str:
        """Return what is asked, and why there was no answer to the last question."""
        return f"{self._what} ({self.failure})" if self.failure else self._what

    def hurry(self) -> None:
        """Ask soon: a target is lost, so another one may be in its place."""
        self._hurry.set()

    @abstractmethod
    async def _ask(self) -> tuple[Target, ...]:
        """Ask once.

        Raises:
            OSError: There is no answer.
            ValueError: The answer cannot be used.
        """


class _Names(Watch):
    """The addresses of a name."""

    def __init__(self, uri: Uri, every: float, max_addresses: int) -> None:
        super().__init__(every, f"the addresses of {shown(uri)}")
        argument("max_addresses", max_addresses, COUNT)
        self._uri = uri
        self._at_most = max_addresses

    def _begin(self) -> None:
        super()._begin()
        self._absent: dict[str, int] = {}  # in how many answers each known address was not

    async def _ask(self) -> tuple[Target, ...]:
        uri = self._uri
        found = await trio.socket.getaddrinfo(uri.host, uri.port, type=socket.SOCK_STREAM)
        here = {str(address[4][0]) for address in found}
        absent = {each: times + 1 for each, times in self._absent.items() if times + 1 < _ABSENT}
        known = sorted({**absent, **dict.fromkeys(here, 0)}.items())
        if len(known) > self._at_most:
            text = "pool: %s: of %d only %d are used (dns(max_addresses=))"
            logger.warning(text, self._what, len(known), self._at_most)
        self._absent = dict(known[: self._at_most])
        return tuple(Target(uri, address) for address in self._absent)


class _Lines(Watch):
    """The addresses in a file."""

    def __init__(self, path: str | os.PathLike[str], every: float, max_size: int) -> None:
        super().__init__(every, f"the file {os.fspath(path)!r}")
        argument("max_size", max_size, COUNT)
        self._path = Path(path)
        self._max_size = max_size

    async def _ask(self) -> tuple[Target, ...]:
        text = (await trio.to_thread.run_sync(self._read)).decode()
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        return tuple(dict.fromkeys(as_target(line) for line in lines if line))

    def _read(self) -> bytes:
        """Read the file, if nobody writes it meanwhile."""
        # A FIFO would wait for its writer.
        descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise ValueError("it is no regular file")
            with open(descriptor, "rb", closefd=False) as file:  # refuses a directory, unclosed
                content = file.read(self._max_size + 1)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if len(content) > self._max_size:
            raise ValueError(f"it has more than {self._max_size} bytes (target_file(max_size=))")
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise ValueError("it was being written")
        return content


def dns(address: str | Uri, *, every: float = 30.0, max_addresses: int = 1024) -> Watch:
    """Return a source of targets for `connect_pool`: all IP addresses of the host of an address.

    The resolver of the system is asked, and asked at once when a target loses its connection.
    It does not tell how long an answer holds. An address is removed when two answers lack it.

    Args:
        address: The address, e.g. ``tcp://orders:7878``. TLS verifies the name of its host.
        every: The time between two questions, in seconds, shortened at random by up to a fifth.
        max_addresses: An answer is used up to so many addresses, as it comes from the network.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: The address has no host, or a number is out of range.
    """
    uri = as_uri(address)
    if kind_of(uri) is not AddressKind.INTERNET:
        raise ValueError(f"{shown(uri)} has no host whose addresses could be asked for")
    return _Names(uri, every, max_addresses)


def target_file(
    path: str | os.PathLike[str], *, every: float = 2.0, max_size: int = 1024 * 1024
) -> Watch:
    """Return a source of targets for `connect_pool`: the addresses in a file, one in each line.

    Empty lines, and what is behind a ``#``, do not count. The file is read again and again. If it
    is not there, has a line that is no address or is being written, the last set stays, and the log
    says so. Replace it by a rename, so that nobody reads a half of it.

    Args:
        path: The file.
        every: The time between two readings, in seconds.
        max_size: A larger file is not used. In bytes.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A number is out of range.
    """
    return _Lines(path, every, max_size)
