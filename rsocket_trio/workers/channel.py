"""The parent's end of the socket to a worker for one address: `Channel`.

A connection stays open here until the worker has said that it has taken it: what a worker that
dies has not taken goes to another one.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from math import inf
from typing import Final

import trio

from .messages import MAX_SIZE, Counts, Handed, Malformed, Message, Returned, decode, encode

__all__ = ["MOST_UNTAKEN", "Channel"]

MOST_UNTAKEN: Final = 32
"""The connections that may be on the way to a worker for one address. One that hangs gets no more,
and what is on the way waits for it."""

_PAUSE: Final = 1.0
"""How long a worker that has no descriptor left gets nothing, in seconds: handed over at once, what
it gives back would go to and fro thousands of times in a second."""

_LATER: Final = frozenset(
    {errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM, errno.EMFILE}
)
"""The socket is full, or too many descriptors are on the way (unix(7), "ETOOMANYREFS")."""


class Channel:
    """What was handed over to a worker at one address.

    Args:
        sock: Our end.
        place: The place of the address.

    Attributes:
        place: The place of the address among those of the parent.
        listening: The worker has said that it listens.
        closed: The worker takes nothing any more.
        untaken: The connections that are on the way, by their numbers.
    """

    def __init__(self, sock: socket.socket, place: int) -> None:
        sock.setblocking(False)
        self.place: Final = place
        self.listening = False
        self.closed = False
        self.untaken: dict[int, trio.SocketStream] = {}
        self._sock = sock
        self._handed = 0
        self._counts = Counts(0, 0)
        self._pause_ends = -inf

    @property
    def accepted(self) -> int:
        """How many connections the worker has got."""
        return self._handed

    @property
    def open(self) -> int:
        """How many of them are open, as far as the worker has said."""
        return self._handed - self._counts.ended

    @property
    def has_room(self) -> bool:
        """Whether one more may be handed over."""
        free = len(self.untaken) < MOST_UNTAKEN and trio.current_time() >= self._pause_ends
        return self.listening and not self.closed and free

    def hand(self, stream: trio.SocketStream, *, excess: bool) -> bool:
        """Hand a connection over; return False if that is not possible now."""
        number = self._handed + 1
        message = encode(Handed(number, excess))
        try:
            socket.send_fds(self._sock, [message], [stream.socket.fileno()])
        except OSError as error:
            if error.errno not in _LATER:
                self.closed = True  # the worker is gone
            return False
        self._handed = number
        self.untaken[number] = stream
        return True

    def say(self, message: Message) -> bool:
        """Say something to the worker; return False if that is not possible now."""
        try:
            self._sock.send(encode(message))
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """Hand nothing over any more: the worker serves what it has, and ends."""
        self.closed = True
        with suppress(OSError):  # it is gone
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> list[trio.SocketStream]:
        """Close the socket of a worker that is gone; return the connections it has not taken."""
        self.closed = True
        self._sock.close()
        untaken, self.untaken = list(self.untaken.values()), {}
        self._counts = Counts(self._handed, self._handed)
        return untaken

    async def receive(self) -> Message | None:
        """Wait for what the worker says next; ``None`` when it is gone.

        Raises:
            Malformed: It is no message.

        Checkpoint: always.
        If cancelled: no message is lost.
        """
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            try:
                data = self._sock.recv(MAX_SIZE + 1)
            except BlockingIOError:
                continue
            except ConnectionError:
                return None
            return decode(data) if data else None

    def took(self, counts: Counts) -> None:
        """Note what the worker has taken and what has ended.

        Raises:
            Malformed: It cannot be so.
        """
        known = self._counts
        if not known.taken <= counts.taken <= self._handed or counts.ended < known.ended:
            raise Malformed(f"{counts}, of {self._handed} connections, after {known}")
        self.listening = True
        self._counts = counts
        for number in [each for each in self.untaken if each <= counts.taken]:
            self.untaken.pop(number).socket.close()

    def gave_back(self, message: Returned) -> trio.SocketStream | None:
        """Return a connection that the worker could not take; ``None`` if there is no such."""
        self._pause_ends = trio.current_time() + _PAUSE
        return self.untaken.pop(message.number, None)
