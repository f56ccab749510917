"""RSIO-54 to RSIO-58: the end of a connection."""

from __future__ import annotations

from typing import Final

from .. import octets
from ..rule import Rules
from ..trial import Trial
from ..verdicts import check
from .traffic import numbers

__all__ = ["RULES"]

RULES: Final = Rules()

_PAUSE: Final = 0.3


@RULES.add(
    "RSIO-54",
    "the end of the transport frees everything",
    "D",
    needs="subscribers never forever reflect",
)
async def _dropped(trial: Trial) -> None:
    """The socket is dropped: no subscription is left, and no file of the process, if known."""
    await trial.until_counters("", 0)
    files = trial.open_files()
    for _ in range(3):
        async with trial.greeted() as probe:
            await probe.subscribe("never", 2, 5)
            forever = await probe.subscribe("forever", 3, 5)
            await trial.reflect(probe, "x", 4)
            await probe.elements(forever, 5)
    await trial.until_counters("", 0)
    left = trial.open_files()
    if files is not None and left is not None:
        check(left <= files + 1, f"the process has {left} open files, and had {files} before")


@RULES.add("RSIO-55", "nothing survives a reconnection", "D", needs="count forever empty")
async def _reconnected(trial: Trial) -> None:
    """On the next connection, ids are free, and a request for an old one is ignored."""
    async with trial.greeted() as probe:
        old = await probe.subscribe("forever", 1, 1)
        await probe.elements(old, 1)
    async with trial.greeted() as probe:
        await probe.send(octets.request(1, 5), octets.cancel(1))
        await probe.barrier()
        new = await probe.subscribe("count?n=2", 1, 2)
        await probe.ended(new)
        check(new.elements == numbers(2), f"'count?n=2' has the elements {new.elements}")


@RULES.add("RSIO-56", "who says goodbye waits for the answer, then closes", "D", needs="goodbye")
async def _orderly(trial: Trial) -> None:
    """The peer says goodbye: it keeps the connection until ours, and closes then."""
    async with trial.greeted() as probe:
        await probe.subscribe("goodbye?reason=maintenance", 1, 1)
        await probe.left()
        reason = probe.ledger.goodbye.text if probe.ledger.goodbye else ""
        check(reason == "maintenance", f"the reason is {reason!r}, not 'maintenance'")
        await probe.for_a_while(_PAUSE)
        check(not probe.at_end, "the peer closed without waiting for our goodbye")
        await probe.send(octets.goodbye())
        await probe.until_end(patience=min(trial.patience, 3))


@RULES.add("RSIO-57", "goodbye is answered by goodbye, once", "D", needs="goodbye count")
async def _answered(trial: Trial) -> None:
    """Also if both say it at the same time. Then the connection ends."""
    async with trial.greeted() as probe:
        await probe.subscribe("count", 1, 1)
        await probe.send(octets.goodbye("done"))
        await probe.refused()
    async with trial.greeted() as probe:
        await probe.send(octets.subscribe("goodbye?reason=crossing", 1, 1), octets.goodbye())
        await probe.refused()


@RULES.add(
    "RSIO-58",
    "goodbye ends all streams without further messages",
    "D",
    needs="subscribers never forever reflect",
)
async def _streams_end(trial: Trial) -> None:
    """No onComplete or onError follows; publishers see a cancel, subscribers an error."""
    before = await trial.until_counters("reflect:x", 0)
    await trial.until_counters("never", 0)
    async with trial.greeted() as probe:
        streams = [
            await probe.subscribe("never", 1, 5),
            await probe.subscribe("forever", 2, 3),
        ]
        await probe.elements(streams[1], 3)
        back, _there = await trial.reflect(probe, "x", 3)
        await probe.send(octets.goodbye("done"))
        await probe.refused()
        for stream in (*streams, back):
            check(not stream.ended, f"{stream.ended} of {stream.name!r} follows our goodbye")
    await trial.until_counters("never", 0)
    after = await trial.until_counters("reflect:x", 0)
    check(after.failed == before.failed + 1, "the subscriber of the peer did not see an error")
