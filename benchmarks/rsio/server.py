"""The rsio server: endless publishers of prepared elements."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import cycle, repeat
from typing import Final

import trio

from benchmarks.control import ITEM_SIZE, ready
from rsocket_trio import rsio
from rsocket_trio.reactive_streams import Subscriber, from_iterable

_SIZE: Final = 8
_ELEMENTS: Final = [number.to_bytes(_SIZE, "little") for number in range(8192)]
_BLOCK: Final = b"".join(_ELEMENTS)


def blocks() -> Iterator[bytes]:
    """64 KiB each."""
    return repeat(_BLOCK)


def elements() -> Iterator[bytes]:
    return cycle(_ELEMENTS)


class Single:
    """Elements of one size, each in a signal of its own: a publisher that has no blocks."""

    element_size = _SIZE

    def subscribe(self, subscriber: Subscriber[bytes], /) -> None:
        from_iterable(elements).subscribe(subscriber)


PUBLISHED: Final = {
    "blocks": rsio.fixed_size(blocks, _SIZE, packed=True),
    "joined": rsio.fixed_size(elements, _SIZE),
    "single": Single(),
    "variable": from_iterable(elements),
    "long": from_iterable(lambda: repeat(b"x" * ITEM_SIZE)),
}


async def main() -> None:
    """Serve until the standard input ends."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsio.serve, PUBLISHED, "rsio://127.0.0.1:0")
        ready(server.uris[0])
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
