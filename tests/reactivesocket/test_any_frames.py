"""Any frames of the draft in any order: the connection lives or ends as documented."""

from __future__ import annotations

import contextlib
import logging

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import RSocketError
from rsocket_trio.payload import Payload
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
    SetupFrame,
)
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers

CONFIG = ConnectionConfig(
    fragment_size=64,
    limits=Limits(max_active_requests=4, max_payload_size=100, max_reassembly_size=150),
)
IDS = st.sampled_from([0, 1, 2, 3, 4, 2**32 - 1])
N = st.sampled_from([0, 1, 3, 2**32 - 1])
FLAG = st.booleans()
DATA = st.sampled_from([b"", b"2", b"20", b"never", b"error:x", b"x" * 80])
METADATA = st.none() | DATA
FRAMES = st.one_of(
    st.builds(RequestResponseFrame, IDS, METADATA, DATA),
    st.builds(RequestFnfFrame, IDS, METADATA, DATA),
    st.builds(RequestStreamFrame, IDS, N, METADATA, DATA),
    st.builds(RequestSubFrame, IDS, N, METADATA, DATA),
    st.builds(RequestChannelFrame, IDS, st.none() | N, FLAG, FLAG, METADATA, DATA),
    st.builds(RequestNFrame, IDS, N),
    st.builds(CancelFrame, IDS, METADATA),
    st.builds(ResponseFrame, IDS, FLAG, FLAG, METADATA, DATA),
    st.builds(ErrorFrame, st.just(0), st.sampled_from([1, 0x101, 0x11]), METADATA, DATA),
    st.builds(ErrorFrame, IDS, st.sampled_from([0x201, 0x202, 0x21, 0x301]), METADATA, DATA),
    st.builds(LeaseFrame, N, N, METADATA, IDS),
    st.builds(KeepaliveFrame, FLAG, DATA, IDS),
    st.builds(MetadataPushFrame, DATA, IDS),
    st.builds(SetupFrame, N, N, N, stream_id=IDS),
    st.builds(ExtFrame, IDS, N, FLAG),
)
PROBE = b"alive?"


MODEST = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ENDS = (0x101, 0x011)


async def survive(peer, frames):
    """Send all frames; the other side answers a probe, or has closed with a reason."""
    try:
        for frame in frames:
            await peer.send(frame)
        await peer.send(KeepaliveFrame(True, PROBE))
    except trio.BrokenResourceError:
        pass
    received = await peer.drain()
    if KeepaliveFrame(False, PROBE) not in received:
        words = [f.code for f in received if isinstance(f, ErrorFrame) and not f.stream_id]
        ended_by_it = any(
            isinstance(f, ErrorFrame) and not f.stream_id and f.code in ENDS for f in frames
        )
        assert ended_by_it or words in ([0x101], [0x001], [0x002])


@pytest.mark.parametrize("role", ["first", "server", "client"])
@given(frames=st.lists(FRAMES, max_size=30))
@MODEST
def test_any_frames(role, frames, caplog, draft_client, draft_server):
    """V0-UNX-06: any frame, in either role, is handled, ignored, or ends with ERROR."""
    caplog.clear()

    async def against_server():
        setup = SetupFrame(0, 1000, 1000) if role == "server" else None
        options = {} if setup else {"protocols": ["reactivesocket"]}
        async with assert_no_leaks():
            async with draft_client(setup=setup, config=CONFIG, **options) as peer:
                await survive(peer, frames)

    async def busy(requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, requester.request_response, Payload(b"x" * 200))
            nursery.start_soon(read, requester.request_stream(Payload(b"x" * 200)))
            nursery.start_soon(read, requester.request_channel([Payload(b"y")] * 5))
            await requester.wait_closed()
            nursery.cancel_scope.cancel()

    async def ask(request, payload):
        with contextlib.suppress(RSocketError):
            await request(payload)

    async def read(opened):
        with contextlib.suppress(RSocketError):
            async with opened as stream:
                async for _ in stream:
                    pass

    async def against_client():
        async with assert_no_leaks():
            options = {"config": CONFIG, "responder": KnownAnswers()}
            async with draft_server(busy, **options) as peer:
                await survive(peer, frames)

    trio.run(against_client if role == "client" else against_server)
    crashes = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not crashes
