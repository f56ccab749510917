"""A responder that serves the lines of files by offset, until it is killed.

Usage: ``python replay_program.py URI GATE FILE ...``. Each file is a partition of the route
``lines``. While the file GATE is there, each range stops in its middle; `gate.Gate` has the other
side of this. The first line of output ends with the address.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import trio

from rsocket_trio import Payload, serve
from rsocket_trio.spark import ReplayLines, replay_router


class HeldLines(ReplayLines):
    """Lines of files; ranges stop in their middle while a file is there."""

    def __init__(self, gate: str, *files: str) -> None:
        super().__init__(*files)
        self._gate = Path(gate)

    async def elements(
        self, partition: int, start: int, stop: int
    ) -> AsyncIterator[bytes | Payload]:
        """See `ReplayLines.elements`."""
        middle = (start + stop) // 2
        for begin, end in ((start, middle), (middle, stop)):
            async with aclosing(super().elements(partition, begin, end)) as lines:
                async for line in lines:
                    yield line
            if end == middle:
                await self._pass()

    async def _pass(self) -> None:
        if self._gate.exists():
            with Path(f"{self._gate}.waiting").open("a") as file:
                file.write(f"{os.getpid()}\n")
        while self._gate.exists():
            await trio.sleep(0.01)


async def main() -> None:
    """Serve."""
    uri, gate, *files = sys.argv[1:]
    async with trio.open_nursery() as nursery:
        router = replay_router("lines", HeldLines(gate, *files))
        server = await nursery.start(serve, router, uri)
        print("listening on", server.uris[0], flush=True)


if __name__ == "__main__":
    trio.run(main)
