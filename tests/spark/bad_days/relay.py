"""A relay in front of a program, which can hold its answers back, or be silent: `Relay`."""

from __future__ import annotations

import socket
import threading
from typing import Any, Self
from urllib.parse import urlsplit

ACK = 6
"""Bytes of an acknowledgement of Lumberjack."""


class Relay:
    """Forwards connections, and answers of the other side only as far as the test allows it.

    Args:
        target: The address of the other side, such as ``lumberjack://127.0.0.1:5044``.
        answers: The bytes of answers that pass; None: all.

    Attributes:
        uri: The address for clients.
        connections: How many it has accepted.
    """

    def __init__(self, target: str, answers: int | None = None) -> None:
        there = urlsplit(target)
        self._target = (there.hostname, there.port)
        self.connections = 0
        self._held = 0
        self._silent = False
        self._allowed = answers
        self._allowed_on_new: int | None = None
        self._left: dict[socket.socket, int] = {}  # of a connection, by its other side
        self._news = threading.Condition()
        self._open = True
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.uri = f"{there.scheme}://127.0.0.1:{self._server.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with self._news:
            self._open = False
            self._news.notify_all()
        # An accept that waits does not notice that its socket is closed.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a thread of the relay does not end"

    def hold(self) -> None:
        """Let no more answers pass."""
        with self._news:
            self._allowed = 0

    def holds(self) -> bool:
        """Whether there is an answer that it holds back."""
        with self._news:
            return self._held > 0

    def limit_new(self, answers: int) -> None:
        """Let so many bytes of answers pass on each connection that comes from now on."""
        with self._news:
            self._allowed_on_new = answers

    def used_up(self) -> bool:
        """Whether a connection has had all bytes that `limit_new` gives it."""
        with self._news:
            return 0 in self._left.values()

    def silence(self) -> None:
        """Let nothing pass in either direction, as a network that is gone.

        New connections are accepted: a host whose network is back finds them.
        """
        with self._news:
            self._silent = True

    def end_silence(self) -> None:
        """Let everything pass as before `silence`."""
        with self._news:
            self._silent = False
            self._news.notify_all()

    def allow_all(self) -> None:
        """Let everything pass from now on, and what is held."""
        with self._news:
            self._silent = False
            self._allowed = self._allowed_on_new = None
            self._left.clear()
            self._news.notify_all()

    @property
    def address(self) -> str:
        """Its address for readers, as the option ``collectors`` takes it."""
        return self.uri

    def cut(self) -> None:
        """Close all connections."""
        with self._news:
            sockets, self._sockets = self._sockets, []
            self._news.notify_all()
        for each in sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # It is closed already.

    def _start(self, function: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            with self._news:
                self._sockets += [client, server]
                self.connections += 1
                if self._allowed_on_new is not None:
                    self._left[server] = self._allowed_on_new
            ends = threading.Barrier(2)
            self._start(self._forward, client, server, False, ends)
            self._start(self._forward, server, client, True, ends)

    def _forward(
        self, source: socket.socket, sink: socket.socket, answers: bool, ends: threading.Barrier
    ) -> None:
        try:
            while data := source.recv(65536):
                while data:
                    count = self._allowance(len(data), source, answers)
                    sink.sendall(data[:count])
                    data = data[count:]
        except OSError:
            pass  # One of the two has gone; so the other connection ends too.
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # The other thread was faster.
        # Neither thread closes a socket while the other one can still use its number.
        ends.wait()
        source.close()

    def _allowance(self, wanted: int, source: socket.socket, answers: bool) -> int:
        """Wait until bytes may pass, and return how many."""
        with self._news:
            while True:
                if not (self._open and source in self._sockets):
                    raise OSError("cut")
                left = [self._allowed, self._left.get(source)] if answers else []
                count = min([wanted, *(each for each in left if each is not None)])
                if count and not self._silent:
                    break
                self._held += answers
                self._news.wait()
                self._held -= answers
            if answers and self._allowed is not None:
                self._allowed -= count
            if answers and source in self._left:
                self._left[source] -= count
            return count
