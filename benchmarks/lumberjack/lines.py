"""Varied log lines, made from a seed; events and windows of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rsocket_trio.lumberjack import encode_batch

WINDOW: Final = 2048
"""Events of a window, as Beats send."""

WINDOWS: Final = 16
"""Windows of different events. Then they are repeated: zlib looks back over 32 KiB only."""

_PATHS: Final = ("orders", "users", "cart/items", "search", "login", "images", "health", "reports")
_METHODS: Final = ("GET", "GET", "GET", "POST", "PUT", "DELETE")
_STATUS: Final = (200, 200, 200, 200, 201, 204, 301, 304, 400, 404, 500)
_USERS: Final = ("alice", "bob", "carol", "deploy", "jörg", "root", "www-data", "zoë")
_LOGGERS: Final = ("pool.Worker", "db.Session", "http.Client", "cache.Store", "jobs.Runner")
_ACTIONS: Final = ("started", "finished", "was retried", "timed out", "was skipped", "failed")


def _address(rng: random.Random) -> str:
    return ".".join(str(rng.randrange(1, 255)) for _ in range(4))


def _access(rng: random.Random) -> str:
    return (
        f"{_address(rng)} {rng.choice(_METHODS)} /api/{rng.choice(_PATHS)}/{rng.randrange(10**6)}"
        f" {rng.choice(_STATUS)} {rng.randrange(10**5)} {rng.random():.3f}"
    )


def _login(rng: random.Random) -> str:
    return (
        f"sshd[{rng.randrange(300, 32768)}]: Accepted publickey for {rng.choice(_USERS)}"
        f" from {_address(rng)}:{rng.randrange(1024, 65536)}"
    )


def _application(rng: random.Random) -> str:
    return (
        f'INFO {rng.choice(_LOGGERS)} job="{rng.getrandbits(48):012x}" {rng.choice(_ACTIONS)}'
        f" after {rng.randrange(1, 30000)} ms"
    )


_KINDS: Final[Sequence[Callable[[random.Random], str]]] = (_access, _access, _login, _application)


def make_events(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return events as Filebeat makes them, but short: about 170 bytes as JSON text."""
    rng = random.Random(seed)
    events = []
    offset = rng.randrange(10**8, 10**9)
    milliseconds = 0
    for _ in range(count):
        message = rng.choice(_KINDS)(rng)
        milliseconds += rng.randrange(20)
        seconds, thousandths = divmod(milliseconds, 1000)
        minutes, seconds = divmod(seconds, 60)
        time = f"2026-01-02T{minutes // 60 % 24:02}:{minutes % 60:02}:{seconds:02}"
        events.append(
            {
                "@timestamp": f"{time}.{thousandths:03}Z",
                "message": message,
                "host": {"name": f"web-{rng.randrange(32):02}.intra"},
                "log": {"offset": offset},
            }
        )
        offset += len(message) + 1
    return events


def write_log(path: Path, lines: int) -> None:
    """Write a file with the messages of events, repeated after 20 000 lines."""
    messages = [event["message"].encode() + b"\n" for event in make_events(min(lines, 20_000))]
    whole, rest = divmod(lines, len(messages))
    with open(path, "wb") as file:
        file.writelines(b"".join(messages) for _ in range(whole))
        file.writelines(messages[:rest])


def as_json(event: dict[str, Any]) -> bytes:
    """Return the JSON text of an event."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def event_windows(count: int = WINDOWS) -> list[list[dict[str, Any]]]:
    """Return the events of some windows."""
    events = make_events(count * WINDOW)
    return [events[start : start + WINDOW] for start in range(0, len(events), WINDOW)]


def text_windows(count: int = WINDOWS) -> list[list[bytes]]:
    """Return the same events as JSON texts."""
    return [[as_json(event) for event in events] for events in event_windows(count)]


def prepared_windows(level: int, count: int = WINDOWS, *, size: int = WINDOW) -> list[bytes]:
    """Return windows of version 2 as bytes, ready to be sent.

    Args:
        level: The level of compression; 0 is none.
        count: How many windows of 2048 events to take.
        size: The events of each of the windows into which these are divided.
    """
    return [
        encode_batch(texts[start : start + size], compression_level=level)
        for texts in text_windows(count)
        for start in range(0, WINDOW, size)
    ]
