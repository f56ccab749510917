"""Any frames in any order: the connection lives or ends as documented, and never crashes."""

from __future__ import annotations

import logging

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, KeepaliveFrame
from rsocket_trio.lease import Lease
from rsocket_trio.testing import strategies
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers

CONFIG = ConnectionConfig(
    fragment_size=64,
    limits=Limits(max_active_requests=4, max_payload_size=100, max_reassembly_size=150),
)

IDS = st.sampled_from([1, 2, 3, 4, 5, 6])
TRAFFIC = st.lists(
    st.one_of(
        strategies.stream_frames(IDS, max_size=80),
        strategies.connection_frames(),
        strategies.frames(),
    ),
    max_size=30,
)
MODEST = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


async def survive(peer, frames) -> None:
    """Send all frames; the other side ends the connection with ERROR, or answers a probe."""
    probe = KeepaliveFrame(respond=True, data=b"alive?")
    try:
        for frame in frames:
            await peer.send(frame)
        await peer.send(probe)
    except trio.BrokenResourceError:
        pass
    received = await peer.drain()
    if KeepaliveFrame(respond=False, data=b"alive?") not in received:
        # We ended the connection with CONNECTION_ERROR, or a CONNECTION_ERROR from the test did.
        words = [f for f in received if isinstance(f, ErrorFrame) and not f.stream_id]
        ended_by_us = any(
            isinstance(f, ErrorFrame)
            and not f.stream_id
            and f.code in (ErrorCode.CONNECTION_ERROR, ErrorCode.CONNECTION_CLOSE)
            for f in frames
        )
        assert ended_by_us or [word.code for word in words] == [ErrorCode.CONNECTION_ERROR]


@pytest.mark.parametrize("lease", [None, Lease(3, 60.0)], ids=["free", "with leases"])
@pytest.mark.parametrize("role", ["server", "client"])
@given(frames=TRAFFIC)
@MODEST
def test_any_frames(role, lease, frames, caplog):
    """R-UNX-01: any frame, in either role, is handled, ignored, or ends with ERROR."""
    caplog.clear()

    async def against_server():
        async with assert_no_leaks():
            async with frame_peer_client(KnownAnswers(), config=CONFIG, lease=lease) as peer:
                await survive(peer, frames)

    async def against_client():
        async with assert_no_leaks():
            serving = frame_peer_server(KnownAnswers(), config=CONFIG, lease=lease)
            async with serving as (peer, _):
                await survive(peer, frames)

    trio.run(against_server if role == "server" else against_client)
    crashes = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not crashes
