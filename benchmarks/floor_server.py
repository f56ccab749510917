"""The floor: trio's sockets alone, with length-prefixed messages, no protocol and no tasks.

The first byte of a message selects the answer: ``e`` an echo; ``s`` a number of items, given in
the next four bytes; ``f`` no answer, the server counts the message; ``c`` the count.
"""

from __future__ import annotations

import struct
import sys

import trio

from benchmarks.control import ITEM_SIZE, ready

ITEM = struct.pack(">I", ITEM_SIZE) + b"x" * ITEM_SIZE


async def handle(stream: trio.SocketStream) -> None:
    unpack = struct.Struct(">I").unpack_from
    buffer = b""
    seen = 0
    while data := await stream.receive_some(262144):
        buffer = buffer + data if buffer else data
        position, end, out = 0, len(buffer), []
        while end - position >= 4:
            stop = position + 4 + unpack(buffer, position)[0]
            if stop > end:
                break
            kind = buffer[position + 4]
            if kind == 101:  # e
                out.append(buffer[position:stop])
            elif kind == 102:  # f
                seen += 1
            elif kind == 115:  # s
                out.append(ITEM * unpack(buffer, position + 5)[0])
            else:
                out.append(struct.pack(">II", 4, seen))
            position = stop
        buffer = buffer[position:]
        if out:
            await stream.send_all(b"".join(out))


async def main() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, handle, 0)
        ready(f"tcp://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
