"""Compressed payloads: all that is no whole zlib stream, and bounded memory."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame, RemoteProtocolError
from rsocket_trio.lumberjack.wire.inflate import STEP, inflate

GOOD = zlib.compress(b"2J frames" * 100, 3)


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def with_dictionary(data):
    packer = zlib.compressobj(zdict=b"2J")
    return packer.compress(data) + packer.flush()


@given(st.binary(max_size=2000), st.integers(0, 9))
def test_round_trip(data, level):
    assert b"".join(inflate(zlib.compress(data, level), 2000)) == data


@pytest.mark.parametrize("size", [0, 1, STEP - 1, STEP, STEP + 1, 3 * STEP])
@pytest.mark.parametrize("compressible", [True, False])
def test_steps(size, compressible):
    """The parts are no longer than a step, together the whole, at the exact limit."""
    data = bytes(size) if compressible else random.Random(7).randbytes(size)
    parts = list(inflate(zlib.compress(data), max(size, 1)))
    assert b"".join(parts) == data
    assert all(0 < len(part) <= STEP for part in parts)
    if size > 1:
        with pytest.raises(RemoteProtocolError, match=rf"more than {size - 1} .*max_inflated_size"):
            list(inflate(zlib.compress(data), size - 1))


@pytest.mark.parametrize(
    ("payload", "match"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(GOOD[:1], "has no end", id="half-a-header"),
        pytest.param(GOOD[:20], "has no end", id="truncated"),
        pytest.param(GOOD[:-4], "has no end", id="no-checksum"),
        pytest.param(GOOD[:-1], "has no end", id="a-part-of-the-checksum"),
        pytest.param(GOOD[:-1] + b"\0", "no zlib stream.*incorrect data check", id="checksum"),
        pytest.param(GOOD + b"x", "1 bytes behind", id="trailing"),
        pytest.param(GOOD + GOOD, f"{len(GOOD)} bytes behind", id="twice"),
        pytest.param(GOOD + bytes(200_000), "200000 bytes behind", id="much-trailing"),
        pytest.param(raw_deflate(b"2J" * 9), "no zlib stream.*header check", id="raw-deflate"),
        pytest.param(with_dictionary(b"2J" * 9), "no zlib stream", id="dictionary"),
        pytest.param(b"not zlib", "no zlib stream", id="text"),
    ],
)
def test_payloads_that_are_no_zlib_stream(payload, match):
    with pytest.raises(MalformedFrame, match=match):
        list(inflate(payload, 10**6))


@given(st.binary(max_size=60))
def test_any_payload(payload):
    """There is no other error."""
    with suppress(RemoteProtocolError):
        assert b"".join(inflate(payload, 1000)) == zlib.decompress(payload)


@pytest.mark.limits_row("Lumberjack: compressed frames")
def test_a_bomb_costs_one_step():
    """A stream of many times the limit costs the memory of a few steps."""
    bomb = zlib.compress(bytes(40 * 2**20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            for part in inflate(bomb, 16 * 2**20):
                assert len(part) <= STEP
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20
