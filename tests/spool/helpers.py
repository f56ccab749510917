"""What tests of the spool share."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager

from rsocket_trio.spool import Batch, read_range
from tests.waiting import until

ENCODING = "lines"


def lines(count, text="event"):
    """A batch with a line for each event."""
    return Batch(count, b"".join(b"%s %d\n" % (text.encode(), i) for i in range(count)),
                 encoding=ENCODING)  # fmt: skip


def sized(size, count=1, byte=b"x"):
    """A batch that costs exactly so many bytes."""
    empty = 64 + len(ENCODING) + len("{}")
    return Batch(count, byte * (size - empty), encoding=ENCODING)


def events(batch):
    """The lines of a stored batch that were asked for."""
    return batch.data.splitlines()[batch.skip : batch.skip + batch.wanted]


async def collect(reader):
    return [batch async for batch in reader]


def offline(directory, start, stop, **options):
    return list(read_range(directory, start, stop, **options))


def writer_of(spool):
    return spool._flusher._writer


def transactions(spool):
    return writer_of(spool).transactions


def spans(batches):
    return [(batch.start, batch.stop) for batch in batches]


def fault(code):
    """An error of SQLite with a code."""
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "INJECTED"
    return error


class FaultyConnection:
    """A connection whose statements fail as a test says."""

    def __init__(self, inner):
        self.inner = inner
        self.fail = lambda statement: None
        self.seen = []

    def execute(self, statement, *args):
        self.seen.append(statement)
        error = self.fail(statement)
        if error is not None:
            raise error
        return self.inner.execute(statement, *args)

    @property
    def in_transaction(self):
        return self.inner.in_transaction

    def close(self):
        self.inner.close()


@contextmanager
def faulty(spool):
    """Put a `FaultyConnection` below a spool."""
    writer = writer_of(spool)
    connection = FaultyConnection(writer._connection)
    writer._connection = connection
    yield connection
    writer._connection = connection.inner


class HeldCommits:
    """The commits below a spool wait in their thread, from the first one until `release`."""

    def __init__(self, connection):
        self._connection = connection
        self._begun = threading.Event()
        self._go = threading.Event()
        connection.fail = self._hold

    def _hold(self, statement):
        if statement == "COMMIT":
            self._begun.set()
            self._go.wait(10)

    async def begun(self):
        """Wait until there is one."""
        await until(self._begun.is_set)

    def release(self):
        """Let it go on, and hold no more."""
        self._connection.fail = lambda statement: None
        self._go.set()
