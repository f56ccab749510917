"""Limits on metadata: of a request, whole or in fragments, of METADATA_PUSH and of SETUP."""

from __future__ import annotations

import logging

import pytest
import trio

from rsocket_trio import ConnectionConfig, Limits, Payload, Responder
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    FrameType,
    KeepaliveFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    SetupFrame,
)
from rsocket_trio.testing.in_memory import frame_peer_client

CONFIG = ConnectionConfig(
    limits=Limits(max_metadata_size=10, max_setup_size=20, max_requests_size=50)
)
TEXT = b"more than 10 bytes of metadata (max_metadata_size)"
KINDS = {
    "request_response": lambda **fields: RequestResponseFrame(1, **fields),
    "request_stream": lambda **fields: RequestStreamFrame(1, 1, **fields),
    "request_channel": lambda **fields: RequestChannelFrame(1, 1, **fields),
    "fire_and_forget": lambda **fields: RequestFnfFrame(1, **fields),
}


class Noting(Responder):
    """Notes the metadata it gets, and its calls of `body_responder`."""

    def __init__(self):
        self.seen = []
        self.asked = []

    async def accept(self, setup, requester):
        self.seen.append(setup.metadata)
        return self

    def body_responder(self, interaction, metadata):
        self.asked.append(metadata)

    async def request_response(self, payload):
        self.seen.append(payload.metadata)
        if payload.data.startswith(b"wait"):
            await trio.sleep_forever()
        return payload

    async def fire_and_forget(self, payload):
        self.seen.append(payload.metadata)

    async def request_stream(self, payload):
        self.seen.append(payload.metadata)
        yield payload

    async def request_channel(self, payload, payloads):
        self.seen.append(payload.metadata)
        async for item in payloads:
            self.seen.append(item.metadata)
            yield item

    async def metadata_push(self, metadata):
        self.seen.append(metadata)


def in_one(request, metadata):
    return [request(metadata=metadata, data=b"data")]


def in_fragments(request, metadata):
    """The metadata in three fragments, and the data in two."""
    return [
        request(metadata=metadata[:4], follows=True),
        PayloadFrame(1, next=True, follows=True, metadata=metadata[4:9]),
        PayloadFrame(1, next=True, follows=True, metadata=metadata[9:], data=b"da"),
        PayloadFrame(1, next=True, data=b"ta"),
    ]


@pytest.mark.parametrize("size", [10, 11])
@pytest.mark.parametrize("sent", [in_one, in_fragments], ids=["whole", "fragments"])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_metadata_of_a_request(kind, sent, size, caplog):
    """Exactly the limit is accepted; a byte more makes the request INVALID, or dropped."""
    metadata = b"0123456789a"[:size]
    handlers = Noting()
    async with frame_peer_client(handlers, config=CONFIG) as peer:
        await peer.send(*sent(KINDS[kind], metadata))
        if size == 11 and kind != "fire_and_forget":
            error = await peer.receive(ErrorFrame)
            assert (error.stream_id, error.code, error.data) == (1, ErrorCode.INVALID, TEXT)
        await peer.send(RequestResponseFrame(3, data=b"next", metadata=b"3"))
        while (frame := await peer.receive()).stream_id != 3:
            pass  # the answer to the first request
        assert frame.data == b"next"
        assert (metadata in handlers.seen) is (size == 10)
        assert (TEXT.decode() in caplog.text) is (size == 11 and kind == "fire_and_forget")
        await peer.send(CancelFrame(1))


