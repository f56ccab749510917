"""Wrong lengths, random bytes, and clients that never finish a frame."""

from __future__ import annotations

import random
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import serve_transport
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, FrameType, SetupFrame, decode
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport


def last_word(frames: list[bytes]) -> ErrorFrame:
    """Return the ERROR on stream 0 that ended a connection."""
    error = decode(frames[-1])
    assert isinstance(error, ErrorFrame)
    assert error.stream_id == 0
    return error


async def test_a_length_beyond_the_limit(target):
    """A frame announced longer than the limit ends the connection before it is read."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            assert await raw.alive()
            await raw.stream.send_all(b"\xff\xff\xff" + b"\0\0\0\1\x10\0")
            assert last_word(await raw.frames()).code == ErrorCode.CONNECTION_ERROR


async def test_a_first_length_beyond_the_limit(target):
    """The same, before any SETUP."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.stream.send_all(b"\xff\xff\xff" + b"\0\0\0\0\4\0")
            error = last_word(await raw.frames())
            assert error.code in (ErrorCode.INVALID_SETUP, ErrorCode.CONNECTION_ERROR)


async def test_announced_frames_cost_no_memory(target):
    """No memory is reserved for a hundred clients that each announce the largest frame."""
    length = target.limits["max_frame_size"].to_bytes(3, "big")
    async with target.attacked(16 * 2**20):
        async with trio.open_nursery() as nursery:

            async def announce():
                async with target.raw() as raw:
                    await raw.setup()
                    assert await raw.alive()
                    await raw.stream.send_all(length + b"\0\0\0\1")

            for _ in range(100):
                nursery.start_soon(announce)


async def test_connections_cut_inside_a_frame(target):
    """Clients that vanish in the middle of a frame leave nothing in memory."""
    frame = SetupFrame(1, 0, 1000, 2000).encode()
    async with target.attacked(16 * 2**20):
        for size in range(len(frame)):
            async with target.raw() as raw:
                await raw.stream.send_all((b"\0\0" + bytes([len(frame)]) + frame)[: size + 3])


async def test_a_connection_that_begins_with_random_bytes(target):
    """It ends, with an ERROR or without."""
    noise = random.Random(1)
    async with target.attacked():
        for _ in range(100):
            async with target.raw() as raw:
                await raw.stream.send_all(b"\0" + noise.randbytes(200))
                await raw.stream.send_eof()
                for frame in await raw.frames():
                    assert last_word([frame]).code in (
                        ErrorCode.INVALID_SETUP,
                        ErrorCode.CONNECTION_ERROR,
                        ErrorCode.REJECTED_RESUME,
                        ErrorCode.REJECTED_SETUP,
                        ErrorCode.UNSUPPORTED_SETUP,
                    )


async def test_random_frames_after_a_good_setup(target):
    """They are ignored, or answered by ERROR, or by the answer they ask for."""
    noise = random.Random(2)
    types = [int(frame_type) for frame_type in FrameType] + [0, 0x0F, 0x3E]
    async with target.attacked():
        for _ in range(100):
            async with target.raw() as raw:
                await raw.setup()
                for _ in range(50):
                    stream_id = noise.choice([0, 1, 2, 3, 5, 2**31 - 1, 2**31])
                    header = stream_id.to_bytes(4, "big") + (
                        noise.choice(types) << 10 | noise.getrandbits(10)
                    ).to_bytes(2, "big")
                    try:
                        await raw.send(header + noise.randbytes(noise.choice([0, 3, 8, 40])))
                    except trio.BrokenResourceError:
                        break
                if not await raw.alive():
                    # The connection ended with an ERROR, or the random frame was CONNECTION_CLOSE.
                    continue
                # The connection is alive: then it still serves.
                await raw.send(bytes.fromhex("0000000b1000") + b"sane?")
                while (frame := await raw.frame()) is not None:
                    if frame == bytes.fromhex("0000000b2860") + b"sane?":
                        break
                else:
                    pytest.fail("the connection ended before its answer")


async def drip(stream, data: bytes, every: float) -> None:
    for at in range(len(data)):
        await trio.sleep(every)
        try:
            await stream.send_all(data[at : at + 1])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


@pytest.mark.parametrize("sends", [b"", b"\0\0\x28\0\0\0\0"], ids=["nothing", "a byte a second"])
async def test_a_setup_that_never_comes(sends, autojump_clock):
    """A silent client and a slow SETUP end in the same way: INVALID_SETUP at setup_timeout."""
    client, server = trio.testing.memory_stream_pair()
    transport = ByteStreamTransport(server, info=TransportInfo(scheme="tcp"))
    start = trio.current_time()
    answer = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_transport, KnownAnswers(), transport))
        nursery.start_soon(drip, client, sends * 3, 1)
        while more := await client.receive_some():
            answer += more
        assert 10 <= trio.current_time() - start <= 15
        await client.aclose()
    assert last_word([answer[3:]]).code == ErrorCode.INVALID_SETUP


async def test_silent_connections_are_ended(target):
    """Hundreds of silent clients are all refused, and no other client waits for them."""
    ended = []

    async def say_nothing():
        async with target.raw() as raw:
            ended.append(last_word(await raw.frames()).code)

    async with target.attacked(32 * 2**20):
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(say_nothing)
    assert ended == [ErrorCode.INVALID_SETUP] * 200
