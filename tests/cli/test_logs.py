"""The log of the command line: text or JSON, with or without tracebacks, over a progress line."""

import argparse
import io
import json
import logging
import sys

import pytest

from rsocket_trio.cli.logs import flush_log, log_to_stderr
from rsocket_trio.cli.progress import Progress

LOGGER = logging.getLogger("tests.cli.test_logs")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def logged(
    monkeypatch: pytest.MonkeyPatch, *, verbose: bool = False, to: io.StringIO, **options: bool
) -> str:
    """What is printed about an exception that is expected."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # as in a new process
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(sys, "stderr", to)
    args = argparse.Namespace(verbose=verbose, quiet=False)
    log_to_stderr(args, expected=(KeyError,), **options)
    try:
        raise KeyError("a\x1b")
    except KeyError:
        LOGGER.exception("it failed with %d", 7)
    flush_log()
    return to.getvalue()


def test_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that is expected is in the line, and has no traceback."""
    text = logged(monkeypatch, to=io.StringIO())
    assert text.endswith("ERROR tests.cli.test_logs: it failed with 7: 'a\\x1b'\n")
    assert text.count("\n") == 1


def test_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --verbose there are tracebacks; in JSON they are a field."""
    assert "Traceback" in logged(monkeypatch, to=io.StringIO(), verbose=True)
    fields = json.loads(logged(monkeypatch, to=io.StringIO(), verbose=True, as_json=True))
    assert "Traceback" in fields["traceback"]
    assert (fields["level"], fields["logger"]) == ("error", "tests.cli.test_logs")
    assert fields["message"] == "it failed with 7"
    assert fields["time"].endswith("Z")


def test_other_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have tracebacks."""
    logged(monkeypatch, to=(to := io.StringIO()))
    try:
        raise ValueError
    except ValueError:
        LOGGER.exception("more")
    flush_log()
    assert "Traceback" in to.getvalue()


def test_over_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a message replaces the progress line; elsewhere there is none."""
    for to, before in ((Terminal(), "half\r\x1b[K"), (io.StringIO(), "")):
        progress = Progress(to)
        progress.show("half")
        assert (
            logged(monkeypatch, to=to, over_progress=True)
            .removeprefix("\r\x1b[K")
            .startswith(f"{before}20")
        )
        progress.clear()
    assert not Progress(Terminal(), quiet=True).shown
    assert not Progress(None).shown
