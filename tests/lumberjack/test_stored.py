"""Batches go into a spool and come out of it unchanged."""

from __future__ import annotations

import json
from functools import partial

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.lumberjack import (
    Batch,
    BatchReader,
    InvalidEvent,
    LumberjackConfig,
    UnknownEncoding,
    encode_batch,
    encode_pairs,
    serve,
    store_in,
    stored_events,
    to_store,
)
from rsocket_trio.sealed import make
from rsocket_trio.sockets.byte_stream import TransportInfo
from rsocket_trio.spool import StoredBatch, open_spool
from tests.lumberjack.receiving import ADDRESS, sender_to
from tests.lumberjack.vectors import all_of, compressed, event, window

HERE = TransportInfo(scheme="lumberjack", peer="192.0.2.1:4711")


def received(data, transport=HERE):
    """The batch that a handler gets for these bytes."""
    [incoming] = all_of(BatchReader(), data)
    return make(Batch, incoming, transport, None)


def stored(batch, first=100, start=None, stop=None):
    """As a spool returns what `to_store` made."""
    kept = to_store(batch)
    return StoredBatch(
        first=first,
        count=kept.count,
        start=first if start is None else start,
        stop=first + kept.count if stop is None else stop,
        data=bytes(kept.data),
        encoding=kept.encoding,
        facts=kept.facts,
        stored_at=0.0,
    )


texts = st.one_of(
    st.dictionaries(st.text(max_size=5), st.text(max_size=9)).map(
        lambda value: json.dumps(value).encode()
    ),
    st.sampled_from([b'{\n "pretty": 1\n}', b"not JSON", b"\xff", b"\r", b"\n", b"{}"]),
)
pairs = st.lists(
    st.tuples(st.binary(min_size=1, max_size=5), st.binary(max_size=9)), min_size=1, max_size=4
).map(encode_pairs)


@given(st.data(), st.sampled_from([1, 2]), st.sampled_from([0, 3]))
def test_every_event_comes_back(data, version, level):
    """All ranges, both versions, compressed or not."""
    events = data.draw(st.lists(texts if version == 2 else pairs, min_size=1, max_size=20))
    batch = received(encode_batch(events, version=version, compression_level=level))
    start = data.draw(st.integers(100, 100 + len(events) - 1))
    stop = data.draw(st.integers(start + 1, 100 + len(events)))
    found = stored_events(stored(batch, start=start, stop=stop))
    assert found.raw == events[start - 100 : stop - 100]
    assert "raw" not in repr(found)  # What is logged has no event in it.
    assert (found.is_json, found.first) == (version == 2, start)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (encode_batch([b'{"a":1}'], compression_level=0), "json-lines"),
        (encode_batch([b'{"a":\n1}'], compression_level=0), "lumberjack-2"),
        (encode_batch([b'{"a":1}']), "lumberjack-2-zlib"),
        (encode_batch([encode_pairs([(b"a", b"1")])], version=1), "lumberjack-1-zlib"),
        (
            encode_batch([encode_pairs([(b"a", b"1")])], version=1, compression_level=0),
            "lumberjack-1",
        ),
        (window(1, 1) + event(1, b'{"a":1}', 1), "json-lines"),
        (window(1, 1) + event(1, b'{"a":\n1}', 1), "lumberjack-2"),
        (window(1, 1) + compressed(event(1, b'{"a":1}', 1), version=1), "lumberjack-1-zlib"),
    ],
    # Compressed data are not always the same, and all processes need the same names.
    ids=lambda value: value if isinstance(value, str) else "batch",
)
def test_it_is_kept_as_it_came(data, encoding):
    """The name says how; the facts say where it came from."""
    batch = received(data)
    kept = to_store(batch)
    assert kept.encoding == encoding
    assert kept.facts == {"peer": "192.0.2.1:4711", "version": str(batch.version)}
    if batch.compressed is not None:
        assert kept.data is batch.compressed
    [decoded] = stored_events(stored(batch)).decoded()
    assert decoded in ({"a": 1}, {"a": "1"})


