"""RSIO-01 to RSIO-06: the transport, and messages as octets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from .. import octets
from ..rule import Rules
from ..trial import Trial
from ..verdicts import check
from .traffic import mixed_traffic

__all__ = ["RULES"]

RULES: Final = Rules()

_UNREAD: Final = 1 << 19
"""More octets than the buffers of a connection hold, unless the peer reads."""


@RULES.add("RSIO-01", "both directions move at once", "D", needs="big count")
async def _duplex(trial: Trial) -> None:
    """The peer reads on, also while nobody reads what it sends."""
    async with trial.greeted() as probe:
        await probe.subscribe("big?bytes=16000", 1, 1 << 40)
        # A request for an unknown id is ignored, so it costs the peer nothing but reading.
        ignored = octets.request(octets.HIGHEST, octets.HIGHEST)
        for _ in range(16):
            await probe.send(ignored * (_UNREAD // 16 // len(ignored)), track=False)
        stream = await probe.subscribe("count?n=1", 2, 1)
        await probe.ended(stream)
        check(stream.elements == [b"0"], f"'count?n=1' has the elements {stream.elements}")


@RULES.add("RSIO-02", "all values of octets pass", "D", needs="reflect")
async def _values(trial: Trial) -> None:
    """An element with all 256 values comes back as it was."""
    every = bytes(range(256))
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.next_sized(there.id, every), octets.complete(there.id))
        await probe.ended(back)
        check(back.elements == [every], f"the element came back as {back.elements}")


@RULES.add("RSIO-03", "segmentation does not matter", "D", needs="count fail empty")
async def _segments(trial: Trial) -> None:
    """The answers to one write, to single octets, and to random pieces are the same."""
    dice = random.Random(3)
    whole = await _replayed(trial, lambda: 10**6)
    check(whole == [[b"0", b"1", b"2"], [b"0", b"1"], []], f"one write: the answers are {whole}")
    for what, size in (
        ("single octets", lambda: 1),
        ("random pieces", lambda: dice.randint(1, 9)),
        ("large random pieces", lambda: dice.randint(5, 30)),
    ):
        result = await _replayed(trial, size)
        check(result == whole, f"{what}: the answers are {result}, not {whole}")


async def _replayed(trial: Trial, size: Callable[[], int]) -> list[list[bytes]]:
    async with trial.connected() as probe:
        data = probe.hello()
        data += octets.subscribe("count?n=3", 300, 1) + octets.request(300, 1)
        data += octets.subscribe("fail?after=2", 0, 5) + octets.request(300, 200)
        data += octets.subscribe("empty", 2**40)
        while data:
            cut = size()
            await probe.send(data[:cut])
            data = data[cut:]
        await probe.ended(*probe.ledger.incoming)
        return [each.elements for each in probe.ledger.incoming]


@RULES.add(
    "RSIO-04",
    "a message is its type, then its fields in the listed order",
    "D",
    needs="count empty fail ints big reflect",
)
async def _layout(trial: Trial) -> None:
    """All that the peer sends can be decoded, and no octet is left."""
    async with trial.greeted() as probe:
        await mixed_traffic(trial, probe)
        await probe.send(octets.goodbye("done"))
        await probe.until_end()


@RULES.add("RSIO-05", "messages follow one another without a gap", "D", needs="count empty")
async def _concatenated(trial: Trial) -> None:
    """Hello, subscribe and request in one segment are all answered."""
    async with trial.connected() as probe:
        first, second = octets.subscribe("count?n=2", 0, 0), octets.subscribe("empty", 1)
        await probe.send(probe.hello() + first + octets.request(0, 5) + second)
        await probe.ended(*probe.ledger.incoming)
        elements = probe.ledger.incoming[0].elements
        check(elements == [b"0", b"1"], f"'count?n=2' has the elements {elements}")


@RULES.add(
    "RSIO-06", "fields are varints, or have a length before them", "D", needs="reflect never empty"
)
async def _fields(trial: Trial) -> None:
    """All well-formed messages are accepted, fields that are not well formed are refused."""
    async with trial.reflecting() as (probe, back, there):
        await probe.send(
            octets.subscribe("/k\u00f6ln?n=3", 128, octets.HIGHEST),
            octets.subscribe("never", 7, 1),
            octets.request(7, 1 << 35),
            octets.cancel(7),
            octets.next_sized(there.id, b""),
            octets.next_sized(there.id, b"hello"),
            octets.part(there.id, 0, b"ab"),
            octets.part(there.id, 1 << 50, b""),
            octets.last_part(there.id, 0, b"c"),
            octets.last_part(there.id, 1 << 50, b""),
            octets.error(there.id, "no"),
        )
        await probe.ended(back)
        await probe.barrier()
        check(back.elements == [b"", b"hello", b"abc", b""], f"what came back is {back.elements}")
    for wrong in ("11810001", "1181808080808080808000", "1002c3280100", "1003eda0800100"):
        await trial.refuses(bytes.fromhex(wrong))
