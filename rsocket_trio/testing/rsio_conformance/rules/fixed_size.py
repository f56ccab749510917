"""RSIO-42 to RSIO-46: elements of a fixed size, plain and packed."""

from __future__ import annotations

from typing import Final

import trio

from .. import octets
from ..rule import Rules
from ..trial import Trial
from ..verdicts import check
from .traffic import integers, numbers

__all__ = ["RULES"]

RULES: Final = Rules()

_TICK: Final = 0.05


@RULES.add("RSIO-42", "only fixed-size elements are packed", "D", needs="count reflect")
async def _not_packed(trial: Trial) -> None:
    """The peer packs no others, and refuses when we do."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=1000", 1, 1000)
        await probe.ended(stream)
        check(stream.elements == numbers(1000), "'count' has other elements")
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.packed(there.id, 2, b"ab"), track=False)
        await probe.refused()
        check(not back.elements, f"it was delivered: {back.elements}")


@RULES.add("RSIO-43", "a packed message has count times size octets", "D", needs="ints")
async def _packed_octets(trial: Trial) -> None:
    """Elements are the same, whether they could be packed or not."""
    async with trial.greeted() as probe:
        at_once = await probe.subscribe("ints?n=1000&size=4", 1, 1000)
        one_by_one = await probe.subscribe("ints?n=20&size=4", 2, 0)
        for count in range(1, 21):
            await probe.request(2, 1)
            await probe.elements(one_by_one, count)
        await probe.ended(at_once, one_by_one)
        check(at_once.elements == integers(1000), "'ints' has other elements")
        check(one_by_one.elements == integers(20), "'ints' has other elements, one by one")


@RULES.add("RSIO-44", "each packed element uses a unit of demand", "D", needs="ints reflect empty")
async def _packed_demand(trial: Trial) -> None:
    """The peer sends three for a demand of three, and refuses three for a demand of two."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("ints?n=100&size=4", 1, 3)
        await probe.elements(stream, 3)
        await probe.barrier()
        check(stream.elements == integers(3), f"the elements are {stream.elements}")
    async with trial.reflecting(2, size=4) as (probe, back, there):
        await probe.send(octets.packed(there.id, 3, bytes(12)), track=False)
        await probe.refused()
        check(not back.elements, f"elements of it were delivered: {back.elements}")


@RULES.add("RSIO-45", "plain onNext stays legal for fixed-size elements", "D", needs="reflect")
async def _plain(trial: Trial) -> None:
    """The peer takes both forms in one stream."""
    async with trial.reflecting(size=4) as (probe, back, there):
        one, *more = integers(5)
        await probe.send(octets.next_fixed(there.id, one))
        await probe.send(octets.packed(there.id, 3, b"".join(more[:3])))
        await probe.send(octets.next_fixed(there.id, more[3]), octets.complete(there.id))
        await probe.ended(back)
        check(back.elements == integers(5), f"what came back is {back.elements}")


@RULES.add("RSIO-46", "elements are not delayed to be packed", "D", needs="slow")
async def _not_delayed(trial: Trial) -> None:
    """Of elements that come one by one, most arrive one by one."""
    async with trial.greeted() as probe:
        ms = int(_TICK * 1000)
        start = trio.current_time()
        stream = await probe.subscribe(f"slow?ms={ms}&n=6&size=4", 1, 100)
        await probe.elements(stream, 1)
        first = trio.current_time() - start
        await probe.ended(stream)
        alone = sum(each.name == "onNext" or each.number == 1 for each in stream.messages[1:-1])
        check(stream.elements == integers(6), f"the elements are {stream.elements}")
        check(alone >= 3, f"{alone} of 6 elements arrived alone, though they came one by one")
        check(first < 4 * _TICK, f"the first element took {first:.3f} s, not {_TICK} s")
