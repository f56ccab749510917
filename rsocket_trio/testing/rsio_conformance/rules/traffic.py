"""Streams of all kinds on one connection, for rules that hold for each message."""

from __future__ import annotations

from .. import octets
from ..ledger import Incoming
from ..probe import Probe
from ..trial import Trial
from ..verdicts import check

__all__ = ["big_element", "integers", "mixed_traffic", "numbers"]


def numbers(count: int) -> list[bytes]:
    """Return the elements of ``count?n=COUNT``."""
    return [b"%d" % number for number in range(count)]


def integers(count: int, size: int = 4) -> list[bytes]:
    """Return the elements of ``ints?n=COUNT&size=SIZE``."""
    return [number.to_bytes(size, "big") for number in range(1, count + 1)]


def big_element(index: int, size: int) -> bytes:
    """Return an element of ``big?bytes=SIZE``."""
    return bytes((index + at) & 0xFF for at in range(256)) * (size // 256 + 1)


async def mixed_traffic(trial: Trial, probe: Probe) -> None:
    """Run streams of all kinds at the same time, to their ends, and check their elements."""
    size = 40_000
    expected = {
        "count?n=300": numbers(300),
        "ints?n=300&size=4": integers(300),
        "ints?n=40&size=1": integers(40, 1),
        f"big?n=3&bytes={size}": [big_element(index, size)[:size] for index in range(3)],
        "fail?after=4": numbers(4),
        "empty": [],
    }
    back, there = await trial.reflect(probe, "mixed", 2, 8)
    streams: list[Incoming] = [back]
    for index, name in enumerate(expected):
        streams.append(await probe.subscribe(name, 200 * index + 3, 2))
    for index in range(len(expected)):
        await probe.request(200 * index + 3, 1000)
    nope = await probe.subscribe("no-such-publisher", 99, 1)
    never = await probe.subscribe("never", 98, 1)
    await probe.cancel(98)
    await probe.send(
        octets.next_sized(there.id, b"one"),
        octets.part(there.id, 5, b"t"),
        octets.last_part(there.id, 5, b"wo"),
        octets.complete(there.id),
    )
    await probe.ended(*streams, nope, never)
    check(nope.ended == "onError", "an unknown publisher did not fail")
    check(back.elements == [b"one", b"two"], f"what came back is {back.elements}")
    for stream, (name, elements) in zip(streams[1:], expected.items(), strict=True):
        same = stream.elements == elements
        check(same, f"{name!r} has other elements: {len(stream.elements)} of {len(elements)}")
