"""Clients that are not accepted yet: what they send is bounded from its first bytes on."""

from __future__ import annotations

import pytest
import trio
from wsproto.events import BytesMessage

from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, RequestResponseFrame, SetupFrame, decode

from .test_websocket_attacks import websocket

MIB = 2**20
STRANGERS = 60
FRAME = MIB - 100
"""The length of a frame that the server's `max_frame_size` allows, and its `max_setup_size` not."""

TOO_LARGE = b"more than 262144 bytes of metadata and data (max_setup_size)"


async def send_all(stream, data: bytes) -> None:
    """Send in parts, as far as the server takes them."""
    for start in range(0, len(data), 65536):
        try:
            await stream.send_all(data[start : start + 65536])
        except trio.BrokenResourceError:
            return


def large_setup() -> bytes:
    """A SETUP frame that is not whole: its last byte is missing."""
    bare = SetupFrame(1, 0, 500, 90_000).encode()
    return bare + bytes(FRAME - len(bare) - 1)


async def by_tcp(target) -> None:
    async with target.raw() as raw:
        await send_all(raw.stream, FRAME.to_bytes(3, "big") + large_setup())
        error = decode(await raw.frame())
        assert (error.code, error.data) == (ErrorCode.REJECTED_SETUP, TOO_LARGE)
        assert await raw.frame() is None


async def by_websocket(target) -> None:
    async with websocket(target) as raw:
        await send_all(raw.stream, raw.ws.send(BytesMessage(data=large_setup())))
        error, code = await raw.last_word()
        assert (error.code, error.data, code) == (ErrorCode.REJECTED_SETUP, TOO_LARGE, 1009)


async def by_parts_of_a_message(target) -> None:
    """No length is announced: the parts are counted."""
    data = large_setup()
    async with websocket(target) as raw:
        for start in range(0, len(data), 32768):
            part = BytesMessage(data=data[start : start + 32768], message_finished=False)
            await send_all(raw.stream, raw.ws.send(part))
        error, code = await raw.last_word()
        assert (error.code, error.data, code) == (ErrorCode.REJECTED_SETUP, TOO_LARGE, 1009)


async def by_the_draft(target) -> None:
    head = (FRAME + 4).to_bytes(4, "big") + b"\x00\x01" + bytes(6)
    async with target.raw() as raw:
        await send_all(raw.stream, head + bytes(FRAME - 9))
        answer = b""
        while data := await raw.stream.receive_some():
            answer += data
        assert TOO_LARGE in answer


@pytest.mark.parametrize("attack", [by_tcp, by_websocket, by_parts_of_a_message, by_the_draft])
async def test_a_setup_without_end(target, attack):
    """A SETUP over its limit is refused by its length; the reason arrives, and no bytes stay.

    The frames of these strangers are as long as `max_frame_size` allows, and 60 MiB together.
    """
    async with target.attacked(32 * MIB):
        async with trio.open_nursery() as nursery:
            for _ in range(STRANGERS):
                nursery.start_soon(attack, target)


async def test_a_setup_of_the_largest_size_and_a_large_request_behind_it(target):
    """What fits is accepted, also if a longer frame arrives in the same read."""
    limit = 256 * 2**10
    request = RequestResponseFrame(1, data=bytes(limit + 70_000))
    setup = SetupFrame(1, 0, 500, 90_000, data=bytes(limit), data_mime_type="a" * 255)
    small = SetupFrame(1, 0, 500, 90_000)
    for first in (setup, small):
        async with target.raw() as raw:
            await raw.send(first, request)
            answer = decode(await raw.frame())
            assert not isinstance(answer, ErrorFrame)
