"""B15 to B17 and B20: what a peer may cost, and how long it may be silent."""

from __future__ import annotations

import math
from typing import Final

import trio

from ... import memory
from .. import octets
from ..rule import Rules
from ..trial import Trial
from ..verdicts import Skipped, check

__all__ = ["RULES"]

RULES: Final = Rules()

_CAP: Final = 1024
"""Subscriptions of a connection that a publisher has at most, by default."""
_UNREAD_SECONDS: Final = 1.5
_MOST_MEMORY: Final = 32 << 20
_HELLO_SECONDS: Final = 10.0
_GOODBYE_SECONDS: Final = 5.0
_MARGIN: Final = 5.0


@RULES.add("B15", "too many subscriptions fail, and the connection lives", "B", needs="never count")
async def _cap(trial: Trial) -> None:
    """Of the default number and a few more, some get onError. Others can be cancelled then."""
    async with trial.greeted() as probe:
        extra = 10
        for start in range(0, _CAP + extra, 100):
            ids = range(start, min(start + 100, _CAP + extra))
            await probe.send(*(octets.subscribe("never", each, 1) for each in ids))
        streams = list(probe.ledger.incoming)
        refused = streams[-1]
        await probe.ended(refused)
        check(refused.ended == "onError", "the last of too many subscriptions completed")
        check(not streams[0].ended, "the first subscription has ended too")
        # A cancel behind it, in the same segment, is for a stream that has ended.
        await probe.send(octets.subscribe("never", 1 << 20, 1), octets.cancel(1 << 20))
        await probe.ended(probe.ledger.incoming[-1])
        await probe.cancel(0)
        await probe.ended(streams[0])
        new = await probe.subscribe("count?n=1", 0, 1)
        await probe.ended(new)
        check(new.elements == [b"0"], f"a freed place was not given again: {new.error!r}")


def _memory(pid: int) -> int:
    try:
        return memory.resident_memory(pid)
    except (NotImplementedError, ProcessLookupError) as error:
        raise Skipped(str(error)) from None


async def _grown(trial: Trial, before: int) -> int:
    most = before
    with trio.move_on_after(_UNREAD_SECONDS):
        while True:
            most = max(most, _memory(trial.pid))
            await trio.sleep(0.05)
    return most - before


def _check_memory(grown: int, what: str) -> None:
    check(grown < _MOST_MEMORY, f"{what} made the memory of the peer grow by {grown >> 20} MiB")


@RULES.add("B16", "demand does not become memory", "B", needs="forever pid")
async def _unread(trial: Trial) -> None:
    """Endless streams, a demand without end, and nobody who reads."""
    before = _memory(trial.pid)
    async with trial.greeted() as probe:
        for index in range(4):
            await probe.subscribe("forever", index, octets.HIGHEST)
        grown = await _grown(trial, before)
    _check_memory(grown, "unread elements")


@RULES.add("B17", "a flood of subscribe and cancel does not become memory", "B", needs="never pid")
async def _flood(trial: Trial) -> None:
    """For as long as the connection lasts; none of the answers is read."""
    before = _memory(trial.pid)
    async with trial.greeted() as probe, trio.open_nursery() as nursery:
        burst = b"".join(octets.subscribe("never", n, 1) + octets.cancel(n) for n in range(500))

        async def flood() -> None:
            # A peer may read slowly here, or end the connection.
            probe.patience = math.inf
            while True:
                await probe.send(burst, track=False)
                await trio.lowlevel.checkpoint()

        nursery.start_soon(flood)
        grown = await _grown(trial, before)
        nursery.cancel_scope.cancel()
    _check_memory(grown, "unread answers")


@RULES.add("B20", "hello and goodbye have deadlines", "B", needs="goodbye", slow=True)
async def _deadlines(trial: Trial) -> None:
    """A peer that says no hello, and one that does not answer a goodbye, are left."""
    async with trial.connected() as silent, trial.greeted() as rude:
        await rude.subscribe("goodbye", 1, 1)
        await rude.left()
        start = trio.current_time()
        await rude.until_end(patience=_GOODBYE_SECONDS + _MARGIN)
        waited = trio.current_time() - start
        check(waited > 0.5, f"the peer waited {waited:.3f} s for our goodbye")
        # Who gives up waiting for a hello may say goodbye, and wait for the answer.
        await silent.until(
            lambda: silent.at_end or silent.ledger.goodbye,
            "a goodbye or the end, where no hello was sent",
            patience=_HELLO_SECONDS + _MARGIN - waited,
        )
