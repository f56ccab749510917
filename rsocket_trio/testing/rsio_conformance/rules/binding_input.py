"""B01 to B06 and B22: input that is refused, or accepted though it looks odd."""

from __future__ import annotations

from typing import Final

from .. import octets
from ..rule import Rules
from ..trial import Trial
from ..verdicts import Failed, check

__all__ = ["RULES"]

RULES: Final = Rules()

_HUGE: Final = octets.varint(2**62)
"""A length that is above the limit of everybody."""


@RULES.add("B01", "the first message must be a hello", "B")
async def _hello_first(trial: Trial) -> None:
    """A subscribe, HTTP, TLS, and the hello of the wrong role are answered by hello and goodbye."""
    own_role = "020000" if trial.is_server else "010000"
    strangers = (
        "10057469636b730000",
        "474554202f20485454502f312e310d0a",
        "16030100",
        own_role,
        "0300",
        "00",
    )
    for each in strangers:
        async with trial.connected() as probe:
            await probe.send(bytes.fromhex(each), track=False)
            try:
                await probe.refused()
            except Failed as error:
                raise Failed(f"after {each}: {error}") from None
            check(probe.ledger.hello, "the peer said goodbye without a hello")


@RULES.add("B02", "a second hello is refused", "B")
async def _second_hello(trial: Trial) -> None:
    for wrong in ("010000", "020000"):
        await trial.refuses(bytes.fromhex(wrong))


@RULES.add("B03", "unknown types of messages are refused", "B")
async def _unknown_types(trial: Trial) -> None:
    """At their first octet: 0x00, those without a meaning, and extensions not negotiated."""
    for kind in (0x00, 0x04, 0x0F, 0x13, 0x27, 0x3F, 0x40, 0x7F, 0x80, 0xFF):
        try:
            await trial.refuses(bytes([kind]))
        except Failed as error:
            raise Failed(f"type 0x{kind:02x}: {error}") from None


@RULES.add("B04", "varints are minimal and have at most 9 octets", "B", needs="never")
async def _varints(trial: Trial) -> None:
    """Wrong ones are refused as an id, as a demand and as a length."""
    for wrong in (
        "ff00",
        "808000",
        "ffffffffffffffffff01",
        "80808080808080808001",
        "8000",
        "808080808080808080808001",
    ):
        octets_ = bytes.fromhex(wrong)
        for message in (b"\x12" + octets_, b"\x11\x01" + octets_, b"\x10" + octets_):
            try:
                await trial.refuses(message)
            except Failed as error:
                raise Failed(f"{message.hex()}: {error}") from None


@RULES.add("B05", "lengths are refused before what they announce arrives", "B", needs="reflect")
async def _lengths(trial: Trial) -> None:
    """A name, a reason, a list, a text, an element, a part, a size and a packed block."""
    for wrong in (b"\x10" + _HUGE, b"\x03" + _HUGE):
        await trial.refuses(wrong)
    kind = b"\x01" if trial.is_server else b"\x02"
    await trial.refuses(b"", after=kind + b"\0" + _HUGE)
    for size, head in (
        (0, b"\x21%c" + _HUGE),
        (0, b"\x23%c" + _HUGE),
        (0, b"\x25%c\x00" + _HUGE),
        (None, b"\x20%c" + _HUGE),
        (4, b"\x24%c" + octets.varint(octets.HIGHEST)),
    ):
        async with trial.greeted() as probe:
            await probe.subscribe("reflect?name=x&prefetch=9", 1, 1)
            there = await probe.taken("x")
            if size is not None:
                await probe.send(octets.subscribed(there.id, size))
            where = head.index(b"%c")
            wrong = head[:where] + octets.varint(there.id) + head[where + 2 :]
            await probe.send(wrong, track=False)
            try:
                await probe.refused()
            except Failed as error:
                raise Failed(f"after {wrong.hex()}: {error}") from None


@RULES.add("B06", "publisher names are strict UTF-8, other texts are not", "B", needs="reflect")
async def _texts(trial: Trial) -> None:
    """A wrong name is refused; a wrong reason or error is read, with replacement characters."""
    for wrong in ("1002c3280100", "1003eda0800100", "1001ff0100"):
        await trial.refuses(bytes.fromhex(wrong))
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.error(there.id, b"bad \xff\xff"))
        await probe.ended(back)
        check(back.ended == "onError", "an error with a wrong text completed the stream")
        await probe.send(octets.goodbye(b"\xff\xff"))
        reason = await probe.refused()
        check(not reason.startswith("protocol error"), f"the goodbye says {reason!r}")


@RULES.add("B22", "empty elements and empty names are legal", "B", needs="reflect empty")
async def _empty(trial: Trial) -> None:
    """An empty element comes back; an empty name is an unknown publisher, or a known one."""
    async with trial.reflecting() as (probe, back, there):
        await probe.send(octets.next_sized(there.id, b""), octets.complete(there.id))
        await probe.ended(back)
        check(back.elements == [b""], f"what came back is {back.elements}")
        stream = await probe.subscribe("", 2, 0)
        await probe.answered(stream)
        await probe.barrier()
