"""RSIO-20 to RSIO-30: subscribe, demand, elements, ends."""

from __future__ import annotations

from typing import Final

from .. import octets
from ..ledger import Incoming
from ..rule import Rules
from ..trial import Trial
from ..verdicts import check
from .traffic import integers, mixed_traffic, numbers

__all__ = ["RULES"]

RULES: Final = Rules()


def _count(stream: Incoming, count: int) -> None:
    same = stream.elements == numbers(count)
    check(same, f"{stream.name!r} has the elements {stream.elements[:20]}, not {count} numbers")


@RULES.add(
    "RSIO-20", "subscribe names publisher, subscriber and initial demand", "D", needs="count empty"
)
async def _no_demand(trial: Trial) -> None:
    """With demand 0, ``subscribed`` is sent, and then nothing."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=5", 17, 0)
        await probe.answered(stream)
        await probe.barrier()
        check(len(stream.messages) == 1, f"{stream.messages[-1].name} was sent without demand")


@RULES.add("RSIO-21", "request adds to the demand", "D", needs="count empty")
async def _additive(trial: Trial) -> None:
    """Demand 0, then 1, then 2, then 3 and 4 at once."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=50", 1, 0)
        for demands, count in (((1,), 1), ((2,), 3), ((3, 4), 10)):
            await probe.send(*(octets.request(1, demand) for demand in demands))
            await probe.elements(stream, count)
            await probe.barrier()
            _count(stream, count)


@RULES.add("RSIO-22", "cancel stops the stream", "D", needs="big empty")
async def _cancelled(trial: Trial) -> None:
    """A finite number of elements follows the cancel, and then none."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("big?bytes=4000", 1, 1 << 40)
        await probe.elements(stream, 10)
        await probe.cancel(1)
        await probe.barrier()
        count = len(stream.elements)
        await probe.barrier()
        more = len(stream.elements) - count
        check(not more, f"{more} elements arrived two round trips behind the cancel")
        check(stream.ended, "the cancel was not acknowledged")


@RULES.add(
    "RSIO-23", "subscribed precedes all other messages of its id", "D", needs="count fail empty"
)
async def _subscribed_first(trial: Trial) -> None:
    """Also for streams that fail at once, and for publishers that do not exist."""
    names = ("count?n=2", "empty", "fail?after=0", "no-such-publisher", "never", "ints?n=3")
    async with trial.greeted() as probe:
        for index, name in enumerate(names):
            stream = await probe.subscribe(name, index, 10)
            await probe.answered(stream)
            first = stream.messages[0].name
            check(first == "subscribed", f"the first answer to {name!r} is {first}")
        await probe.barrier()
        for stream in probe.ledger.incoming[: len(names)]:
            count = sum(each.name == "subscribed" for each in stream.messages)
            check(count == 1, f"{stream.name!r} has {count} subscribed")


@RULES.add(
    "RSIO-24",
    "there are no more elements than the demand",
    "R",
    needs="count ints big empty fail reflect never",
)
async def _demand(trial: Trial) -> None:
    """Elements are counted once, however they are sent: plain, packed or split."""
    async with trial.greeted() as probe:
        streams = [
            await probe.subscribe("count?n=100", 1, 7),
            await probe.subscribe("ints?n=100&size=4", 2, 7),
            await probe.subscribe("big?n=100&bytes=40000", 3, 7),
        ]
        for stream in streams:
            await probe.elements(stream, 7)
        await probe.barrier()
        for stream in streams:
            check(stream.used == 7, f"{stream.name!r} used {stream.used} of a demand of 7")
    async with trial.greeted() as probe:
        await mixed_traffic(trial, probe)


@RULES.add("RSIO-25", "the initial demand is a request", "D", needs="count empty")
async def _initial(trial: Trial) -> None:
    """Three elements come without any request."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=50", 1, 3)
        await probe.elements(stream, 3)
        await probe.barrier()
        _count(stream, 3)


@RULES.add("RSIO-26", "onComplete ends a stream, and nothing follows", "D", needs="count empty")
async def _completed(trial: Trial) -> None:
    """Also if more was requested than there is, and if more is requested later."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=3", 1, 10)
        await probe.ended(stream)
        _count(stream, 3)
        check(stream.ended == "onComplete", f"it ended with onError {stream.error!r}")
        await probe.request(1, 5)
        await probe.barrier()


@RULES.add("RSIO-27", "onError ends a stream, and needs no demand", "D", needs="fail empty")
async def _failed(trial: Trial) -> None:
    async with trial.greeted() as probe:
        for after, demand in ((0, 0), (0, 9), (3, 10)):
            stream = await probe.subscribe(f"fail?after={after}", 1, demand)
            await probe.ended(stream)
            check(stream.ended == "onError", f"'fail?after={after}' ended with onComplete")
            _count(stream, after)
            await probe.request(1, 5)
            await probe.barrier()


@RULES.add("RSIO-28", "either party may subscribe", "D", needs="reflect")
async def _either(trial: Trial) -> None:
    """The peer subscribes to our publisher, with the demand that we told it."""
    async with trial.reflecting(prefetch=5) as (probe, back, there):
        check(there.initial == 5, f"the peer subscribes with the demand {there.initial}, not 5")
        await probe.send(octets.next_sized(there.id, b"to and fro"))
        await probe.send(octets.complete(there.id))
        await probe.ended(back)
        check(back.elements == [b"to and fro"], f"what came back is {back.elements}")


@RULES.add("RSIO-29", "elements arrive in sequence", "R", needs="count ints")
async def _sequence(trial: Trial) -> None:
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=10000", 1, 10)
        fixed = await probe.subscribe("ints?n=10000&size=4", 2, 10)
        while not stream.ended or not fixed.ended:
            for each in (stream, fixed):
                if not each.ended and each.demand - each.used < 2000:
                    await probe.request(each.id, 4000)
            await probe.until(
                lambda: stream.ended or stream.demand - stream.used < 2000, "elements"
            )
            await probe.until(lambda: fixed.ended or fixed.demand - fixed.used < 2000, "elements")
        _count(stream, 10_000)
        check(fixed.elements == integers(10_000), "'ints' is out of sequence")


@RULES.add("RSIO-30", "streams are independent", "R", needs="count forever reflect empty")
async def _independent(trial: Trial) -> None:
    """A stream without demand, and one that is not read, do not stop another one."""
    async with trial.reflecting(prefetch=4, demand=0) as (probe, back, there):
        await probe.send(*(octets.next_sized(there.id, b"%d" % index) for index in range(4)))
        waits = await probe.subscribe("forever", 2, 0)
        flows = await probe.subscribe("count?n=500", 3, 500)
        await probe.ended(flows)
        _count(flows, 500)
        check(not back.elements and not waits.elements, "elements without demand")
        await probe.request(1, 4)
        await probe.elements(back, 4)
        check(back.elements == numbers(4), f"what came back is {back.elements}")
