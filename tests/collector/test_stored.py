"""Payloads in a spool: both encodings, any payloads, any damage."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio import Payload
from rsocket_trio.collector import payloads_to_store, stored_payloads
from rsocket_trio.lumberjack import UnknownEncoding, stored_events
from rsocket_trio.spool import StoredBatch

PAYLOADS = st.lists(
    st.builds(
        Payload,
        st.binary(max_size=20) | st.sampled_from([b"{}", b'{"a":1}', b"1\n2"]),
        st.none() | st.binary(max_size=20),
    ),
    min_size=1,
    max_size=8,
)
MIMES = st.sampled_from(["application/json", "application/cbor", "Application/X+JSON; a=b"])


def stored(batch, start=0, stop=None, **changes):
    known = {
        "first": 0,
        "count": batch.count,
        "start": start,
        "stop": batch.count if stop is None else stop,
        "data": bytes(batch.data),
        "encoding": batch.encoding,
        "facts": batch.facts,
        "stored_at": 0.0,
    }
    return StoredBatch(**(known | changes))


@given(PAYLOADS, MIMES, st.data())
@example([Payload(b"", None), Payload(b"", b"")], "application/json", None)
def test_any_payloads(payloads, mime_type, data):
    """They come out as they went in, each range of them."""
    batch = payloads_to_store(payloads, mime_type=mime_type, facts={"peer": "me"})
    assert batch.facts == {"peer": "me", "mime": mime_type}
    assert stored_payloads(stored(batch)) == payloads
    if data is not None:
        start = data.draw(st.integers(0, len(payloads)))
        stop = data.draw(st.integers(start, len(payloads)))
        assert stored_payloads(stored(batch, start, stop)) == payloads[start:stop]


def test_the_encoding():
    """JSON lines only for JSON without metadata, without line ends, and not empty."""

    def encoding_of(*payloads, mime_type="application/json"):
        return payloads_to_store(payloads, mime_type=mime_type).encoding

    assert encoding_of(Payload(b"1"), Payload(b"{}")) == "json-lines"
    assert encoding_of(Payload(b"1"), mime_type="Application/LD+JSON;charset=utf-8") == "json-lines"
    for other in (Payload(b""), Payload(b"1\n"), Payload(b"1", b"")):
        assert encoding_of(Payload(b"1"), other) == "payloads"
    assert encoding_of(Payload(b"1"), mime_type="application/cbor") == "payloads"


def test_lumberjack_reads_the_lines():
    """JSON lines are the same for both receivers."""
    batch = payloads_to_store([Payload(b"1"), Payload(b"{}")], mime_type="application/json")
    assert stored_events(stored(batch)).raw == [b"1", b"{}"]


@given(PAYLOADS, MIMES, st.data())
def test_any_damage(payloads, mime_type, data):
    """Bytes that are missing, added or changed give payloads or the error, and nothing else."""
    batch = payloads_to_store(payloads, mime_type=mime_type)
    raw = bytearray(batch.data)
    cut = data.draw(st.integers(0, len(raw)))
    damaged = bytes(raw[:cut]) + data.draw(st.binary(max_size=12)) + bytes(raw[cut + 1 :])
    try:
        found = stored_payloads(stored(batch, data=damaged))
    except UnknownEncoding:
        return
    assert len(found) == batch.count


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        b"\0" * 9,
        b"\0" * 24,
        b"\xff" * 16,
        b"\0\0\0\0\0\0\0\2x" + b"\0" * 8,
        b"\0" * 15,
    ],
)
def test_payloads_that_do_not_add_up(data):
    """Lengths beyond the end, and another number of payloads."""
    batch = payloads_to_store([Payload(b"x"), Payload()], mime_type="text/plain")
    with pytest.raises(UnknownEncoding, match="offset 7 is damaged"):
        stored_payloads(stored(batch, data=data, first=7, start=7, stop=9))


def test_a_huge_batch_of_nothing_costs_nothing():
    """A wrong count does not make the reader parse more payloads than it has."""
    batch = payloads_to_store([Payload()] * 1000, mime_type="text/plain")
    with pytest.raises(UnknownEncoding):
        stored_payloads(stored(batch, count=3, stop=3))


def test_other_encodings():
    """A batch of compressed Lumberjack events has no payloads; lines must end with a line end."""
    batch = payloads_to_store([Payload(b"1")], mime_type="application/json")
    with pytest.raises(UnknownEncoding, match="lumberjack-2-zlib"):
        stored_payloads(stored(batch, encoding="lumberjack-2-zlib"))
    with pytest.raises(UnknownEncoding):
        stored_payloads(stored(batch, data=b"1"))
    with pytest.raises(UnknownEncoding):
        stored_payloads(stored(batch, data=b"1\n2\n"))
    with pytest.raises(ValueError, match="at least one"):
        payloads_to_store([], mime_type="text/plain")
