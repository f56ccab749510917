"""A ttrpc server with known answers, for tests of other implementations: `app`.

``rsocket-trio ttrpc serve rsocket_trio.testing.ttrpc_peer:app --listen ttrpc+tcp://127.0.0.1:0``

The service is ``ttrpc.integration.streaming.Streaming``, which the tests of the Go implementation
use, with messages that need no protobuf package:

    EchoPayload {1 seq uint32, 2 msg string}    Part {1 add int32}    Sum {1 sum int32, 2 num int32}

- ``Echo`` answers ``seq + 1`` and the ``msg``. These are special: ``deadline`` (answers
  ``dl=MILLISECONDS`` left, or ``nodl``), ``md`` (the metadata as text), ``sleep`` (3 seconds),
  ``err`` (UNKNOWN, ``plain error``), ``big`` (5 MiB of ``x``).
- ``EchoStream`` answers each message with ``seq + 1``; ``err`` fails the stream.
- ``SumStream`` answers the sum and the number of parts; ``DivideStream`` sends ``num`` times
  ``sum / num``.
- ``EchoNull`` and ``EchoNullStream`` answer Empty; ``EmptyPayloadStream`` sends ``seq`` 1 and 2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import inf
from typing import Any, ClassVar, Final, Self, TypeAlias

import attrs
import trio
from trio.abc import ReceiveChannel

from ..ttrpc import Call, CallError, Metadata, Service
from ..ttrpc.wire.protobuf import FieldReader, field, varint

__all__ = [
    "EchoPayload",
    "Part",
    "Sum",
    "app",
]

SERVICE: Final = "ttrpc.integration.streaming.Streaming"
_BIG: Final = 5 * 2**20
_SLEEP: Final = 3.0


_Fields: TypeAlias = dict[int, tuple[str, bool]]
"""Name of each field by its number, and whether it is text."""


class _Message:
    """A message of numbers and text."""

    FIELDS: ClassVar[_Fields] = {}

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf has
        """Return the message as bytes."""
        parts = []
        for number, (name, is_text) in self.FIELDS.items():
            value: Any = getattr(self, name)
            if value and is_text:
                parts.append(field(number, value.encode()))
            elif value:
                parts.append(varint(number << 3) + varint(value))
        return b"".join(parts)

    @classmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802 - the name that protobuf has
        """Read a message from bytes.

        Raises:
            MalformedFrame: They are none.
        """
        reader = FieldReader(data, cls.__name__, 100)
        message = cls()
        while number := reader.next():
            name, is_text = cls.FIELDS.get(number, ("", False))
            if not name:
                reader.skip()
            elif is_text:
                setattr(message, name, reader.text(name))
            else:
                setattr(message, name, reader.int32(name))
        return message


@attrs.define
class EchoPayload(_Message):
    """A number and a text."""

    FIELDS: ClassVar[_Fields] = {1: ("seq", False), 2: ("msg", True)}

    seq: int = 0
    msg: str = ""


@attrs.define
class Part(_Message):
    """A number to add."""

    FIELDS: ClassVar[_Fields] = {1: ("add", False)}

    add: int = 0


@attrs.define
class Sum(_Message):
    """A sum, and the number of its parts."""

    FIELDS: ClassVar[_Fields] = {1: ("sum", False), 2: ("num", False)}

    sum: int = 0
    num: int = 0


app = Service(SERVICE)
"""The service."""


@app.method("Echo")
async def _echo(request: EchoPayload, call: Call) -> EchoPayload:
    """Answer ``seq + 1``, and the text or what it asks for."""
    msg = request.msg
    if msg == "deadline":
        left = call.deadline - trio.current_time()
        msg = "nodl" if left == inf else f"dl={int(left * 1000)}"
    elif msg == "md":
        msg = _as_go_prints(call.pairs)
    elif msg == "sleep":
        await trio.sleep(_SLEEP)
    elif msg == "err":
        raise CallError("plain error")
    elif msg == "big":
        msg = "x" * _BIG
    return EchoPayload(request.seq + 1, msg)


@app.method("EchoStream")
async def _echo_stream(requests: ReceiveChannel[EchoPayload]) -> AsyncIterator[EchoPayload]:
    """Answer each message with ``seq + 1``."""
    async for request in requests:
        if request.msg == "err":
            raise CallError("stream err")
        yield EchoPayload(request.seq + 1, request.msg)


@app.method("SumStream")
async def _sum_stream(parts: ReceiveChannel[Part]) -> Sum:
    """Answer the sum of all parts, and their number."""
    total = Sum()
    async for part in parts:
        total.sum += part.add
        total.num += 1
    return total


@app.method("DivideStream")
async def _divide_stream(request: Sum) -> AsyncIterator[Part]:
    """Send ``num`` parts whose sum is about ``sum``."""
    for _ in range(request.num):
        yield Part(request.sum // request.num)


@app.method("EchoNull")
async def _echo_null(requests: ReceiveChannel[EchoPayload]) -> None:
    """Take all messages, and answer without content."""
    async for _ in requests:
        pass


@app.method("EchoNullStream")
async def _echo_null_stream(requests: ReceiveChannel[EchoPayload]) -> AsyncIterator[None]:
    """Answer each message without content."""
    async for _ in requests:
        yield None


@app.method("EmptyPayloadStream")
async def _empty_payload_stream(_request: None) -> AsyncIterator[EchoPayload]:
    """Send ``seq`` 1 and 2."""
    yield EchoPayload(1)
    yield EchoPayload(2)


def _as_go_prints(metadata: Metadata) -> str:
    """Return metadata as Go prints a map: ``map[K:[1] k:[2 3]]``."""
    values: dict[str, list[str]] = {}
    for key, value in metadata:
        values.setdefault(key, []).append(value)
    return f"map[{' '.join(f'{key}:[{chr(32).join(values[key])}]' for key in sorted(values))}]"
