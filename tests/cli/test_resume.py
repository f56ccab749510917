"""``--resume``: a command goes on over another connection."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

StartCli = Callable[..., "subprocess.Popen[bytes]"]
Cli = Callable[..., "subprocess.CompletedProcess[bytes]"]


class CuttingProxy:
    """Passes connections on, and cuts the first one after a number of bytes from the server."""

    def __init__(self, server_port: int, cut_after: int) -> None:
        self.connections = 0
        self._server_port = server_port
        self._cut_after = cut_after
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # The proxy is closed.
            server = socket.create_connection(("127.0.0.1", self._server_port))
            limit = self._cut_after if not self.connections else None
            self.connections += 1
            for arguments in ((client, server, None), (server, client, limit)):
                self._threads.append(threading.Thread(target=self._pass_on, args=arguments))
                self._threads[-1].start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        passed = 0
        with ExitStack() as closing:
            closing.callback(source.close)
            try:
                while data := source.recv(500):
                    sink.sendall(data)
                    passed += len(data)
                    if limit is not None and passed >= limit:
                        break
            except OSError:
                pass  # The other direction has closed it.
            for each in (source, sink):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)


@pytest.fixture
def proxied(start_cli: StartCli) -> Iterator[Callable[..., CuttingProxy]]:
    """A known-answer server behind a cutting proxy: ``proxied(cut_after, *options)``."""
    with ExitStack() as closing:

        def make(cut_after: int, *options: str) -> CuttingProxy:
            process = start_cli(
                "serve",
                "rsocket_trio.testing.peer:app",
                "--listen",
                "tcp://127.0.0.1:0",
                *options,
            )
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(b":")[2])
            proxy = CuttingProxy(port, cut_after)
            closing.callback(proxy.close)
            return proxy

        yield make


def test_a_stream_goes_on(proxied: Callable[..., CuttingProxy], cli: Cli) -> None:
    """With --resume on both ends a cut connection loses no item; without it, it is the end."""
    proxy = proxied(3000, "--resume", "30")
    done = cli("stream", "--raw", proxy.uri, "2000", "--resume", "30", "--prefetch", "16")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [b"%d" % number for number in range(2000)]
    assert proxy.connections == 2


def test_without_resume_the_session_is_lost(proxied: Callable[..., CuttingProxy], cli: Cli) -> None:
    """A session that cannot be resumed ends with its connection: status 3."""
    proxy = proxied(3000, "--resume", "30")
    assert cli("stream", "--raw", proxy.uri, "2000", "--prefetch", "16").returncode == 3
    assert proxy.connections == 1


def test_a_server_without_sessions(proxied: Callable[..., CuttingProxy], cli: Cli) -> None:
    """A client that asks for resumption is refused: status 3, and the reason."""
    done = cli("stream", "--raw", proxied(3000).uri, "1", "--resume", "30")
    assert done.returncode == 3
    assert b"REJECTED_SETUP" in done.stderr
