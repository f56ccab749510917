"""Classes of the application that raise odd exceptions while they are read or written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.abc import ReceiveChannel

from rsocket_trio import Caller, Codecs, Metadata, Payload, Requester, Router
from rsocket_trio.errors import ApplicationError, Invalid, StreamError
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.testing import connected_pair


class Odd(BaseException):
    """No Exception."""


async def foreign_cancellation() -> BaseException:
    """A cancellation that was caught elsewhere."""
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            caught = error
            raise
    return caught


async def made(kind: type[BaseException]) -> BaseException:
    if kind is trio.Cancelled:
        return await foreign_cancellation()
    return kind("odd", [Odd()]) if issubclass(kind, BaseExceptionGroup) else kind()


raised: list[BaseException] = []


def fail(*_: object) -> Any:
    raise raised[-1]


@attrs.frozen
class WithPostInit:
    number: int

    def __attrs_post_init__(self) -> None:
        fail()


@dataclass
class DataWithPostInit:
    number: int

    def __post_init__(self) -> None:
        fail()


@attrs.frozen
class WithValidator:
    number: int = attrs.field(validator=fail)


@attrs.frozen
class WithConverter:
    number: int = attrs.field(converter=fail)


@attrs.frozen(eq=False)
class WithHash:
    number: int

    def __hash__(self) -> int:
        return fail()


@dataclass
class Unreadable:
    number: int

    def __getattribute__(self, name: str) -> Any:
        return fail() if name == "number" else object.__getattribute__(self, name)


class OddCodec:
    """JSON, but 13 cannot be read or written."""

    def encode(self, value: Any, annotation: Any) -> bytes:
        return fail() if value == 13 else json.dumps(value).encode()

    def decode(self, data: bytes, annotation: Any) -> object:
        return fail() if data == b"13" else json.loads(data)


def make_router() -> Router:
    router = Router()

    def reads(kind: Any) -> None:
        async def read(value: kind) -> int:
            return 1

        read.__annotations__ = {"value": kind, "return": int}
        router.request_response(f"read {kind.__name__}")(read)

        async def items(values: ReceiveChannel[kind]) -> AsyncIterable[int]:
            async for _ in values:
                yield 1

        items.__annotations__ = {"values": ReceiveChannel[kind], "return": AsyncIterable[int]}
        router.request_channel(f"read {kind.__name__}")(items)

    for kind in (WithPostInit, DataWithPostInit, WithValidator, WithConverter):
        reads(kind)

    @router.request_response("read set")
    async def read_set(values: set[WithHash]) -> int:
        return len(values)

    @router.request_response("write")
    async def write() -> Unreadable:
        return object.__new__(Unreadable)

    @router.request_stream("write")
    async def write_stream() -> AsyncIterable[Unreadable]:
        yield object.__new__(Unreadable)

    @router.request_response("usual")
    async def usual(value: int) -> int:
        await trio.sleep(0.01)
        return value

    special = Router(codecs=Codecs({MIME.JSON: OddCodec()}))

    @special.request_response("codec")
    async def codec(value: int) -> int:
        return value

    @special.request_response("codec writes")
    async def codec_writes(value: int) -> int:
        return 13

    router.include(special)
    return router


Ask = Callable[[Requester], Any]


def response(route: str, data: bytes = b'{"number":1}') -> Ask:
    return lambda requester: requester.request_response(Payload(data), route=route)


def stream(route: str) -> Ask:
    async def ask(requester: Requester) -> None:
        async with requester.request_stream(Payload(b""), route=route) as items:
            async for _ in items:
                pass

    return ask


def channel(route: str) -> Ask:
    async def ask(requester: Requester) -> None:
        source = [Payload(b'{"number":1}', Metadata(route=route).encode())]
        async with requester.request_channel(source) as items:
            async for _ in items:
                pass

    return ask


NAMES = ("WithPostInit", "DataWithPostInit", "WithValidator", "WithConverter")
ASKS: dict[str, Ask] = {
    **{f"response {name}": response(f"read {name}") for name in NAMES},
    **{f"channel {name}": channel(f"read {name}") for name in NAMES},
    "response set": response("read set", b'[{"number":1},{"number":2}]'),
    "response written": response("write", b""),
    "stream written": stream("write"),
    "codec": response("codec", b"13"),
    "codec writes": response("codec writes", b"1"),
}
ENDING = (KeyboardInterrupt, SystemExit)
CONTAINED = (
    *(Odd, GeneratorExit, StopIteration, StopAsyncIteration, RecursionError, MemoryError),
    *(trio.Cancelled, BaseExceptionGroup, trio.EndOfChannel, trio.ClosedResourceError),
)


@pytest.mark.parametrize("kind", CONTAINED)
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
async def test_only_its_own_stream_ends(ask: Ask, kind: type[BaseException]) -> None:
    """It gets INVALID or APPLICATION_ERROR; other requests of the connection are answered."""
    raised[:] = [await made(kind)]
    answers: list[object] = []
    async with connected_pair(make_router(), data_mime_type=MIME.JSON) as requester:

        async def ask_usual() -> None:
            answers.append(await Caller(requester).request_response("usual", 5, returns=int))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_usual)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(StreamError) as caught:
                await ask(requester)
            assert isinstance(caught.value, Invalid | ApplicationError)
        await ask_usual()
    assert answers == [5, 5]


@pytest.mark.parametrize("kind", ENDING)
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
async def test_the_program_ends(ask: Ask, kind: type[BaseException]) -> None:
    """KeyboardInterrupt and SystemExit are for the program, also from a class that is read."""
    raised[:] = [kind()]
    with pytest.raises(kind):
        async with connected_pair(make_router(), data_mime_type=MIME.JSON) as requester:
            await ask(requester)
