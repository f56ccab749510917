import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MetadataError
from rsocket_trio.metadata.tracing_zipkin import Sampling, ZipkinTrace

EIGHT, SIXTEEN = b"12345678", b"1234567890123456"


@pytest.mark.vectors("zipkin")
def test_golden_vectors_both_ways(vector):
    """Bytes of other stacks are read, and written back unchanged."""
    fields, data = vector["fields"], bytes.fromhex(vector["hex"])
    ids = {name: bytes.fromhex(value) for name, value in fields.items() if name.endswith("_id")}
    chosen = [name for name, value in fields.items() if value is True]
    sampling = Sampling[chosen[0].upper()] if chosen else Sampling.UNDECIDED
    tracing = ZipkinTrace(sampling=sampling, **ids)
    assert ZipkinTrace.decode(data) == tracing
    assert tracing.encode() == data


@pytest.mark.parametrize(
    ("ids", "size"),
    [
        ({}, 1),
        ({"trace_id": EIGHT, "span_id": EIGHT}, 17),
        ({"trace_id": EIGHT, "span_id": EIGHT, "parent_id": EIGHT}, 25),
        ({"trace_id": SIXTEEN, "span_id": EIGHT}, 25),
        ({"trace_id": SIXTEEN, "span_id": EIGHT, "parent_id": EIGHT}, 33),
    ],
)
@pytest.mark.parametrize("sampling", Sampling)
def test_every_shape_both_ways(ids, size, sampling):
    """25 bytes have two meanings; the flags tell them apart."""
    tracing = ZipkinTrace(sampling=sampling, **ids)
    assert len(tracing.encode()) == size
    assert ZipkinTrace.decode(tracing.encode()) == tracing


@pytest.mark.parametrize(
    ("flags", "sampling"),
    [(0x70, Sampling.DEBUG), (0x30, Sampling.SAMPLE), (0x10, Sampling.NOT_SAMPLED)],
)
def test_debug_beats_sample_beats_not_sampled(flags, sampling):
    """Of several decisions the strongest counts."""
    assert ZipkinTrace.decode(bytes([flags])).sampling is sampling


def test_flags_about_ids_are_ignored_without_ids():
    """The size of the trace id and the parent flag need the ids flag."""
    assert ZipkinTrace.decode(b"\x0f") == ZipkinTrace()


@pytest.mark.parametrize("data", ["", "a0000000000000000000000000", "1000", "c4" + 16 * "00"])
def test_the_size_must_agree_with_the_flags(data):
    """Too short or too long is a MetadataError."""
    with pytest.raises(MetadataError, match="tracing metadata"):
        ZipkinTrace.decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    "ids",
    [
        {"trace_id": b"1", "span_id": EIGHT},
        {"trace_id": EIGHT},
        {"span_id": EIGHT},
        {"parent_id": EIGHT},
        {"trace_id": EIGHT, "span_id": b""},
        {"trace_id": EIGHT, "span_id": EIGHT, "parent_id": SIXTEEN},
    ],
)
def test_ids_that_make_no_trace_are_refused(ids):
    """Ids have their sizes, and a trace has both a trace id and a span id."""
    with pytest.raises(ValueError, match="_id"):
        ZipkinTrace(**ids)


@given(st.binary(max_size=40))
def test_any_bytes_decode_or_are_a_metadata_error(data):
    """There is no other exception, and a trace that was read can be written."""
    try:
        tracing = ZipkinTrace.decode(data)
    except MetadataError:
        return
    assert ZipkinTrace.decode(tracing.encode()) == tracing
