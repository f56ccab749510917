"""Messages of betterproto are messages like those of protobuf."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self

import attrs
import pytest
import trio
import trio.testing
from trio.abc import ReceiveChannel

from rsocket_trio import ttrpc


@attrs.define
class Word:
    """A class with the methods that classes of betterproto have: ``bytes(m)``, ``parse``, ..."""

    text: str = ""

    def __bytes__(self) -> bytes:
        return self.text.encode()

    def SerializeToString(self) -> bytes:  # noqa: N802  the name that protobuf has
        return bytes(self)

    def parse(self, data: bytes) -> Self:
        self.text = data.decode()
        return self

    @classmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802  the name that protobuf has
        return cls().parse(data)


service = ttrpc.Service("test.Words")


@service.method("Upper")
async def upper(request: Word) -> Word:
    return Word(request.text.upper())


@service.method("Each")
async def each(words: ReceiveChannel[Word]) -> AsyncIterator[Word]:
    async for word in words:
        yield Word(word.text[::-1])


async def test_a_message_class_without_protobuf() -> None:
    """Such a class is found by its methods, in annotations and in `codec_for`."""
    codec = ttrpc.codec_for(Word)
    one = ttrpc.Method("test.Words", "Upper", ttrpc.MethodKind.UNARY, codec, codec)
    many = ttrpc.Method("test.Words", "Each", ttrpc.MethodKind.BIDI_STREAM, codec, codec)
    here, there = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ttrpc.serve_stream, service, there)
        async with ttrpc.connect(here) as client:
            assert await client.unary(one, Word("a")) == Word("A")
            async with client.bidi_stream(many) as call:
                await call.send(Word("abc"))
                assert await call.receive() == Word("cba")


def test_betterproto() -> None:
    """Generated classes of betterproto work as they are."""
    betterproto = pytest.importorskip("betterproto", reason="betterproto is not installed")
    from dataclasses import dataclass

    @dataclass
    class Text(betterproto.Message):  # type: ignore[name-defined, misc]  # perhaps not installed
        value: str = betterproto.string_field(1)

    codec = ttrpc.codec_for(Text)
    assert codec.encode(Text("a")) == b"\n\x01a"
    assert codec.decode(b"\n\x01a") == Text("a")
