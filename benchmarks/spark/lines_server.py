"""Serves lines to Spark's ``socket`` source, which is the client: a number of them, or paced."""

from __future__ import annotations

import socket
import time
from typing import Any, Final

from benchmarks.control import read_command, ready, write_outcome
from benchmarks.lumberjack.lines import WINDOW
from benchmarks.spark.agent import pace
from benchmarks.spark.events import make_texts

_PATIENCE: Final = 60.0


class Feeder:
    """Sends lines to the client that has connected last."""

    def __init__(self) -> None:
        self._listener: Final = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_PATIENCE)
        self._client: socket.socket | None = None
        texts = make_texts()
        self._windows: Final = [
            b"".join(text + b"\n" for text in texts[start : start + WINDOW])
            for start in range(0, len(texts), WINDOW)
        ]

    @property
    def uri(self) -> str:
        """The address for the client."""
        host, port = self._listener.getsockname()
        return f"tcp://{host}:{port}"

    def obey(self, command: dict[str, Any]) -> int:
        """Obey one command; return how many events were sent."""
        if command["operation"] == "accept":  # A new query has connected.
            if self._client is not None:
                self._client.close()
            self._client, _ = self._listener.accept()
            return 0
        client = self._client
        assert client is not None
        if command["operation"] == "pace":

            def send(events: list[bytes]) -> None:
                client.sendall(b"".join(event + b"\n" for event in events))

            return pace(command["rate"], command["seconds"], send)
        count = max(1, command["events"] // WINDOW)
        for number in range(count):
            client.sendall(self._windows[number % len(self._windows)])
        return count * WINDOW


def main() -> None:
    """Obey commands until there are no more."""
    feeder = Feeder()
    ready(feeder.uri)
    while (command := read_command()) is not None:
        begun = time.perf_counter()
        try:
            count = feeder.obey(command)
        except OSError as error:
            write_outcome({"error": f"{type(error).__name__}: {error}"})
        else:
            write_outcome({"count": count, "elapsed": time.perf_counter() - begun})


if __name__ == "__main__":
    main()
