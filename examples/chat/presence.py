"""Who is in which room, and how a room learns that there is something new."""

from collections import defaultdict

import attrs
import trio

AT_MOST = 20
"""Rooms that one connection may be in."""


class NotHereError(Exception):
    """Somebody is not in the room."""


class TooManyRoomsError(Exception):
    """Somebody is in `AT_MOST` rooms already."""


@attrs.define(eq=False)
class Visitor:
    """One connection: a user may have several."""

    name: str
    rooms: set[str] = attrs.field(factory=set[str])

    def check_is_in(self, room: str) -> None:
        """Raise `NotHereError` if this connection has not joined the room."""
        if room not in self.rooms:
            raise NotHereError


class Presence:
    """The visitors of each room."""

    def __init__(self) -> None:
        self._visitors: defaultdict[str, set[Visitor]] = defaultdict(set)
        self._news: dict[str, trio.Event] = {}

    def enter(self, visitor: Visitor, room: str) -> list[str]:
        """Let a visitor in, and return the names of all that are there."""
        if room not in visitor.rooms and len(visitor.rooms) == AT_MOST:
            raise TooManyRoomsError
        visitor.rooms.add(room)
        self._visitors[room].add(visitor)
        return sorted({one.name for one in self._visitors[room]})

    def leave(self, visitor: Visitor) -> None:
        """Take a visitor out of all rooms. A room without visitors is forgotten."""
        for room in visitor.rooms:
            self._visitors[room].discard(visitor)
            if not self._visitors[room]:
                del self._visitors[room]
                self._news.pop(room, None)

    def news(self, room: str) -> trio.Event:
        """Return what is set when the room has a new message."""
        return self._news.setdefault(room, trio.Event())

    def announce(self, room: str) -> None:
        """Wake all who wait for news of a room."""
        self._news.pop(room, trio.Event()).set()
