"""The addresses of servers of both protocols, and the items of their streams."""

from __future__ import annotations

WIRES = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/path"]


async def collect(opened):
    async with opened as stream:
        return [item async for item in stream]
