"""What codecs, names and callers can do wrong at most harms their own call."""

from __future__ import annotations

import gc
import weakref
from array import array
from contextlib import suppress

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import Payload, Responder
from rsocket_trio.ttrpc import (
    BYTES,
    CallError,
    MessageCodec,
    Method,
    MethodKind,
    Service,
    StatusCode,
    TtrpcConfig,
    TtrpcLimits,
)
from rsocket_trio.ttrpc.wire.envelopes import decode_request
from tests.ttrpc.scenes import (
    CHAT,
    ECHO,
    SERVICE,
    client_of,
    client_of_stranger,
    request,
    stranger_to,
)

NUMBERS = array("I", range(50))


class Panic(BaseException):
    """As extensions in Rust raise it."""


class Misleading(bytes):
    """Its length is not its number of bytes."""

    def __len__(self) -> int:
        return 3


def codec_of(result):
    return MessageCodec(lambda _message: result, bytes, "Odd")


ODD_RESULTS = pytest.mark.parametrize(
    ("result", "sent"),
    [
        (memoryview(NUMBERS), NUMBERS.tobytes()),
        (Misleading(b"four"), b"four"),
        (bytearray(b"plain"), b"plain"),
        (NUMBERS, None),
        ("text", None),
        (5, None),
        ([1], None),
    ],
    ids=["memoryview", "subclass", "bytearray", "array", "str", "int", "list"],
)


@ODD_RESULTS
@pytest.mark.parametrize("kind", [MethodKind.UNARY, MethodKind.SERVER_STREAM])
async def test_an_answer_of_odd_bytes_is_sent_whole_or_fails_its_call_alone(
    kind, result, sent, autojump_clock
):
    service = Service(SERVICE)

    async def one(_request):
        return result

    async def some(_request):
        yield result

    odd = Method(SERVICE, "Odd", kind, BYTES, codec_of(result))
    service.add(odd, some if kind.receives_stream else one)
    plain = Method.raw(SERVICE, "Odd", kind)
    with trio.fail_after(60):
        async with client_of(service) as client:
            try:
                if kind.receives_stream:
                    async with client.server_stream(plain, b"") as replies:
                        got = [each async for each in replies]
                else:
                    got = [await client.unary(plain, b"")]
            except CallError as error:
                got = error.code
            assert got == (StatusCode.UNKNOWN if sent is None else [sent])
            with pytest.raises(CallError, match="UNIMPLEMENTED"):  # so the framing is whole
                await client.unary(ECHO, b"")


@ODD_RESULTS
async def test_a_request_of_odd_bytes_is_sent_whole_or_not_at_all(result, sent):
    odd = Method(SERVICE, "Odd", MethodKind.BIDI_STREAM, codec_of(result), BYTES)
    stream = Method(SERVICE, "Odd", MethodKind.SERVER_STREAM, codec_of(result), BYTES)
    async with client_of_stranger() as (client, stranger):
        async with client.bidi_stream(odd) as call:
            await stranger.frame()
            if sent is None:
                with pytest.raises(TypeError, match="must be bytes"):
                    await call.send("message")
            else:
                await call.send("message")
                assert (await stranger.frame()).body == sent
        assert (await stranger.frame()).is_last
        if sent is None:
            with pytest.raises(TypeError, match="must be bytes"):
                await client.unary(attrs.evolve(odd, kind=MethodKind.UNARY), "message")
        else:
            async with client.server_stream(stream, "message"):
                body = (await stranger.frame()).body
            assert decode_request(body, max_metadata=0, max_entries=0).payload == sent


async def test_a_decoder_that_panics_fails_its_call_alone():
    def panic(_data):
        raise Panic("secret")

    service = Service(SERVICE)

    async def echo(request):
        return request

    codec = MessageCodec(bytes, panic, "Odd")
    service.add(Method(SERVICE, "Bad", MethodKind.UNARY, codec, BYTES), echo)
    service.add(ECHO, echo)
    async with stranger_to(service) as stranger:
        await stranger.send(request(1, "Bad", b"x"), request(3, "Echo", b"fine"))
        refused = (await stranger.frame()).status
        assert refused.code == StatusCode.INTERNAL
        assert "secret" not in refused.message
        assert (await stranger.frame()).response.payload == b"fine"


async def test_a_name_that_is_longer_than_a_route_is_refused():
    class Anything(Responder):
        async def request_response(self, payload):
            return Payload(b"fine")

    async with stranger_to(Anything()) as stranger:
        await stranger.send(request(1, "x" * 300, b""), request(3, "Echo", b""))
        assert (await stranger.frame()).status.code == StatusCode.UNIMPLEMENTED
        assert (await stranger.frame()).response.payload == b"fine"


async def test_no_message_leaves_behind_the_end_of_its_stream():
    config = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=1))
    sent = []

    async def send(call, message):
        with suppress(trio.ClosedResourceError):
            await call.send(message)
            sent.append(message)

    async with client_of_stranger(over="lockstep", config=config) as (client, stranger):
        stranger.pause()
        async with client.bidi_stream(CHAT) as call, trio.open_nursery() as nursery:
            for each in (b"one", b"two", b"three"):
                nursery.start_soon(send, call, each)
            await trio.testing.wait_all_tasks_blocked()
            await call.end()
            stranger.resume()
        _, *messages, last = await stranger.drain()
    assert len(sent) < 3
    assert [each.body for each in messages] == sent
    assert last.is_last


@pytest.mark.parametrize("turns", [0, 1])
async def test_an_answer_that_waits_for_room_is_held_once(turns):
    class Message:
        pass

    made = []
    ready = trio.Event()

    async def answer(_request):
        await ready.wait()
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        message = Message()
        made.append(weakref.ref(message))
        return message

    service = Service(SERVICE)
    codec = MessageCodec(lambda _message: b"answer", bytes, "Message")
    service.add(Method(SERVICE, "Make", MethodKind.UNARY, BYTES, codec), answer)
    config = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=1))
    async with stranger_to(service, over="lockstep", config=config) as stranger:
        stranger.pause()
        await stranger.send(*[request(each, "Make") for each in (1, 3, 5, 7, 9)])
        await trio.testing.wait_all_tasks_blocked()  # all five handlers wait
        ready.set()
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        assert len(made) == 5
        assert not [each for each in made if each() is not None]