def test_a_batch_of_many_steps():
    """What takes a reader several steps, as it is large, comes back whole."""
    events = [b'{"n":%d,"pad":"%s"}' % (n, b"x" * 1000) for n in range(5000)]
    batch = received(encode_batch(events))
    assert batch.compressed is not None
    assert stored_events(stored(batch)).raw == events


def test_a_sender_without_an_address():
    batch = received(encode_batch([b"{}"]), TransportInfo(scheme="memory"))
    assert to_store(batch).facts == {"version": "2"}


def test_an_event_that_cannot_be_decoded():
    """It does not hide the others."""
    found = stored_events(stored(received(encode_batch([b"1", b"oh", b"3"]))))
    one, error, three = found.decoded()
    assert (one, three) == (1, 3)
    assert isinstance(error, InvalidEvent)
    assert error.number == 2


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"encoding": "cbor"}, "has the encoding 'cbor'"),
        ({"count": 2**32}, "is larger than a batch can be|has 2 events, and not 4294967296"),
        ({"count": 5, "stop": 105}, "cannot be read|has 2 events, and not 5"),
        ({"count": 1, "stop": 101}, "cannot be read|has 2 events, and not 1"),
        ({"data": b""}, "cannot be read|has 0 events"),
        ({"data": b"garbage\n"}, "cannot be read|has 1 events"),
    ],
)
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("text_of_event", [b"{}", b"{\n}"])
def test_what_another_program_has_stored(changed, text, level, text_of_event):
    """It is an error that names the batch."""
    good = stored(received(encode_batch([text_of_event] * 2, compression_level=level)))
    with pytest.raises(UnknownEncoding, match=f"at offset 100 ({text})"):
        stored_events(attrs.evolve(good, **changed))


@given(
    st.binary(max_size=60), st.sampled_from(["lumberjack-2", "lumberjack-1", "lumberjack-2-zlib"])
)
def test_any_bytes(data, encoding):
    """They end in events or in the error."""
    one = StoredBatch(first=0, count=1, start=0, stop=1, data=data, encoding=encoding, facts={},
                      stored_at=0.0)  # fmt: skip
    try:
        found = stored_events(one)
    except UnknownEncoding:
        return
    assert len(found.raw) == 1


async def test_a_server_stores_what_it_acknowledges(tmp_path):
    async with open_spool(tmp_path / "spool") as spool, trio.open_nursery() as nursery:
        server = await nursery.start(serve, store_in(spool), ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(
                encode_batch([b"1", b"2"]) + encode_batch([b"3"], compression_level=0)
            )
            assert await sender.ack() == (2, 2)
            assert await sender.ack() == (2, 1)
            batches = [each async for each in spool.read(0)]
        assert [stored_events(each).raw for each in batches] == [[b"1", b"2"], [b"3"]]
        await server.aclose()


async def after_keepalives(sender):
    """The next ACK that is no keep-alive."""
    while (answer := await sender.ack()) == (2, 0):
        pass
    return answer


async def test_a_full_spool_sends_keepalives_and_no_error(tmp_path):
    """The batch is stored, and acknowledged, when a consumer has made room."""
    config = LumberjackConfig(keepalive_interval=0.02)
    async with (
        open_spool(tmp_path / "spool", max_size=2000) as spool,
        trio.open_nursery() as nursery,
    ):
        await spool.commit("reader", 0)
        server = await nursery.start(partial(serve, store_in(spool), ADDRESS, config=config))
        async with sender_to(server) as sender:
            for _ in range(2):
                await sender.send(encode_batch([b"1" * 1500], compression_level=0))
            # Keep-alives come here too, while the disk is slow.
            assert await after_keepalives(sender) == (2, 1)
            for _ in range(3):
                assert await sender.ack() == (2, 0)
            assert spool.full
            await spool.commit("reader", 1)
            assert await after_keepalives(sender) == (2, 1)
        await server.aclose()
