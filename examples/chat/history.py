"""What was said, in a database of SQLite."""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing

import trio
from api import Message

TABLES = """
    CREATE TABLE IF NOT EXISTS messages (
        number INTEGER PRIMARY KEY, room TEXT, author TEXT, text TEXT
    );
    CREATE INDEX IF NOT EXISTS by_room ON messages (room, number);
"""


class History:
    """The messages of all rooms. SQLite blocks, so it runs in a thread, one call at a time."""

    def __init__(self, database: sqlite3.Connection) -> None:
        database.executescript(TABLES)
        self._database = database
        self._one = trio.CapacityLimiter(1)

    async def add(self, room: str, author: str, text: str) -> int:
        """Keep a message, and return its number."""

        def insert() -> int:
            with self._database:
                into = "INSERT INTO messages (room, author, text) VALUES (?, ?, ?)"
                return self._database.execute(into, (room, author, text)).lastrowid or 0

        return await trio.to_thread.run_sync(insert, limiter=self._one)

    async def after(self, room: str, number: int) -> list[Message]:
        """Return the next messages of a room behind a number, at most 100."""

        def select() -> list[Message]:
            wanted = "room = ? AND number > ? ORDER BY number LIMIT 100"
            found = f"SELECT number, author, text FROM messages WHERE {wanted}"
            return [Message(*row) for row in self._database.execute(found, (room, number))]

        return await trio.to_thread.run_sync(select, limiter=self._one)


async def open_history() -> AsyncIterator[History]:
    """Open the database for as long as the chat is served."""
    path = os.environ.get("CHAT_DATABASE", "chat.db")
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        yield History(database)
