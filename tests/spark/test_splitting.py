"""Stored batches are split into the events that the slow path gives, whatever they contain."""

from __future__ import annotations

import json
import struct
import zlib

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from rsocket_trio.lumberjack import UnknownEncoding, encode_pairs, stored_events
from rsocket_trio.spark.columns import splitting
from rsocket_trio.spark.columns.splitting import split
from rsocket_trio.spool import StoredBatch
from tests.spark.collectors import json_lines, received


def stored(batch, start=None, stop=None, first=100):
    return StoredBatch(
        first=first,
        count=batch.count,
        start=first if start is None else start,
        stop=first + batch.count if stop is None else stop,
        data=bytes(batch.data),
        encoding=batch.encoding,
        facts=batch.facts,
        stored_at=0.0,
    )


# Texts that imitate frames, also with zeros, and line ends.
head = st.builds(lambda number, size: struct.pack(">2sII", b"2J", number, size),
                 st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))  # fmt: skip
events = st.lists(
    st.lists(
        st.one_of(
            head, st.binary(max_size=9), st.sampled_from([b"2", b"J", b"2J", b"\0\0", b"\n"])
        ),
        min_size=1,
        max_size=6,
    ).map(lambda parts: b"".join(parts) or b"x"),
    min_size=1,
    max_size=12,
)  # fmt: skip


@given(st.data(), events, st.sampled_from([0, 3]))
def test_it_is_what_the_slow_path_gives(data, texts, level):
    batch = received(texts, level=level)
    start = data.draw(st.integers(100, 100 + len(texts) - 1))
    stop = data.draw(st.integers(start + 1, 100 + len(texts)))
    each = stored(batch, start, stop)
    found = split(each)
    assert found.texts.to_pylist() == stored_events(each).raw == texts[start - 100 : stop - 100]
    assert found.raws is found.texts


@given(events)
def test_sequences_of_any_kind(texts):
    """They may be large, and have gaps."""
    frames = b"".join(
        struct.pack(">2sII", b"2J", (0x324A0000 + 7 * n) % 2**32, len(text)) + text
        for n, text in enumerate(texts)
    )
    for encoding, data in (("lumberjack-2", frames), ("lumberjack-2-zlib", zlib.compress(frames))):
        one = StoredBatch(first=0, count=len(texts), start=0, stop=len(texts), data=data,
                          encoding=encoding, facts={}, stored_at=0.0)  # fmt: skip
        assert split(one).texts.to_pylist() == texts


@given(st.lists(st.binary(max_size=9).filter(lambda text: b"\n" not in text), min_size=1))
def test_lines(texts):
    assert split(stored(json_lines(texts))).texts.to_pylist() == texts


@given(
    st.binary(max_size=60),
    st.integers(1, 3),
    st.sampled_from(["json-lines", "lumberjack-2", "lumberjack-1", "lumberjack-2-zlib"]),
)
def test_any_bytes(data, count, encoding):
    """They give what the slow path gives, or its error."""
    one = StoredBatch(first=0, count=count, start=0, stop=count, data=data, encoding=encoding,
                      facts={}, stored_at=0.0)  # fmt: skip
    try:
        wanted = stored_events(one).raw
    except UnknownEncoding:
        with pytest.raises(UnknownEncoding, match="at offset 0"):
            split(one)
    else:
        assert split(one).raws.to_pylist() == wanted


def test_pairs_become_json():
    pairs = [(b"line", b"caf\xc3\xa9"), (b"n", b"1")]
    raw = encode_pairs(pairs)
    for level in (0, 3):
        found = split(stored(received([raw], version=1, level=level)))
        assert json.loads(found.texts[0].as_py()) == {"line": "café", "n": "1"}
        assert found.raws.to_pylist() == [raw]


def test_pairs_that_are_not_utf8():
    raw = encode_pairs([(b"line", b"\xff")])
    found = split(stored(received([raw], version=1)))
    assert json.loads(found.texts[0].as_py()) == {"line": "\ufffd"}


@pytest.mark.parametrize("level", [0, 3])
def test_the_default_path_makes_no_object_for_an_event(level, monkeypatch):
    """The slow path is not used for what senders send."""
    monkeypatch.setattr(splitting, "_slow", None)
    texts = [b'{"n": %d}' % n for n in range(3000)]
    assert split(stored(received(texts, level=level))).texts.to_pylist() == texts


def test_more_than_a_batch_may_have(monkeypatch):
    """The slow path, which counts with other limits, takes it."""
    monkeypatch.setattr(splitting, "MAX_INFLATED", 10)
    texts = [b"1" * 20, b"2"]
    for each in (received(texts), received(texts, level=0), json_lines(texts)):
        assert split(stored(each)).texts.to_pylist() == texts


def test_bytes_behind_the_compressed_ones():
    """They are damage, as for the slow path."""
    good = stored(received([b"1"]))
    with pytest.raises(UnknownEncoding):
        split(attrs.evolve(good, data=good.data + b"x"))