@pytest.mark.parametrize("size", [10, 11])
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"request_channel"}))
async def test_the_metadata_of_a_request_that_is_read_while_it_arrives(kind, size, caplog):
    """Past the limit a responder that takes bodies is not even asked."""

    class Reading(Noting):
        def body_responder(self, interaction, metadata):
            super().body_responder(interaction, metadata)
            return self

        async def read(self, body):
            self.seen.append(body.metadata)
            return Payload(b"".join([chunk async for chunk in body]))

        request_response = fire_and_forget = read

        async def request_stream(self, body):
            yield await self.read(body)

    metadata = b"0123456789a"[:size]
    handlers = Reading()
    async with frame_peer_client(handlers, config=CONFIG) as peer:
        *begin, last = in_fragments(KINDS[kind], metadata)
        # Metadata behind data has no meaning; a body does not keep it, however much there is.
        late = PayloadFrame(1, next=True, follows=True, metadata=bytes(20))
        await peer.send(*begin, *[late] * 20, last)
        if kind != "fire_and_forget":
            answer = await peer.receive()
            assert answer.data == (b"data" if size == 10 else TEXT)
        if (kind, size) == ("request_stream", 10):
            assert (await peer.receive(PayloadFrame)).complete
        await peer.expect_nothing()
        assert handlers.asked == ([metadata] if size == 10 else [])
        assert handlers.seen == [None, metadata][: 12 - size]
        assert (TEXT.decode() in caplog.text) is (size == 11 and kind == "fire_and_forget")


async def test_other_payloads_have_no_such_limit():
    """The items of a channel and their fragments may have metadata of any size."""
    handlers = Noting()
    async with frame_peer_client(handlers, config=CONFIG) as peer:
        await peer.send(RequestChannelFrame(1, 3, data=b"1"))
        await peer.send(
            PayloadFrame(1, next=True, metadata=bytes(20)),
            PayloadFrame(1, next=True, follows=True, metadata=bytes(15)),
            PayloadFrame(1, next=True, complete=True, metadata=bytes(15)),
        )
        assert (await peer.receive()).frame_type is FrameType.REQUEST_N
        received = [await peer.receive(PayloadFrame) for _ in range(3)]
        assert [len(frame.metadata or b"") for frame in received] == [0, 20, 30]


async def test_the_metadata_of_a_metadata_push(caplog):
    """Exactly the limit is accepted; a longer one is dropped, and logged once."""
    handlers = Noting()
    async with frame_peer_client(handlers, config=CONFIG) as peer:
        with caplog.at_level(logging.WARNING):
            await peer.send(*(MetadataPushFrame(bytes(size)) for size in (10, 11, 11, 9)))
            await peer.expect_nothing()
        assert handlers.seen == [None, bytes(10), bytes(9)]
        assert caplog.text.count("metadata_push dropped") == 1
        assert "max_metadata_size" in caplog.text


@pytest.mark.parametrize(
    ("metadata", "data", "refused"),
    [
        (bytes(20), b"", False),
        (bytes(10), bytes(10), False),
        (None, bytes(20), False),
        (bytes(21), b"", True),
        (bytes(10), bytes(11), True),
        (None, bytes(21), True),
    ],
)
async def test_the_metadata_of_a_setup(metadata, data, refused):
    """Metadata and data count together; past the limit SETUP is refused with REJECTED_SETUP."""
    handlers = Noting()
    async with frame_peer_client(handlers, setup=False, config=CONFIG) as peer:
        await peer.send(
            SetupFrame(1, 0, 1000, 2000, metadata=metadata, data=data),
            KeepaliveFrame(respond=True, data=b"?"),
        )
        if refused:
            error = await peer.receive(ErrorFrame)
            assert (error.stream_id, error.code) == (0, ErrorCode.REJECTED_SETUP)
            assert error.data == b"more than 20 bytes of metadata and data (max_setup_size)"
            assert handlers.seen == []
        else:
            assert (await peer.receive(KeepaliveFrame)).data == b"?"
            assert handlers.seen == [metadata]


async def test_the_metadata_of_a_request_that_is_not_admitted_is_not_read():
    """Without room for the request, fragmented or not, the responder is not asked about bodies."""
    handlers = Noting()
    async with frame_peer_client(handlers, config=CONFIG) as peer:
        await peer.send(RequestResponseFrame(1, data=b"wait" + bytes(40)))
        parts = [
            RequestResponseFrame(3, metadata=b"m", data=b"1234567", follows=True),
            PayloadFrame(3, next=True, data=b"8"),
        ]
        await peer.send(*parts)
        error = await peer.receive(ErrorFrame)
        assert (error.stream_id, error.code) == (3, ErrorCode.REJECTED)
        assert handlers.asked == []
        await peer.send(CancelFrame(1))
        await peer.expect_nothing()
        await peer.send(*parts)
        assert (await peer.receive(PayloadFrame)).data == b"12345678"
        assert handlers.asked == [b"m"]
