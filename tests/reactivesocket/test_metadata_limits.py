"""The limits of metadata hold for the draft too: for SETUP, requests and METADATA_PUSH."""

from __future__ import annotations

import attrs
import pytest

from rsocket_trio import ConnectionConfig, Limits, Metadata, Router
from rsocket_trio.metadata import MIME, BearerAuthentication, MetadataEntry
from rsocket_trio.reactivesocket.frames import (
    ErrorFrame,
    KeepaliveFrame,
    MetadataPushFrame,
    RequestResponseFrame,
    ResponseFrame,
    SetupFrame,
)

CONFIG = ConnectionConfig(
    limits=Limits(max_setup_size=50, max_metadata_size=40, max_metadata_entries=3)
)
SETUP = SetupFrame(
    0,
    20_000,
    90_000,
    metadata_mime_type=MIME.COMPOSITE_METADATA,
    data_mime_type=MIME.JSON,
    metadata=Metadata(auth=BearerAuthentication("me")).encode(),
)
JUNK = MetadataEntry(0x50).encode()
HEAD = Metadata(route="a").encode()


def make_router(seen):
    async def authenticate(auth, facts):
        return auth

    router = Router(authenticate=authenticate)

    @router.request_response("a")
    async def a() -> int:
        return 1

    @router.metadata_push()
    async def push(metadata: bytes) -> None:
        seen.append(len(metadata))

    return router


@pytest.mark.parametrize(
    ("setup", "text"),
    [
        (attrs.evolve(SETUP, data=bytes(50 - 7)), None),
        (attrs.evolve(SETUP, data=bytes(51 - 7)), b"more than 50 bytes of metadata and data"),
        (attrs.evolve(SETUP, metadata=JUNK * 2 + SETUP.metadata), None),
        (attrs.evolve(SETUP, metadata=JUNK * 3 + SETUP.metadata), b"more than 3 entries of meta"),
    ],
    ids=["as large", "larger", "as many", "more"],
)
async def test_a_setup_past_the_limits(draft_client, setup, text):
    """It is refused with REJECTED_SETUP."""
    assert len(SETUP.metadata) == 7
    async with draft_client(make_router([]), setup=None, config=CONFIG) as peer:
        await peer.send(setup)
        if text is None:
            await peer.expect_alive()
        else:
            error = await peer.expect_closed(0x0003)
            assert text in error.data


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        (HEAD + JUNK * 2, None),
        (HEAD + JUNK * 3, b"more than 3 entries of metadata"),
        (HEAD + MetadataEntry(0x50, bytes(40 - len(HEAD) - 4)).encode(), None),
        (HEAD + MetadataEntry(0x50, bytes(41 - len(HEAD) - 4)).encode(), b"more than 40 bytes of"),
    ],
    ids=["as many", "more", "as large", "larger"],
)
async def test_a_request_past_the_limits(draft_client, metadata, text):
    """It is refused, and the connection goes on."""
    async with draft_client(make_router([]), setup=SETUP, config=CONFIG) as peer:
        await peer.send(RequestResponseFrame(2, metadata=metadata))
        if text is None:
            assert (await peer.receive(ResponseFrame)).data == b"1"
        else:
            assert text in (await peer.receive(ErrorFrame)).data
        await peer.expect_alive()


async def test_a_metadata_push_past_the_limit(draft_client):
    """It is dropped."""
    seen = []
    async with draft_client(make_router(seen), setup=SETUP, config=CONFIG) as peer:
        entries = [MetadataEntry(0x50, bytes(size - 4)).encode() for size in (40, 41, 39)]
        await peer.send(*(MetadataPushFrame(entry) for entry in entries))
        assert await peer.drain() == []
        await peer.send(KeepaliveFrame(True, b"?"))
        await peer.receive(KeepaliveFrame)
    assert seen == [40, 39]
