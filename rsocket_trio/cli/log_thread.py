"""Write the log in a thread, so that a reader of standard error that stalls stops no server."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Final, TextIO

__all__ = ["ThreadedHandler"]

_MAX_WAITING: Final = 1000
"""Messages that wait to be written. Further ones are dropped and counted."""
_MAX_SIZE: Final = 2**20
"""Characters of the messages that wait. One message that is longer waits alone."""
_RETRY: Final = 0.01
"""Seconds between two attempts, if another program has made the file non-blocking."""
_PATIENCE: Final = 1.0
"""Seconds that `ThreadedHandler.flush` waits for the reader."""


class ThreadedHandler(logging.Handler):
    """Formats a message at once, and writes it in a thread.

    Args:
        stream: Where to write. If it has a file descriptor, the thread writes to that: if it held
            the lock of the stream while it waits, the process could not end.

    Attributes:
        dropped: The messages that found no room, or could not be written, and that no line has told
            of yet.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.dropped = 0
        self._stream: Final = stream
        self._fd: Final = _descriptor(stream)
        self._waiting: Final[deque[tuple[str, int]]] = deque()  # and how many are lost with it
        self._size = 0
        self._changed: Final = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a message; never wait for its reader."""
        try:
            text = self.format(record)
        except Exception:  # as every handler of `logging` does
            self.handleError(record)
            return
        with self._changed:
            full = len(self._waiting) >= _MAX_WAITING or self._size + len(text) > _MAX_SIZE
            if full and self._waiting:
                self.dropped += 1
                return
            lost, self.dropped = self.dropped, 0
            if lost:
                why = "the reader was slow, or a write failed"
                text = f"({lost} messages were dropped: {why})\n{text}"
            self._waiting.append((text, lost + 1))
            self._size += len(text)
            self._changed.notify_all()
            if self._thread is None:
                # A daemon, because it may wait for a reader that never reads.
                self._thread = threading.Thread(target=self._write, name="log", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Wait until all messages are written, for a second at most."""
        end = time.monotonic() + _PATIENCE
        with self._changed:
            while self._waiting and self._changed.wait(end - time.monotonic()):
                pass

    def close(self) -> None:
        """Write what waits."""
        self.flush()
        super().close()

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                text, lost = self._waiting[0]
            # Not with the lock: this may wait for the reader.
            # There is no place left to report an error; without a stream it is an AttributeError.
            written = False
            with suppress(OSError, ValueError, AttributeError):
                self._write_out(f"{text}\n")
                written = True
            with self._changed:
                self.dropped += 0 if written else lost  # a later line says so
                self._size -= len(self._waiting.popleft()[0])
                self._changed.notify_all()

    def _write_out(self, text: str) -> None:
        if self._fd is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = memoryview(text.encode("utf-8", "backslashreplace"))
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                time.sleep(_RETRY)  # in this thread, nothing else waits for it


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError):  # tests replace it, and some programs have none
        return None
