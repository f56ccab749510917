"""RSIO-31 to RSIO-41: subscribers, their ids, publisher names, and what is sent too late."""

from __future__ import annotations

from typing import Final

from .. import octets
from ..parser import Message
from ..rule import Rules
from ..trial import Trial
from ..verdicts import check
from .traffic import integers, numbers

__all__ = ["RULES"]

RULES: Final = Rules()


@RULES.add("RSIO-31", "answers carry the id of the subscriber", "D", needs="count")
async def _three_ids(trial: Trial) -> None:
    """Three streams take turns, with ids of one and nine octets."""
    async with trial.greeted() as probe:
        ids = (0, 127, octets.HIGHEST)
        streams = [await probe.subscribe(f"count?n={n}", id_, 1) for n, id_ in enumerate(ids, 4)]
        for _ in range(6):
            for stream in streams:
                await probe.request(stream.id, 1)
        await probe.ended(*streams)
        for count, stream in enumerate(streams, 4):
            same = stream.elements == numbers(count)
            check(same, f"the stream {stream.id} has the elements {stream.elements}")


@RULES.add(
    "RSIO-32", "the subscriber chooses its id, each party on its own", "D", needs="reflect count"
)
async def _own_ids(trial: Trial) -> None:
    """A subscription of ours has the id of one of the peer."""
    async with trial.greeted() as probe:
        back, there = await trial.reflect(probe, "x", 1 << 20)
        same = await probe.subscribe("count?n=3", there.id, 1)
        await probe.send(octets.next_sized(there.id, b"from us"))
        await probe.request(there.id, 9)
        await probe.ended(same)
        check(same.elements == numbers(3), f"'count' has the elements {same.elements}")
        await probe.send(octets.next_sized(there.id, b"more"), octets.complete(there.id))
        await probe.ended(back)
        check(back.elements == [b"from us", b"more"], f"what came back is {back.elements}")


@RULES.add("RSIO-33", "a publisher name is text for its receiver alone", "D", needs="echo-name")
async def _names(trial: Trial) -> None:
    """The publisher sees the name, all of it."""
    async with trial.greeted() as probe:
        names = (
            "echo-name",
            "echo-name?a=1&b=%20+",
            "echo-name?k\u00f6ln/../\u2603 \U0001f600?#\0",
        )
        for index, name in enumerate(names):
            stream = await probe.subscribe(name, index, 1)
            await probe.ended(stream)
            same = stream.elements == [name.encode()]
            check(same, f"the name {name!r} became {stream.elements}")


@RULES.add("RSIO-34", "a fixed-size element has no length before it", "D", needs="ints")
async def _no_length(trial: Trial) -> None:
    """Frames have exactly the octets of type, id and element."""
    async with trial.greeted() as probe:
        for size in (4, 1, 300):
            stream = await probe.subscribe(f"ints?n=3&size={size}", 2, 0)
            for _ in range(3):
                count = len(stream.elements)
                await probe.request(2, 1)
                await probe.elements(stream, count + 1)
            await probe.ended(stream)
            check(stream.element_size == size, f"subscribed has the size {stream.element_size}")
            check(stream.elements == integers(3, size), f"the elements are {stream.elements}")


@RULES.add("RSIO-35", "all elements of such a stream have its size", "D", needs="reflect")
async def _one_size(trial: Trial) -> None:
    """Parts of five octets are refused where elements have four."""
    async with trial.reflecting(size=4) as (probe, back, there):
        wrong = octets.part(there.id, 0, b"\0\0\0") + octets.last_part(there.id, 0, b"\0\0")
        await probe.send(wrong, track=False)
        await probe.refused()
        check(not back.elements, f"it was delivered: {back.elements}")


