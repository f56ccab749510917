"""The rules of the draft (V0-*) on frames, stream ids and errors, with raw frames."""

from __future__ import annotations

import pytest

from rsocket_trio import (
    ApplicationError,
    Canceled,
    CustomError,
    Payload,
    Rejected,
    Responder,
)
from rsocket_trio.errors import ClosedByPeer
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    MetadataPushFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
    SetupFrame,
    encode_length,
)

SETUP = SetupFrame(0, 20_000, 90_000)


# -- framing and metadata ---------------------------------------------------------------------


async def test_messages_have_no_length(draft_client):
    """V0-FRAME-01: transports that keep messages apart carry no length."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(2, data=b"x"))
        (answer,) = await peer.transport.receive_frames()
        assert answer == ResponseFrame(2, complete=True, data=b"x").encode()


async def test_messages_with_a_length_are_answered_with_one(draft_client):
    """V0-FRAME-01, D.3 no. 2: a client that sends lengths gets them too."""
    async with draft_client(setup=None) as peer:
        setup = SETUP.encode()
        request = RequestResponseFrame(2, data=b"x").encode()
        await peer.send(encode_length(setup) + setup, encode_length(request) + request)
        (answer,) = await peer.transport.receive_frames()
        expected = ResponseFrame(2, complete=True, data=b"x").encode()
        assert answer == encode_length(expected) + expected


async def test_undefined_flags_are_ignored(draft_client):
    """V0-FRAME-03: undefined flag bits have no effect."""
    async with draft_client() as peer:
        await peer.send(bytes.fromhex("00043fff 00000002 78"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")


async def test_unknown_types_are_skipped_or_end_the_connection(draft_client):
    """V0-FRAME-06: an unknown type is skipped with the I flag; without, it ends the connection."""
    async with draft_client() as peer:
        await peer.send(ExtFrame(0, 7, ignore=True), bytes.fromhex("000e8000 00000000"))
        await peer.expect_alive()
        await peer.send(ExtFrame(0, 7))
        await peer.expect_closed(0x101)
    async with draft_client() as peer:
        await peer.send(bytes.fromhex("000e0000 00000000"))
        await peer.expect_closed(0x101)


@pytest.mark.parametrize("length", ["80000009", "0000000a", "00000003", "00000000"])
async def test_an_impossible_metadata_length(draft_client, length):
    """V0-META-02, V0-META-03: the whole frame is ignored, and no other."""
    async with draft_client() as peer:
        frame = bytes.fromhex(f"0004400000000002 {length} 7879797978")
        await peer.send(frame, RequestResponseFrame(2, data=b"x"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")
        await peer.expect_alive()


async def test_empty_metadata(draft_client):
    """V0-META-01, D.3 no. 12: a metadata length of 4 is read, and never sent."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(2, metadata=b"", data=b"x"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"x")


async def test_frames_past_the_maximum(draft_client):
    """A message longer than the engine's largest frame ends the connection."""
    async with draft_client() as peer:
        await peer.send(RequestFnfFrame(2, data=bytes(0xFFFFFF - 8)))
        await peer.expect_closed(0x101)


# -- stream ids -------------------------------------------------------------------------------


@pytest.mark.parametrize("stream_id", [1, 2, 3, 77, 2**31, 2**32 - 1])
async def test_any_stream_id_of_a_client_is_accepted(draft_client, stream_id):
    """V0-SID-03, D.3 no. 4: parity is not checked, and all 32 bits count."""
    async with draft_client() as peer:
        await peer.send(RequestResponseFrame(stream_id, data=b"x"))
        assert await peer.receive() == ResponseFrame(stream_id, complete=True, data=b"x")


async def test_ids_may_be_used_again(draft_client):
    """V0-SID-04: a finished id may come again, also after CANCEL."""
    async with draft_client() as peer:
        for data in (b"a", b"b"):
            await peer.send(RequestResponseFrame(2, data=data))
            assert await peer.receive() == ResponseFrame(2, complete=True, data=data)
        await peer.send(RequestResponseFrame(2, data=b"never"), CancelFrame(2))
        await peer.send(RequestResponseFrame(2, data=b"c"))
        assert await peer.receive() == ResponseFrame(2, complete=True, data=b"c")


async def test_a_request_on_an_id_in_use_is_ignored(draft_client):
    """V0-SID-02, V0-UNX-07: this holds for every type."""
    async with draft_client() as peer:
        await peer.send(RequestStreamFrame(2, 1, data=b"5"))
        assert (await peer.receive()).data == b"0"
        await peer.send(
            RequestResponseFrame(2, data=b"x"),
            RequestFnfFrame(2, data=b"x"),
            RequestStreamFrame(2, 5, data=b"5"),
            RequestSubFrame(2, 5, data=b"5"),
            RequestChannelFrame(2, 5, data=b"5"),
        )
        await peer.expect_alive()
        await peer.send(RequestNFrame(2, 1))
        assert await peer.receive() == ResponseFrame(2, data=b"1")
        await peer.send(RequestResponseFrame(4, data=b"last-fnf"))
        assert (await peer.receive()).data == b""


async def test_requests_on_stream_0_are_ignored(draft_client):
    """V0-SID-01: stream 0 belongs to the connection."""
    async with draft_client() as peer:
        await peer.send(
            RequestResponseFrame(0, data=b"x"),
            RequestStreamFrame(0, 1, data=b"1"),
            RequestChannelFrame(0, 1, data=b"x"),
        )
        await peer.expect_alive()


