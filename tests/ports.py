"""A port for a program that listens later, or again and again: `held_port`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Keep a port of 127.0.0.1, on which only listeners with SO_REUSEADDR may listen meanwhile.

    A port that is only chosen is anybody's: the system gives it to another connection for its own
    end, or to another test. The option comes behind the choice: with it several get one port.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield bound.getsockname()[1]
