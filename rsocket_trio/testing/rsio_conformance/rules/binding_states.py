"""B07 to B14, B18, B19 and B21: the states of streams and of the connection."""

from __future__ import annotations

from typing import Final

from .. import octets
from ..rule import Rules
from ..trial import Trial
from ..verdicts import check
from .traffic import numbers

__all__ = ["RULES"]

RULES: Final = Rules()


@RULES.add(
    "B07",
    "each subscribe has one subscribed and one end, also after cancel",
    "B",
    needs="never forever count empty fail slow",
)
async def _acknowledged(trial: Trial) -> None:
    async with trial.greeted() as probe:
        for name in ("never", "forever", "count?n=9"):
            stream = await probe.subscribe(name, 1, 1)
            await probe.answered(stream)
            await probe.cancel(1)
            await probe.ended(stream)
            check(stream.ended == "onComplete", f"cancel of {name!r} is answered by onError")
        first = await probe.subscribe("never", 2, 1)
        await probe.cancel(2)
        await probe.ended(first)
        await probe.barrier()
        names = [each.name for each in first.messages]
        check(names == ["subscribed", "onComplete"], f"cancelled at once, it has {names}")
        # Whether the end or the cancel is first, there is one end.
        for name in ("empty", "no-such-publisher", "fail?after=0", "count?n=1", "slow?ms=10&n=1"):
            await probe.send(octets.subscribe(name, 3, 5), octets.cancel(3))
            stream = probe.ledger.incoming[-1]
            await probe.ended(stream)
            await probe.barrier()
            names = [each.name for each in stream.messages if not each.name.startswith("onNext")]
            check(len(names) == 2, f"{name!r} and a cancel in one segment have {names}")


@RULES.add(
    "B08", "nothing of the old stream follows the new subscribed", "B", needs="big count empty"
)
async def _no_mixing(trial: Trial) -> None:
    """Cancel and a new subscribe with the same id, while a million elements may come."""
    async with trial.greeted() as probe:
        old = await probe.subscribe("big?bytes=4000", 1, 1_000_000)
        await probe.elements(old, 10)
        await probe.send(octets.cancel(1), octets.subscribe("count?n=3", 1, 5))
        new = probe.ledger.incoming[-1]
        await probe.ended(old, new)
        await probe.barrier()
        check(new.elements == numbers(3), f"the new stream has the elements {new.elements[:9]}")


@RULES.add("B09", "an element or end for an unknown id is refused", "B", needs="reflect")
async def _unsolicited(trial: Trial) -> None:
    for wrong in ("21050161", "2209", "200700", "23070161", "2507000161", "2607000161"):
        await trial.refuses(bytes.fromhex(wrong))
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.complete(there.id))
        await probe.ended(back)
        await probe.send(octets.next_sized(there.id, b"late"), track=False)
        await probe.refused()


@RULES.add("B10", "elements without demand are refused, and not delivered", "B", needs="reflect")
async def _no_demand(trial: Trial) -> None:
    async with trial.reflecting(2, demand=0) as (probe, _back, there):
        for _ in range(3):
            await probe.send(octets.next_sized(there.id, b"a"), track=False)
        await probe.refused()
    async with trial.reflecting(2, size=4) as (probe, back, there):
        await probe.send(octets.packed(there.id, 3, bytes(12)), track=False)
        await probe.refused()
        check(not back.elements, f"elements of it were delivered: {back.elements}")


@RULES.add("B11", "subscribed comes once, and first", "B", needs="reflect")
async def _subscribed(trial: Trial) -> None:
    """An element before it, and a second one, are refused."""
    async with trial.greeted() as probe:
        await probe.subscribe("reflect?name=x", 1, 1)
        there = await probe.taken("x")
        await probe.send(octets.next_sized(there.id, b"a"), track=False)
        await probe.refused()
    async with trial.reflecting() as (probe, _back, there):
        await probe.send(octets.subscribed(there.id), track=False)
        await probe.refused()


@RULES.add("B12", "onComplete in the midst of an element is refused", "B", needs="reflect empty")
async def _open_parts(trial: Trial) -> None:
    """OnError is fine there: it drops the parts."""
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.part(there.id, 0, b"a"), octets.complete(there.id))
        await probe.refused()
        check(not back.elements, f"parts were delivered: {back.elements}")
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.part(there.id, 0, b"a"), octets.error(there.id, "no"))
        await probe.ended(back)
        check(back.ended == "onError", "an error in the midst of an element is no error")
        check(not back.elements, f"parts were delivered: {back.elements}")
        await probe.barrier()


@RULES.add(
    "B13", "elements have the order of the messages that complete them", "B", needs="reflect"
)
async def _completing(trial: Trial) -> None:
    async with trial.reflecting() as (probe, back, there):
        await probe.send(
            octets.part(there.id, 0, b"A"),
            octets.part(there.id, 1, b"bb"),
            octets.part(there.id, 0, b"A"),
            octets.last_part(there.id, 0, b"A"),
            octets.next_sized(there.id, b"cc"),
            octets.last_part(there.id, 1, b"b"),
            octets.complete(there.id),
        )
        await probe.ended(back)
        check(back.elements == [b"AAA", b"cc", b"bbb"], f"what came back is {back.elements}")


@RULES.add("B14", "the first part of an element takes the demand", "B", needs="reflect")
async def _first_part(trial: Trial) -> None:
    """Two open elements are refused where the demand is 1."""
    async with trial.reflecting(1) as (probe, _back, there):
        await probe.send(
            octets.part(there.id, 0, b"a"), octets.part(there.id, 1, b"b"), track=False
        )
        await probe.refused()


@RULES.add(
    "B18", "the end within a message frees everything", "B", needs="never subscribers reflect count"
)
async def _cut(trial: Trial) -> None:
    """Connections are closed in the midst of a subscribe and of an element."""
    for half in ("10057469636b", "11"):
        async with trial.greeted() as probe:
            await probe.subscribe("never", 1, 5)
            await probe.barrier()
            await probe.send(bytes.fromhex(half), track=False)
            await probe.cut()
    async with trial.reflecting() as (probe, _back, there):
        await probe.send(octets.next_sized(there.id, b"hello")[:-3], track=False)
        await probe.cut()
    await trial.until_counters("never", 0)
    await trial.until_counters("reflect:x", 0)
    async with trial.greeted() as probe:
        stream = await probe.subscribe("count?n=1", 1, 1)
        await probe.ended(stream)


@RULES.add("B19", "nothing follows the own goodbye", "B", needs="big never")
async def _last_words(trial: Trial) -> None:
    """A stream is busy when the peer has to say goodbye, to a fault and to our goodbye."""
    for last in (b"\0", octets.goodbye("done")):
        async with trial.greeted() as probe:
            stream = await probe.subscribe("big?bytes=16000", 1, 1 << 40)
            await probe.elements(stream, 10)
            await probe.subscribe("never", 2, 1)
            await probe.send(last, track=False)
            await probe.left()
            await probe.until_end()


@RULES.add("B21", "before clientHello the server sends only serverHello", "B", roles=("server",))
async def _nothing_early(trial: Trial) -> None:
    """Also while a clientHello has arrived in part, with a subscribe behind it."""
    async with trial.connected() as probe:
        await probe.send(b"\x01\x00", track=False)
        await probe.for_a_while()
        names = [probe.ledger.hello.name] if probe.ledger.hello else []
        check(not probe.at_end, "the server closed the connection")
        check(names in ([], ["serverHello"]), f"the server sent {names}")
        check(not probe.ledger.outgoing, "the server subscribes before a clientHello")
