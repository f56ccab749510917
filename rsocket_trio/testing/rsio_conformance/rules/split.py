"""RSIO-47 to RSIO-53: elements in parts."""

from __future__ import annotations

from typing import Final

from .. import octets
from ..rule import Rules
from ..trial import Trial
from ..verdicts import check
from .traffic import big_element

__all__ = ["RULES"]

RULES: Final = Rules()


@RULES.add("RSIO-47", "a publisher may split elements", "D", needs="big")
async def _may_split(trial: Trial) -> None:
    """Large elements arrive as they are, split or whole."""
    async with trial.greeted() as probe:
        for size in (1, 16_384, 16_385, 300_000):
            stream = await probe.subscribe(f"big?n=2&bytes={size}", 1, 2)
            await probe.ended(stream)
            want = [big_element(index, size)[:size] for index in range(2)]
            check(stream.elements == want, f"elements of {size} octets are other ones")


@RULES.add("RSIO-48", "a subscriber supports split elements", "D", needs="reflect")
async def _must_join(trial: Trial) -> None:
    """Of two parts and of a thousand, with parts of 0, 1 and many octets."""
    elements = [
        [b"", b""],
        [b"a", b""],
        [b"", b"b"],
        [bytes([index & 0xFF]) for index in range(1000)],
        [b"x" * 60_000, b"", b"y" * 60_000],
    ]
    async with trial.reflecting() as (probe, back, there):
        for number, parts in enumerate(elements):
            messages = [octets.part(there.id, number, each) for each in parts[:-1]]
            await probe.send(*messages, octets.last_part(there.id, number, parts[-1]))
        await probe.send(octets.complete(there.id))
        await probe.ended(back)
        want = [b"".join(parts) for parts in elements]
        check(back.elements == want, f"{len(back.elements)} elements came back, or other ones")


@RULES.add("RSIO-49", "parts are followed by exactly one last part", "D", needs="big reflect")
async def _grammar(trial: Trial) -> None:
    """The peer ends what it splits, and refuses a last part that has no part before it."""
    async with trial.greeted() as probe:
        streams = [await probe.subscribe(f"big?n=3&bytes={70_000 + n}", n, 9) for n in range(3)]
        await probe.ended(*streams)
        for stream in streams:
            check(len(stream.elements) == 3, f"{stream.name!r} has {len(stream.elements)} elements")
            check(not stream.parts, f"{stream.name!r} has parts without a last part")
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.last_part(there.id, 5, b"a"), track=False)
        await probe.refused()
        check(not back.elements, f"it was delivered: {back.elements}")


@RULES.add("RSIO-50", "parts are joined by stream and element id", "D", needs="reflect")
async def _by_both(trial: Trial) -> None:
    """Two streams use the same element ids at the same time."""
    async with trial.greeted() as probe:
        left, one = await trial.reflect(probe, "x", 1)
        right, two = await trial.reflect(probe, "y", 2)
        await probe.send(
            octets.part(one.id, 0, b"A"),
            octets.part(two.id, 0, b"1"),
            octets.part(one.id, 1, b"b"),
            octets.part(two.id, 1, b"2"),
            octets.last_part(two.id, 0, b"1"),
            octets.last_part(one.id, 0, b"A"),
            octets.last_part(one.id, 1, b"b"),
            octets.last_part(two.id, 1, b"2"),
            octets.complete(one.id),
            octets.complete(two.id),
        )
        await probe.ended(left, right)
        check(left.elements == [b"AA", b"bb"], f"the first stream has {left.elements}")
        check(right.elements == [b"11", b"22"], f"the second stream has {right.elements}")


@RULES.add("RSIO-51", "parts are joined in the order of their arrival", "D", needs="reflect")
async def _in_order(trial: Trial) -> None:
    async with trial.reflecting() as (probe, back, there):
        parts = [b"%d," % index for index in range(50)]
        for each in parts:
            await probe.send(octets.part(there.id, 3, each))
        await probe.send(octets.last_part(there.id, 3, b"end"), octets.complete(there.id))
        await probe.ended(back)
        check(back.elements == [b"".join(parts) + b"end"], f"what came back is {back.elements}")


@RULES.add("RSIO-52", "element ids are the choice of the publisher", "D", needs="reflect")
async def _element_ids(trial: Trial) -> None:
    """One id serves element after element, and ids may have any value."""
    async with trial.reflecting() as (probe, back, there):
        for number in (0, 0, 0, octets.HIGHEST, 0, 1 << 40):
            await probe.send(octets.part(there.id, number, b"a"))
            await probe.send(octets.last_part(there.id, number, b"z"))
        await probe.send(octets.complete(there.id))
        await probe.ended(back)
        check(back.elements == [b"az"] * 6, f"what came back is {back.elements}")


@RULES.add("RSIO-53", "the application sees one element", "D", needs="reflect empty")
async def _one_element(trial: Trial) -> None:
    """Nothing comes back before the last part; and three parts use one unit of demand."""
    async with trial.reflecting(1) as (probe, back, there):
        for each in (b"o", b"n"):
            await probe.send(octets.part(there.id, 0, each))
        await probe.barrier()
        check(not back.messages[1:], "something came back before the last part")
        check(there.demand == 1, f"a part made the peer request more: {there.demand}")
        await probe.send(octets.last_part(there.id, 0, b"e"))
        await probe.elements(back, 1)
        await probe.barrier()
        check(back.elements == [b"one"], f"what came back is {back.elements}")
        check(there.demand <= 2, f"one element made the peer request {there.demand - 1}")
