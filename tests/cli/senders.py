"""Lumberjack senders for tests of the command line, and what runs the receiver."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
from typing import Self

from rsocket_trio.lumberjack import AckReader, encode_batch

PATIENCE = 20
"""Seconds for what takes a moment."""


class Sender:
    """Sends batches over a socket, and reads their ACKs."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None, version: int = 2) -> None:
        self.socket: socket.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self._version = version
        self._acks = AckReader(version)

    def send(self, *events: bytes, level: int = 3) -> None:
        data = encode_batch(events, version=self._version, compression_level=level)
        self.socket.sendall(data)

    def acks(self, upto: int) -> list[int]:
        """The sequence numbers that arrive, until this one or the end of the connection."""
        found: list[int] = []
        while upto not in found:
            data = self.socket.recv(4096)
            if not data:
                break
            found += self._acks.feed(data)
        return found

    def no_ack_for(self, seconds: float) -> None:
        """Check that no byte arrives for some time."""
        self.socket.settimeout(seconds)
        try:
            data = self.socket.recv(4096)
        except TimeoutError:
            self.socket.settimeout(PATIENCE)
        else:
            raise AssertionError(f"unexpected: {data!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Receiving:
    """A process of ``lumberjack serve`` that listens."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stderr is not None
        self.output, self.errors = process.stdout, process.stderr
        # Where events are printed, standard output has nothing but them.
        announced = self.output if "--spool" in process.args else self.errors
        line = announced.readline().decode()
        if line.startswith("{"):
            line = f"listening on {json.loads(line)['listening']}\n"
        found = re.fullmatch(r"listening on (lumberjacks?://127\.0\.0\.1:([1-9]\d*))\n", line)
        assert found, (line, process.poll() is not None and self.errors.read())
        self.uri, self.port = found[1], int(found[2])

    def sender(self, context: ssl.SSLContext | None = None, version: int = 2) -> Sender:
        return Sender(self.port, context, version)

    def events(self, count: int) -> list[object]:
        """The next events that are printed."""
        return [json.loads(self.output.readline()) for _ in range(count)]

    def stop(self, number: int) -> tuple[bytes, str]:
        """Send a signal, and return the rest of the output, and the messages."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> tuple[bytes, str]:
        """Wait for the end, and return the rest of the output, and the messages."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        return output, errors.decode()

    def until_logged(self, text: str) -> str:
        """Read the messages up to the one with this text."""
        while text not in (line := self.errors.readline().decode()):
            assert line, f"the process has ended without the message {text!r}"
        return line
