"""Compressed frames are whole zlib streams, with isal and without; zlib inflates what comes."""

from __future__ import annotations

import importlib
import importlib.util
import random
import runpy
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.lumberjack import BatchReader, LumberjackLimits, encode_batch
from rsocket_trio.lumberjack.client.event_encoder import EventEncoder
from rsocket_trio.lumberjack.wire import compression
from rsocket_trio.lumberjack.wire.compression import compress, compressor, inflate_again
from rsocket_trio.lumberjack.wire.inflate import inflate

needs_isal = pytest.mark.skipif(
    importlib.util.find_spec("isal") is None, reason="isal is not installed"
)
WAYS = [pytest.param(True, id="isal", marks=needs_isal), pytest.param(False, id="zlib")]


def choose(patch, isal):
    if not isal:
        patch.setattr(compression, "_isal", None)


def test_isal_is_not_needed(monkeypatch):
    """Where it cannot be imported, the module finds zlib; tests elsewhere replace what it found."""
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    found = runpy.run_path(compression.__file__)
    assert not found["is_fast"]()
    assert zlib.decompress(found["compress"](b"abc", 1)) == b"abc"


def in_parts(data, level, size):
    stream = compressor(level)
    parts = [
        stream.compress(memoryview(data)[start : start + size])
        for start in range(0, len(data), size)
    ]
    return b"".join((*parts, stream.flush()))


@pytest.mark.parametrize("isal", WAYS)
def test_what_was_inflated_is_inflated_again(monkeypatch, isal):
    choose(monkeypatch, isal)
    data = bytes(range(256)) * 9
    stream = compress(data, 1)
    assert inflate_again(stream, len(data)) == data
    damaged = stream[:-1] + bytes([stream[-1] ^ 1])
    for wrong in (b"x" + stream, damaged, stream[:-1], stream + b"x"):
        with pytest.raises(zlib.error):
            inflate_again(wrong, 10**6)
    with pytest.raises(zlib.error):
        inflate_again(stream, len(data) - 1)


any_data = st.binary(max_size=3000) | st.builds(
    lambda piece, count, seed: piece * count + random.Random(seed).randbytes(count),
    st.binary(min_size=1, max_size=40), st.integers(0, 5000), st.integers(0, 9),
)  # fmt: skip


@pytest.mark.parametrize("isal", WAYS)
@given(any_data, st.integers(1, 9), st.integers(1, 70_000))
def test_zlib_inflates_it(isal, data, level, size):
    """At once and in parts: one stream with its checksum, and nothing behind it."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, isal)
        streams = [compress(data, level), in_parts(data, level, max(size, len(data) // 50))]
    for stream in streams:
        inflater = zlib.decompressobj()
        assert inflater.decompress(stream) + inflater.flush() == data
        assert inflater.eof
        assert not inflater.unused_data
        assert b"".join(inflate(stream, max(len(data), 1))) == data


@needs_isal
def test_which_levels_isal_has(monkeypatch):
    """Up to level 3, which is the default; higher ones are smaller, and are zlib's."""
    data = b"".join(b'{"number":%d,"at":%d}' % (n * 7919 % 10007, n) for n in range(5000))
    sizes = [len(compress(data, level)) for level in range(1, 10)]
    with_zlib = [zlib.compress(data, level) for level in range(1, 10)]
    assert compression.is_fast()
    assert [compress(data, level) == with_zlib[level - 1] for level in range(1, 10)] == [
        *[False] * 3,
        *[True] * 6,
    ]
    assert sizes[2] <= sizes[0]
    assert sizes[8] < sizes[2]
    monkeypatch.setattr(compression, "_isal", None)
    assert not compression.is_fast()
    assert [compress(data, level) for level in range(1, 10)] == with_zlib


@pytest.mark.parametrize("isal", WAYS)
@pytest.mark.parametrize("size", [1, 70_000, 262_144, 262_145, 1_000_000, 3_000_001])
def test_incompressible_bytes_grow_by_less_than_the_client_expects(isal, size, monkeypatch):
    """An event of the largest size fits into a frame, see `EventEncoder.max_size`."""
    choose(monkeypatch, isal)
    limit = size + size // 900 + 80
    limits = LumberjackLimits(max_event_size=2**30, max_compressed_size=limit)
    data = random.Random(size).randbytes(EventEncoder(2, 3, limits).max_size + 10)
    assert len(data) >= size * 0.99
    for level in (1, 2, 3, 9):
        assert len(compress(data, level)) <= limit
        assert len(in_parts(data, level, 256 * 2**10)) <= limit


@pytest.mark.parametrize("isal", WAYS)
@pytest.mark.parametrize("level", [1, 3, 6])
def test_a_batch_is_read(isal, level, monkeypatch):
    """By our own receiver; tests/interop has other ones."""
    choose(monkeypatch, isal)
    events = [b'{"n":%d}' % number for number in range(2000)]
    (batch,) = BatchReader().feed(encode_batch(events, compression_level=level))
    assert batch.events == events
    assert zlib.decompress(batch.compressed)


# Streams of incomplete Huffman codes: of literals, and of distances.
INCOMPLETE = [
    "058fdb0dc3300c0377c904d65be9369d23c8ee41e153fae5034599d4757c8f4f8aded70fcc7b43b8",
    "05c10111c4200003412fa7e0a14069dc444726de7f3f187d733418bdeb6d30da733618cdb11a8cbe",
]


@pytest.mark.parametrize("deflated", INCOMPLETE, ids=["literals", "distances"])
def test_streams_that_only_zlib_refuses(deflated):
    """isal does not check this. So a receiver inflates with zlib, whether isal is installed."""
    with pytest.raises(MalformedFrame, match=r"invalid .* set"):
        list(inflate(b"\x78\x9c" + bytes.fromhex(deflated), 10**6))


@needs_isal
@pytest.mark.parametrize("deflated", INCOMPLETE, ids=["literals", "distances"])
def test_isal_does_not_refuse_them(deflated):
    """If this fails, isal checks more than it did, and may be worth another look."""
    isal_zlib = importlib.import_module("isal.isal_zlib")
    isal_zlib.decompressobj(wbits=-15).decompress(bytes.fromhex(deflated))
