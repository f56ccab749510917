"""RSIO-07 to RSIO-19: hellos, versions and extensions."""

from __future__ import annotations

from typing import Final

import trio

from .. import octets
from ..parser import Message
from ..probe import Probe
from ..rule import Rules
from ..trial import Trial
from ..verdicts import Failed, Skipped, check
from .traffic import mixed_traffic, numbers

__all__ = ["RULES"]

RULES: Final = Rules()

_MIXED: Final = "count empty fail ints big reflect never"
_UNKNOWN: Final = (16384, 77777, 2**40, octets.HIGHEST)
"""Extensions that nobody has: these ids are for private use."""


@RULES.add("RSIO-07", "who opens the connection sends clientHello first", "D", roles=("client",))
async def _client_first(trial: Trial) -> None:
    """The first octet of the client is 0x01, though the server says nothing."""
    async with trial.connected() as probe:
        await probe.until(lambda: probe.ledger.hello, "a clientHello")
        check(probe.first_octet == b"\x01", f"the first octet is 0x{probe.first_octet.hex()}")


@RULES.add("RSIO-08", "who accepts it sends serverHello, unasked or not", "D", roles=("server",))
async def _server_answers(trial: Trial) -> None:
    """To silence the server says serverHello or nothing, and to clientHello it says serverHello."""
    async with trial.connected() as probe:
        await probe.for_a_while()
        check(not probe.at_end, "the server closed the connection of a client that says nothing")
        await probe.greet()
        await probe.for_a_while()
        check(probe.first_octet == b"\x02", f"the first octet is 0x{probe.first_octet.hex()}")


@RULES.add("RSIO-09", "the version is 0", "D")
async def _version(trial: Trial) -> None:
    async with trial.connected() as probe:
        hello = await probe.greet()
        check(hello.raw[1:2] == b"\0", f"the hello begins with {hello.raw[:3].hex()}")


async def _rejects_version(probe: Probe, hello: bytes) -> None:
    await probe.send(hello, track=False)
    await probe.refused()
    check(probe.ledger.hello is not None, "the peer said goodbye without a hello")


@RULES.add("RSIO-10", "a server refuses other versions with goodbye", "D", roles=("server",))
async def _server_refuses(trial: Trial) -> None:
    """serverHello, goodbye and the end, whatever may follow the version in the hello."""
    for hello in ("010100", "0101ff00ff", "01ac0200", "01808080808001"):
        async with trial.connected() as probe:
            await _rejects_version(probe, bytes.fromhex(hello))


@RULES.add("RSIO-11", "a client refuses other versions with goodbye", "D", roles=("client",))
async def _client_refuses(trial: Trial) -> None:
    for hello in ("020700", "0207ff00ff", "02ac0200"):
        async with trial.connected() as probe:
            await _rejects_version(probe, bytes.fromhex(hello))


@RULES.add(
    "RSIO-12", "the transport shows the version: ALPN rsio/0", "D", needs="TLS", roles=("server",)
)
async def _alpn(trial: Trial) -> None:
    """The server selects rsio/0 among what the client offers."""
    if not trial.subject.encrypted:
        raise Skipped("ALPN is a part of TLS: give an address rsios://")
    stream = await trial.subject.connect()
    try:
        if not isinstance(stream, trio.SSLStream):
            raise Skipped("the connection does not show its ALPN")
        with trio.fail_after(trial.patience):
            await stream.do_handshake()
        selected = stream.selected_alpn_protocol()
        check(selected == "rsio/0", f"the server selected {selected!r}, not 'rsio/0'")
    except trio.BrokenResourceError as error:
        raise Failed(f"the TLS handshake failed: {error.__cause__}") from error
    finally:
        await trio.aclose_forcefully(stream)


@RULES.add("RSIO-13", "no message of an extension before the peer lists it", "D", needs=_MIXED)
async def _not_listed(trial: Trial) -> None:
    """To a peer that lists none, and before its hello, no type of 0x40 to 0x7f is sent."""
    async with trial.connected() as probe:
        await probe.for_a_while()
        await probe.greet()
        await mixed_traffic(trial, probe)


@RULES.add(
    "RSIO-14", "semantics change by a message that declares it, not by hellos", "D", needs=_MIXED
)
async def _not_changed(trial: Trial) -> None:
    """Hellos that list ids at random change no layout."""
    async with trial.greeted((3, 1, 2, 4, 9999, 16383, 16384)) as probe:
        probe.ledger.extended = True
        await mixed_traffic(trial, probe)


@RULES.add("RSIO-15", "changed semantics wait for the acknowledgement", "D", needs=_MIXED)
async def _not_acknowledged(trial: Trial) -> None:
    """The extensions of the peer are listed, and none of their messages is answered."""
    async with trial.greeted() as probe:
        hello: Message | None = probe.ledger.hello
    numbers = hello.numbers if hello else ()
    async with trial.greeted(numbers) as probe:
        probe.ledger.extended = bool(numbers)
        await mixed_traffic(trial, probe)


@RULES.add("RSIO-16", "extensions in use are those that both list", "L", needs=_MIXED)
async def _intersection(trial: Trial) -> None:
    """Ids that the peer does not know change nothing, and it sends no messages of its own ones."""
    async with trial.greeted(_UNKNOWN) as probe:
        await mixed_traffic(trial, probe)
    async with trial.greeted(tuple(range(20_000, 20_064))) as probe:
        await probe.barrier()


@RULES.add("RSIO-17", "the first messages may follow the hello at once", "D", needs="ticks")
async def _optimistic(trial: Trial) -> None:
    """Hello, subscribe and request in one write are answered in order."""
    async with trial.connected() as probe:
        flight = octets.subscribe("ticks", 0, 1) + octets.request(0, 1)
        await probe.send(probe.hello() + flight)
        stream = probe.ledger.incoming[0]
        await probe.elements(stream, 2)
        check(stream.elements == numbers(2), f"'ticks' has the elements {stream.elements}")


@RULES.add(
    "RSIO-18",
    "messages behind the hello of another version are discarded",
    "D",
    needs="subscribers count",
)
async def _discarded(trial: Trial) -> None:
    """No subscription is made, and no answer to one is sent."""
    before = await trial.counters("count")
    async with trial.connected() as probe:
        hello = probe.hello(1) + octets.subscribe("count?n=5", 0, 5)
        await _rejects_version(probe, hello)
    after = await trial.counters("count")
    check(after.total == before.total, "a subscribe behind the other version was obeyed")


@RULES.add(
    "RSIO-19", "a server of several versions answers in that of the client", "D", roles=("server",)
)
async def _in_kind(trial: Trial) -> None:
    """It answers version 0 with 0; and with several versions it waits for clientHello."""
    async with trial.connected() as probe:
        await probe.for_a_while()
        greeted_first = probe.ledger.hello is not None
        hello = await probe.greet()
        check(hello.number == 0, f"the server answers version 0 with version {hello.number}")
    if greeted_first:
        # Then it has one version, so it refuses another one.
        async with trial.connected() as probe:
            await _rejects_version(probe, octets.client_hello(1))
