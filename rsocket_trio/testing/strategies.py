"""Hypothesis strategies for payloads and frames. They need the extra ``test``."""

from __future__ import annotations

from typing import Final

try:
    from hypothesis import strategies as st
except ImportError as missing:  # pragma: no cover: the test environment has hypothesis
    raise ImportError(
        "rsocket_trio.testing.strategies needs hypothesis: pip install 'rsocket-trio[test]'"
    ) from missing

from ..errors import ErrorCode
from ..frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    Frame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from ..payload import Payload

__all__ = [
    "connection_frames",
    "data",
    "frames",
    "metadata",
    "mime_types",
    "payloads",
    "request_n",
    "stream_frames",
    "stream_ids",
]

MAX_U31: Final = 2**31 - 1
MAX_U63: Final = 2**63 - 1


def data(max_size: int = 64) -> st.SearchStrategy[bytes]:
    """Data of a payload, up to ``max_size`` bytes."""
    return st.binary(max_size=max_size)


def metadata(max_size: int = 64) -> st.SearchStrategy[bytes | None]:
    """Metadata: absent, empty, or up to ``max_size`` bytes."""
    return st.none() | st.binary(max_size=max_size)


def payloads(max_size: int = 64) -> st.SearchStrategy[Payload]:
    """Payloads whose data and metadata have up to ``max_size`` bytes each."""
    return st.builds(Payload, data(max_size), metadata(max_size))


def stream_ids() -> st.SearchStrategy[int]:
    """Legal stream ids of both sides: 1 to 2**31-1, small ones more often."""
    return st.integers(1, 8) | st.integers(1, MAX_U31)


def request_n() -> st.SearchStrategy[int]:
    """Legal credits: 1 to 2**31-1, small ones more often."""
    return st.integers(1, 8) | st.integers(1, MAX_U31)


def mime_types() -> st.SearchStrategy[str]:
    """Any US-ASCII text that a SETUP frame can carry as a MIME type, including the empty text."""
    return st.text(st.characters(max_codepoint=127), max_size=32) | st.just("a/" + "b" * 253)


def connection_frames(max_size: int = 64) -> st.SearchStrategy[Frame]:
    """Frames of stream 0 with legal values: SETUP, LEASE, KEEPALIVE, ERROR and so on."""
    u31, u63 = st.integers(1, MAX_U31), st.integers(0, MAX_U63)
    u16 = st.integers(0, 0xFFFF)
    token = st.binary(min_size=1, max_size=max_size)
    codes = st.sampled_from([code for code in ErrorCode if code < ErrorCode.APPLICATION_ERROR])
    return st.one_of(
        st.builds(
            SetupFrame,
            major=u16,
            minor=u16,
            keepalive_interval_ms=u31,
            max_lifetime_ms=u31,
            resume_token=st.none() | token,
            lease=st.booleans(),
            metadata_mime_type=mime_types(),
            data_mime_type=mime_types(),
            metadata=metadata(max_size),
            data=data(max_size),
        ),
        st.builds(
            LeaseFrame,
            time_to_live_ms=st.integers(0, MAX_U31),
            number_of_requests=st.integers(0, MAX_U31),
            metadata=metadata(max_size),
        ),
        st.builds(KeepaliveFrame, respond=st.booleans(), position=u63, data=data(max_size)),
        st.builds(ErrorFrame, st.just(0), codes.map(int), data(max_size)),
        st.builds(MetadataPushFrame, metadata=data(max_size)),
        st.builds(
            ResumeFrame,
            major=u16,
            minor=u16,
            token=token,
            last_received_server_position=u63,
            first_available_client_position=u63,
        ),
        st.builds(ResumeOkFrame, last_received_client_position=u63),
    )


def stream_frames(
    ids: st.SearchStrategy[int] | None = None, max_size: int = 64
) -> st.SearchStrategy[Frame]:
    """Frames of streams with legal values. Their order need not be legal.

    Args:
        ids: Strategy for the stream ids; by default all legal ids.
        max_size: Largest size of data, and of metadata, in bytes.
    """
    stream_id = stream_ids() if ids is None else ids
    body = {"metadata": metadata(max_size), "data": data(max_size)}
    follows = st.booleans()
    codes = st.integers(0x201, 0x204) | st.integers(0x301, 0xFFFFFFFE)
    return st.one_of(
        st.builds(RequestResponseFrame, stream_id, follows=follows, **body),
        st.builds(RequestFnfFrame, stream_id, follows=follows, **body),
        st.builds(RequestStreamFrame, stream_id, request_n(), follows=follows, **body),
        st.builds(
            RequestChannelFrame,
            stream_id,
            request_n(),
            follows=follows,
            complete=st.booleans(),
            **body,
        ),
        st.builds(RequestNFrame, stream_id, request_n()),
        st.builds(CancelFrame, stream_id),
        # A PAYLOAD must have flag N or flag C (Protocol.md, "PAYLOAD Frame").
        st.builds(PayloadFrame, stream_id, next=st.just(True), complete=follows, **body),
        st.builds(PayloadFrame, stream_id, next=st.just(True), follows=st.just(True), **body),
        st.builds(PayloadFrame, stream_id, complete=st.just(True)),
        st.builds(ErrorFrame, stream_id, codes, data(max_size)),
    )


def frames(max_size: int = 64) -> st.SearchStrategy[Frame]:
    """Any frame with legal values, on stream 0 or on other streams, including EXT."""
    extension = st.builds(
        ExtFrame,
        st.just(0) | stream_ids(),
        st.integers(1, MAX_U31),
        st.booleans(),
        metadata(max_size),
        data(max_size),
    )
    return connection_frames(max_size) | stream_frames(max_size=max_size) | extension
