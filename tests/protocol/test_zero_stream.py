"""The meaning of an ERROR on stream 0, for every code, side and time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import ErrorCode
from rsocket_trio.protocol.zero_stream import ZeroStreamError, classify_error

SETUP_CODES = [
    ErrorCode.INVALID_SETUP,
    ErrorCode.UNSUPPORTED_SETUP,
    ErrorCode.REJECTED_SETUP,
    ErrorCode.REJECTED_RESUME,
]


@pytest.mark.parametrize("code", SETUP_CODES)
def test_setup_codes(code):
    """They refuse the SETUP of a client that waits for it; in other states they are ignored."""
    refused = classify_error(code, client=True, established=False)
    assert refused is ZeroStreamError.SETUP_REFUSED
    for client, established in [(True, True), (False, False), (False, True)]:
        verdict = classify_error(code, client=client, established=established)
        assert verdict is ZeroStreamError.IGNORE


@given(st.booleans(), st.booleans())
def test_connection_codes(client, established):
    """They end the connection for both sides at any time."""
    error = classify_error(ErrorCode.CONNECTION_ERROR, client=client, established=established)
    close = classify_error(ErrorCode.CONNECTION_CLOSE, client=client, established=established)
    assert error is ZeroStreamError.CONNECTION_ERROR
    assert close is ZeroStreamError.CONNECTION_CLOSE


@given(
    st.one_of(
        st.sampled_from([0, 0x201, 0x202, 0x203, 0x204, 0x301, 0xFFFFFFFE, 0xFFFFFFFF]),
        st.integers(0, 2**32 - 1).filter(lambda code: code not in set(ErrorCode)),
    ),
    st.booleans(),
)
def test_codes_that_do_not_belong_on_stream_0(code, client):
    """They are ignored once established; before, they are a refusal to a client."""
    assert classify_error(code, client=client, established=True) is ZeroStreamError.IGNORE
    early = classify_error(code, client=client, established=False)
    assert early is (ZeroStreamError.SETUP_REFUSED if client else ZeroStreamError.IGNORE)