@RULES.add(
    "RSIO-36",
    "an id may be used again after cancel, onComplete or onError",
    "D",
    needs="count forever fail empty",
)
async def _again(trial: Trial) -> None:
    async with trial.greeted() as probe:
        for name, end in (("forever", "cancel"), ("count?n=1", "onComplete"), ("fail?after=0", "")):
            old = await probe.subscribe(name, 5, 2)
            if end == "cancel":
                await probe.elements(old, 2)
                await probe.cancel(5)
            await probe.ended(old)
            new = await probe.subscribe("count?n=2", 5, 9)
            await probe.ended(new)
            check(new.elements == numbers(2), f"behind {name!r} it has {new.elements}")
        # The draft lets the new subscribe follow the cancel at once.
        await probe.send(octets.subscribe("forever", 6, 3), octets.cancel(6))
        new = await probe.subscribe("count?n=3", 6, 9)
        await probe.ended(*probe.ledger.incoming)
        check(new.elements == numbers(3), f"behind a cancel it has {new.elements}")


@RULES.add(
    "RSIO-37",
    "messages for the old stream do not follow the new subscribe",
    "D",
    needs="reflect empty",
)
async def _generations(trial: Trial) -> None:
    """The peer takes two elements and cancels, five times; its demand is that of each stream."""
    async with trial.greeted() as probe:
        fixture = "reflect?name=x&prefetch=4&take=2&cancel=5"
        back = await probe.subscribe(fixture, 1, 1000)
        for index in range(5):
            there = await probe.taken("x")
            await probe.send(octets.subscribed(there.id))
            await probe.barrier()
            check(not there.cancelled, "a cancel follows the new subscribe at once")
            check(there.demand == 4, f"a demand of {there.demand}, and the subscribe has 4")
            for letter in (b"a", b"b", b"c", b"d")[: there.initial]:
                if not there.cancelled:
                    await probe.send(octets.next_sized(there.id, b"%d" % index + letter))
            await probe.cancelled(there)
            await probe.send(octets.complete(there.id))
        await probe.ended(back)
        want = [b"%d" % index + letter for index in range(5) for letter in (b"a", b"b")]
        check(back.elements == want, f"what came back is {back.elements}")


@RULES.add("RSIO-38", "ids of open streams are unique", "D", needs="reflect never")
async def _unique(trial: Trial) -> None:
    """The peer uses three ids for three streams, and refuses our second use of one."""
    async with trial.greeted() as probe:
        streams = [await trial.reflect(probe, name, index) for index, name in enumerate("xyz")]
        ids = {there.id for _, there in streams}
        check(len(ids) == 3, f"three subscriptions have the ids {ids}")
    async with trial.greeted() as probe:
        await probe.subscribe("never", 1, 1)
        await probe.send(octets.subscribe("never", 1, 1), track=False)
        await probe.refused()


@RULES.add("RSIO-39", "request of 0 fails the stream, and no other", "R", needs="count never empty")
async def _zero(trial: Trial) -> None:
    async with trial.greeted() as probe:
        lives = await probe.subscribe("count?n=4", 1, 1)
        fails = await probe.subscribe("never", 2, 5)
        await probe.request(2, 0)
        await probe.ended(fails)
        check(fails.ended == "onError", "a request of 0 completed the stream")
        await probe.request(1, 10)
        await probe.ended(lives)
        check(lives.elements == numbers(4), f"the other stream has {lives.elements}")


def _nothing_for(messages: list[Message], count: int) -> None:
    check(len(messages) == count, f"{messages[-1].name} was sent for a stream that had ended")


@RULES.add("RSIO-40", "request for a stream that has ended is ignored", "R", needs="count empty")
async def _late_request(trial: Trial) -> None:
    """Also a request of 0, and one for an id that was never used."""
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=1", 1, 1)
        await probe.ended(stream)
        count = len(stream.messages)
        await probe.send(octets.request(1, 5), octets.request(1, 0), octets.request(4711, 5))
        await probe.barrier()
        _nothing_for(stream.messages, count)


@RULES.add("RSIO-41", "a repeated cancel is ignored", "R", needs="never count empty")
async def _late_cancel(trial: Trial) -> None:
    """Also one for a stream that has ended, and for an id that was never used."""
    async with trial.greeted() as probe:
        never = await probe.subscribe("never", 1, 1)
        await probe.send(octets.cancel(1), octets.cancel(1), octets.cancel(7))
        await probe.ended(never)
        stream = await probe.subscribe("count?n=1", 2, 1)
        await probe.ended(stream)
        await probe.cancel(2)
        await probe.barrier()
        _nothing_for(stream.messages, 3)
