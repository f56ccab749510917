"""The log of the command line does not wait for its reader."""

from __future__ import annotations

import io
import logging
import os
import signal
import threading

import pytest

from rsocket_trio.cli import log_thread
from rsocket_trio.cli.log_thread import ThreadedHandler
from tests.cli.senders import PATIENCE, Receiving


class Stalled(io.StringIO):
    """A stream whose reader does not read until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = threading.Event()

    def write(self, text: str) -> int:
        assert self.reads.wait(10)
        return super().write(text)


def record(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text})


def test_messages_wait_then_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next message that finds room says how many there were."""
    monkeypatch.setattr(log_thread, "_MAX_WAITING", 3)
    monkeypatch.setattr(log_thread, "_PATIENCE", 0.05)
    stream = Stalled()
    handler = ThreadedHandler(stream)
    for number in range(5):
        handler.emit(record(f"message {number}"))
    handler.flush()
    assert (stream.getvalue(), handler.dropped) == ("", 2)
    stream.reads.set()
    handler.flush()
    handler.emit(record("later"))
    handler.close()
    assert stream.getvalue().splitlines() == [
        "message 0",
        "message 1",
        "message 2",
        "(2 messages were dropped: the reader was slow, or a write failed)",
        "later",
    ]


def test_messages_that_cannot_be_written_are_counted() -> None:
    """A disk that was full for a while leaves a gap, and the first line behind it says so."""

    class Full(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            return super().write(text)

    stream = Full()
    handler = ThreadedHandler(stream)
    for text in ("one", "two", "three"):
        handler.emit(record(text))
        handler.flush()
    stream.full = False
    handler.emit(record("four"))
    handler.close()
    assert stream.getvalue().splitlines() == [
        "(3 messages were dropped: the reader was slow, or a write failed)",
        "four",
    ]


def test_the_characters_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is longer than the limit waits alone."""
    monkeypatch.setattr(log_thread, "_MAX_SIZE", 10)
    stream = Stalled()
    handler = ThreadedHandler(stream)
    handler.emit(record("x" * 11))
    handler.emit(record("y"))
    assert handler.dropped == 1
    stream.reads.set()
    handler.flush()
    for text in ("z" * 10, "z"):
        handler.emit(record(text))
        handler.flush()
    handler.close()
    assert handler.dropped == 0
    assert stream.getvalue().splitlines() == [
        "x" * 11,
        "(1 messages were dropped: the reader was slow, or a write failed)",
        "z" * 10,
        "z",
    ]


def test_a_file_that_another_program_has_made_non_blocking() -> None:
    """No message is lost while the pipe is full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "w") as stream:
        handler = ThreadedHandler(stream)
        for number in range(3):
            handler.emit(record(str(number) * 100_000))
        lines = [pipe.readline() for _ in range(3)]
        handler.close()
    assert [len(line) for line in lines] == [100_001] * 3


def test_a_message_that_cannot_be_formatted(capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported as by every handler."""
    handler = ThreadedHandler(io.StringIO())
    handler.emit(logging.makeLogRecord({"msg": "%d", "args": ("text",)}))
    handler.close()
    assert "TypeError" in capsys.readouterr().err


def test_a_signal_ends_a_server_whose_messages_no_program_reads(start_cli) -> None:
    """The pipe of standard error is full when the signal comes."""
    listen = ("--listen", "lumberjack://127.0.0.1:0", "--grace", "0.2")
    receiving = Receiving(start_cli("lumberjack", "serve", *listen))
    with receiving.sender() as sender:
        sender.send(b"x" * 300_000)  # It is no JSON, so it is printed on standard error.
        sender.no_ack_for(0.5)
        receiving.process.send_signal(signal.SIGTERM)
        assert receiving.process.wait(PATIENCE) == 0
