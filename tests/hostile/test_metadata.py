"""Metadata of as many entries as fit, before and after authentication."""

from __future__ import annotations

import pytest

from rsocket_trio import Metadata
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.metadata import MIME, MetadataEntry

EMPTY = MetadataEntry(0x50).encode()
HEAD = Metadata(route="metadata").encode()
MOST = 2**20 - 20
"""Bytes of metadata that fit a frame, and the limit of a request."""

PARTS = {
    "entries": HEAD + EMPTY * ((MOST - len(HEAD)) // 4),
    "tags": MetadataEntry(MIME.ROUTING, b"\1a" + bytes(MOST - 10)).encode(),
    "types": HEAD + MetadataEntry(MIME.ACCEPT_MIME_TYPES, b"\xd0" * (MOST - 50)).encode(),
    "large": HEAD + MetadataEntry(0x50, bytes(MOST - 50)).encode(),
    "secret": HEAD + MetadataEntry(MIME.AUTHENTICATION, b"\x81" + b"x" * (MOST - 50)).encode(),
}


def setup(metadata=None):
    return SetupFrame(
        1,
        0,
        500,
        90_000,
        metadata_mime_type=MIME.COMPOSITE_METADATA,
        data_mime_type=MIME.JSON,
        metadata=metadata,
    )


async def test_setups_full_of_entries(target):
    """They are refused for their size or for their number, a hundred times."""
    async with target.attacked():
        for size in [2**18] * 80 + [MOST - 100] * 20:
            entry = b"\xd0\0\0\0" if size % 3 else b"\0x\0\0\0"
            async with target.raw() as raw:
                await raw.send(setup(entry * (size // len(entry))))
                [frame] = await raw.frames()
                error = decode(frame)
                assert isinstance(error, ErrorFrame)
                assert error.code == ErrorCode.REJECTED_SETUP
                assert b"(max_" in error.data


@pytest.mark.parametrize("parts", PARTS)
async def test_requests_full_of_entries(target, parts):
    """A hundred requests with a MiB of metadata each: each is answered or refused."""
    metadata = PARTS[parts]
    half = len(metadata) // 2
    async with target.attacked():
        async with target.raw() as raw:
            await raw.send(setup())
            for stream_id in range(1, 200, 2):
                if stream_id % 4 == 1:
                    await raw.send(RequestResponseFrame(stream_id, metadata=metadata))
                else:
                    await raw.send(
                        RequestResponseFrame(stream_id, metadata=metadata[:half], follows=True),
                        PayloadFrame(stream_id, next=True, follows=True, metadata=metadata[half:]),
                        PayloadFrame(stream_id, next=True, follows=True, data=b"?"),
                        PayloadFrame(stream_id, next=True, data=b"?"),
                    )
                answer = decode(await raw.frame())
                assert answer.stream_id == stream_id
                if isinstance(answer, ErrorFrame):
                    assert answer.code in (ErrorCode.INVALID, ErrorCode.REJECTED)
            assert await raw.alive()


async def test_messages_full_of_entries(target):
    """The same without answers: fire_and_forget and METADATA_PUSH, by the hundred."""
    metadata = PARTS["entries"]
    async with target.attacked():
        async with target.raw() as raw:
            await raw.send(setup())
            for stream_id in range(1, 200, 2):
                await raw.send(RequestFnfFrame(stream_id, metadata=metadata))
                await raw.send(MetadataPushFrame(EMPTY * (MOST // 4)))
            assert await raw.alive()