async def test_a_client_sends_even_ids(draft_server):
    """V0-SID-03: our requests begin at 2 and go up in steps of 2."""

    async def use(requester):
        for _ in range(3):
            await requester.fire_and_forget(Payload(b"x"))

    async with draft_server(use) as peer:
        ids = [(await peer.receive(RequestFnfFrame)).stream_id for _ in range(3)]
        assert ids == [2, 4, 6]


class Asks(Responder):
    """Sends each request back to the client."""

    def __init__(self, requester):
        self.requester = requester

    async def request_response(self, payload):
        return await self.requester.request_response(payload)


@pytest.mark.parametrize(("theirs", "ours"), [(2, 1), (1, 2), (5, 2)])
async def test_a_server_sends_the_other_parity(draft_client, theirs, ours):
    """V0-SID-03: odd ids, unless the client uses odd ids itself."""

    async def acceptor(setup, requester):
        return Asks(requester)

    async with draft_client(acceptor) as peer:
        await peer.send(RequestResponseFrame(theirs, data=b"x"))
        assert await peer.receive() == RequestResponseFrame(ours, data=b"x")
        await peer.send(ResponseFrame(ours, complete=True, data=b"y"))
        assert await peer.receive() == ResponseFrame(theirs, complete=True, data=b"y")


# -- errors, pushes, frames without effect --------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (0x201, ApplicationError),
        (0x202, Rejected),
        (0x203, Canceled),
        (0x021, ApplicationError),
        (0x022, Rejected),
        (0x023, Canceled),
        (0x205, CustomError),
        (0xFFFFFFFE, CustomError),
    ],
)
async def test_error_codes(draft_server, code, error):
    """V0-ERR-01, D.3 no. 10: each code has its error, also those from before 2015-09-11."""

    async def use(requester):
        for text in ("data", "metadata"):
            with pytest.raises(error) as info:
                await requester.request_response()
            assert type(info.value) is error
            assert info.value.message == text

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(2, code, b"m", b"data\0"))
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(4, code, b"metadata", b""))


class Refuses(Responder):
    async def request_response(self, payload):
        raise Rejected(payload.data)


async def test_the_reason_of_a_rejection(draft_client):
    """V0-ERR-01: it is in the metadata, and in the data, which must be UTF-8."""
    async with draft_client(Refuses()) as peer:
        await peer.send(RequestResponseFrame(2, data=b"busy"))
        assert await peer.receive() == ErrorFrame(2, 0x202, b"busy", b"busy")
        await peer.send(RequestResponseFrame(2, data=b"\xff"))
        assert (await peer.receive()).data == "�".encode()
        await peer.send(RequestResponseFrame(2))
        assert await peer.receive() == ErrorFrame(2, 0x202)


async def test_metadata_push(draft_client):
    """V0-PUSH-01, V0-UNX-11: on stream 0 it arrives, on another it is ignored."""
    async with draft_client() as peer:
        await peer.send(MetadataPushFrame(b"a"), MetadataPushFrame(b"b", stream_id=2))
        await peer.expect_alive()
        await peer.send(RequestResponseFrame(2, data=b"last-push"))
        assert (await peer.receive()).data == b"a"


async def test_our_metadata_push(draft_server):
    """V0-PUSH-01: on stream 0, with M set, and with its length."""

    async def use(requester):
        await requester.metadata_push(b"cfg")

    async with draft_server(use) as peer:
        assert await peer.receive() == MetadataPushFrame(b"cfg")


async def test_frames_that_make_no_sense_to_a_server(draft_client):
    """V0-UNX-06 to 12: all of them are ignored."""
    async with draft_client() as peer:
        await peer.send(
            SETUP,
            CancelFrame(0),
            CancelFrame(99),
            RequestNFrame(0, 1),
            RequestNFrame(99, 1),
            ErrorFrame(0, 0x001, data=b"x"),
            ErrorFrame(99, 0x201, data=b"x"),
            ResponseFrame(0, data=b"x"),
            ResponseFrame(99, data=b"x"),
        )
        await peer.expect_alive()
        await peer.send(RequestStreamFrame(2, 1, data=b"2"), ResponseFrame(2, data=b"not ours"))
        assert (await peer.receive()).data == b"0"
        await peer.expect_alive()


async def test_frames_that_make_no_sense_to_a_client(draft_server):
    """V0-UNX-08 to 10, 13: all of them are ignored, and requests go on."""

    async def use(requester):
        assert (await requester.request_response()).data == b"x"

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(
            SETUP,
            ErrorFrame(0, 0x003, data=b"too late"),
            ResponseFrame(98, data=b"x"),
            CancelFrame(98),
            ErrorFrame(98, 0x201),
            RequestNFrame(2, 1),
            RequestChannelFrame(2, 0, data=b"x"),
        )
        await peer.send(ResponseFrame(2, complete=True, data=b"x"))


async def test_a_connection_error_ends_all_streams(draft_server):
    """CONNECTION_ERROR on stream 0 ends the connection."""

    async def use(requester):
        with pytest.raises(ClosedByPeer, match="bye"):
            await requester.request_response()

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(0, 0x101, data=b"bye"))


async def test_a_malformed_frame_at_a_client(draft_server):
    """Frames before it are delivered, then the connection ends with CONNECTION_ERROR."""

    async def use(requester):
        assert (await requester.request_response()).data == b"x"
        await requester.wait_closed()

    async with draft_server(use) as peer:
        await peer.receive(RequestResponseFrame)
        await peer.send(ResponseFrame(2, data=b"x"), b"\0\x0e\0\0\0\0\0\0")
        await peer.expect_closed(0x101)
