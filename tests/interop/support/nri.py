"""The runtime's side of NRI, as containerd has it: the program ``../go/nri``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from .installed import NRIS
from .processes import Peer, running


class Runtime:
    """A runtime that drives plugins.

    Attributes:
        socket: Where it listens.
        log: What it has logged so far.
    """

    def __init__(self, peer: Peer, socket: Path) -> None:
        self.socket = socket
        self.log: list[str] = []
        self._peer = peer
        self._unread: list[dict[str, Any]] = []

    async def said(self, key: str) -> dict[str, Any]:
        """Return the first line with this key that was not returned before."""
        for position, line in enumerate(self._unread):
            if key in line:
                return self._unread.pop(position)
        while key not in (line := await self._line()):
            self._unread.append(line)
        return line

    async def _line(self) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(await self._peer.line())
        if "log" in line:
            self.log.append(line["log"])
        return line

    async def logged(self, part: str) -> None:
        """Wait until it has logged a line with this text."""
        while not any(part in line for line in self.log):
            self._unread.append(await self._line())

    async def do(self, command: str, **fields: object) -> dict[str, Any]:
        """Let it relay an event or a request to the plugins; return what came of it."""
        await self._peer.tell(json.dumps({"do": command, **fields}))
        answer = await self.said("done")
        assert answer["done"] == command
        return answer

    async def run_container(self, name: str, annotations: Mapping[str, str]) -> dict[str, Any]:
        """Create and start a container in a pod of its own; return what came of its creation."""
        fields = {"pod": f"pod-of-{name}", "container": name, "annotations": annotations}
        await self.do("run_pod", **fields)
        created = await self.do("create", shares=512, **fields)
        for event in ("post_create", "start", "post_start"):
            await self.do(event, **fields)
        return created

    async def kill(self) -> None:
        """Kill it, as a crash would."""
        await self._peer.kill()


@asynccontextmanager
async def runtime(socket: Path, version: str, **flags: object) -> AsyncIterator[Runtime]:
    """Run the runtime of that version for the length of the block."""
    options = [f"-{name}={value}" for name, value in flags.items()]
    async with running([str(NRIS[version]), f"-socket={socket}", *options]) as peer:
        while (await peer.line()) != f"listening on unix://{socket}":
            pass
        yield Runtime(peer, socket)
