"""What time data of a peer cost: the table of the limits page, by the number of calls.

Calls are counted, in Python and those that Python makes in C, and not seconds: so the figures
depend on no machine. What is quadratic within one call has tests of its own: keys with equal hashes
(tests/codecs/test_hostile.py), long integers and far exponents (tests/codecs/test_json.py), keys of
CBOR (tests/codecs/test_cbor_parts.py).
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from trio.abc import ReceiveChannel

from rsocket_trio import Payload, Rejected, Router
from rsocket_trio.codecs import DEFAULT_CODECS, CodecError, Codecs
from rsocket_trio.metadata import MIME, BearerAuthentication, Metadata
from rsocket_trio.responder import Setup
from rsocket_trio.testing import connected_pair

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "limits.md"
TITLE = "### What time data cost"
SIZE = 64 * 2**10


def calls_of(row: str) -> float:
    """Return the calls for each byte that the page allows."""
    text = PAGE.read_text(encoding="utf-8").partition(TITLE)[2].partition("\n##")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return float({data: calls for data, calls, _ in rows[2:]}[row].split()[0])


@attrs.define
class Converted:
    number: int = 1
    text: str = attrs.field(default="", converter=str)
    items: list[int] = attrs.field(factory=list)


@dataclass
class Prepared:
    number: int = 1

    def __post_init__(self):
        pass


@dataclass
class Plain:
    number: int = 1
    text: str = ""


# The smallest items of a list, in CBOR and in JSON, and what they are read as.
COSTLY = [
    (set[int], b"\x80", b"[]"),
    (Converted, b"\xa0", b"{}"),
    (Converted | None, b"\xa0", b"{}"),
    (Prepared, b"\xa0", b"{}"),
    (Plain, b"\xa0", b"{}"),
    (OrderedDict[str, int], b"\xa0", b"{}"),
    (deque[int], b"\x80", b"[]"),
    (int | str | None, b"\xf6", b"1"),
    (datetime | int, b"\x01", b"1"),
    (Decimal, b"\x01", b"1"),
    (float, b"\x01", b"1e308"),
    (tuple[int, ...] | Converted, b"\x80", b"{}"),
    (Any, b"\xe0", b"0.5"),
]


def array(mime_type: str, item: bytes, size: int, wrong: int | None = None) -> bytes:
    """Return a list of one item in about as many bytes; one place may have a text instead."""
    is_json = mime_type == MIME.JSON
    items = [item] * (size // (len(item) + is_json))
    if wrong is not None:
        items[wrong] = b'"?"' if is_json else b"\x61?"
    if is_json:
        return b"[" + b",".join(items) + b"]"
    return b"\x9a" + len(items).to_bytes(4, "big") + b"".join(items)


def count_calls(function: Any, *arguments: Any) -> int:
    count = SimpleNamespace(calls=0)

    def profile(_frame: Any, event: str, _argument: Any) -> None:
        count.calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        with suppress(CodecError):
            function(*arguments)
    finally:
        sys.setprofile(None)
    return count.calls


@pytest.mark.parametrize("wrong", [None, 0, -1])
@pytest.mark.parametrize(("annotation", "cbor", "json"), COSTLY)
@pytest.mark.parametrize("name", ["CBOR", "JSON"])
def test_the_calls_for_each_byte(name, annotation, cbor, json, wrong):
    """They are as many as the page says, and twice as many for twice the data, refused or not."""
    mime_type, item = (MIME.CBOR, cbor) if name == "CBOR" else (MIME.JSON, json)
    decode = DEFAULT_CODECS.decoder(list[annotation], mime_type)
    decode(array(mime_type, item, 100))  # to compile everything first
    found = []
    for size in (SIZE // 2, SIZE):
        data = array(mime_type, item, size, wrong)
        found.append(count_calls(decode, data) / len(data))
    assert found[1] <= calls_of(f"{name}, for a handler")
    assert found[1] <= 1.1 * found[0] + 0.01


class Watched:
    """A codec that reads nothing, and remembers that it was asked to."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def encode(self, value: object, annotation: Any) -> bytes:
        return b""

    def decode(self, data: bytes, annotation: Any) -> object:
        self.asked.append(data)
        return None


@pytest.mark.parametrize("mime_type", [MIME.CBOR, MIME.JSON])
async def test_nothing_is_read_of_a_stranger(mime_type):
    """The data of SETUP and of refused requests reach no codec, in any interaction."""
    assert calls_of("any, before the request is authenticated") == 0
    watched = Watched()

    async def authenticate(given: object, facts: object) -> str:
        if given is None and not isinstance(facts, Setup):
            raise Rejected("authentication is needed")
        return "somebody"

    router = Router(authenticate=authenticate, codecs=Codecs({mime_type: watched}))

    @router.request_response("x")
    async def answer(data: list[Plain]) -> None: ...

    @router.fire_and_forget("x")
    async def take(data: list[Plain]) -> None: ...

    @router.request_stream("x")
    async def items(data: list[Plain]) -> AsyncIterator[int]:
        yield 1

    @router.request_channel("x")
    async def channel(data: ReceiveChannel[list[Plain]]) -> AsyncIterator[int]:
        yield 1

    data = array(mime_type, b"{}" if mime_type == MIME.JSON else b"\xa0", 1000)
    metadata = Metadata(route="x").encode()
    request = Payload(data, metadata)
    setup = Payload(data)
    async with connected_pair(router, data_mime_type=mime_type, setup=setup) as requester:
        with pytest.raises(Rejected):
            await requester.request_response(request)
        await requester.fire_and_forget(request)
        for opened in (
            requester.request_stream(request),
            requester.request_channel([request]),
        ):
            with pytest.raises(Rejected):
                async with opened as stream:
                    await stream.receive()
        assert watched.asked == []
        known = Metadata(route="x", auth=BearerAuthentication("t")).encode()
        await requester.request_response(Payload(data, known))
        assert watched.asked == [data]
