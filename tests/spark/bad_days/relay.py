"""A relay between an agent and a collector, which can hold acknowledgements back: `Relay`."""

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
    """

    def __init__(self, target: str, answers: int | None = None) -> None:
        there = urlsplit(target)
        self._target = (there.hostname, there.port)
        self._allowed = answers
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

    def allow_all(self) -> None:
        """Let all answers pass from now on."""
        with self._news:
            self._allowed = None
            self._news.notify_all()

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
            ends = threading.Barrier(2)
            self._start(self._forward, client, server, False, ends)
            self._start(self._forward, server, client, True, ends)

    def _forward(
        self, source: socket.socket, sink: socket.socket, answers: bool, ends: threading.Barrier
    ) -> None:
        try:
            while data := source.recv(65536):
                while data:
                    count = self._allowance(len(data), source) if answers else len(data)
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

    def _allowance(self, wanted: int, source: socket.socket) -> int:
        """Wait until bytes may pass, and return how many."""
        with self._news:
            while self._open and source in self._sockets and self._allowed == 0:
                self._news.wait()
            if not (self._open and source in self._sockets):
                raise OSError("cut")
            if self._allowed is None:
                return wanted
            count = min(wanted, self._allowed)
            self._allowed -= count
            return count
