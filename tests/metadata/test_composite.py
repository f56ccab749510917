import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MetadataError
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry
from rsocket_trio.metadata.mime_types import MIME

TWO = bytes.fromhex("fe000005046563686ffd00000110")
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=128)
entries = st.builds(MetadataEntry, names | st.integers(0x2B, 0x79), st.binary(max_size=300))


@pytest.mark.vectors("composite")
def test_golden_vectors_both_ways(vector):
    """What other stacks write is read, and written back to the same bytes."""
    data = bytes.fromhex(vector["hex"])
    wanted = [
        MetadataEntry(entry["mime"], bytes.fromhex(entry["content_hex"]))
        for entry in vector["fields"]["entries"]
    ]
    assert CompositeMetadata.decode(data).entries == tuple(wanted)
    assert CompositeMetadata(wanted).encode() == data
    assert CompositeMetadata.decode(data).encode() == data


@pytest.mark.vectors("composite-malformed", "composite-literal")
def test_damaged_vectors_are_metadata_errors(vector):
    """Cut short, or written with the literal length that nobody uses: a MetadataError."""
    with pytest.raises(MetadataError, match="cut short"):
        CompositeMetadata.decode(bytes.fromhex(vector["hex"])).entries  # noqa: B018 - it reads


def test_a_well_known_type_sent_as_a_string_is_the_same_type():
    """CompositeMetadata.md allows the long form of a well-known type."""
    name = MIME.ROUTING.encode()
    data = bytes([len(name) - 1]) + name + b"\0\0\1\0"
    assert CompositeMetadata.decode(data).first(MIME.ROUTING) == b"\0"


def test_unknown_entries_are_kept_and_skipped():
    """An id that nobody has assigned is no error: it is kept, and what follows it is read."""
    data = b"\xd0\0\0\2ab" + TWO
    composite = CompositeMetadata.decode(data)
    assert composite.first(MIME.ROUTING) == b"\x04echo"
    assert composite.first(0x50) == b"ab"
    assert composite.encode() == data


def test_entries_of_one_type_keep_their_order():
    """`first` gives the first, `all` gives all, in the order they came; any case will do."""
    composite = CompositeMetadata(
        [
            MetadataEntry(MIME.JSON, b"1"),
            MetadataEntry("x"),
            MetadataEntry("Application/Json", b"2"),
        ]
    )
    assert composite.first("application/JSON") == b"1"
    assert composite.all(MIME.JSON) == (b"1", b"2")
    assert composite.first("y") is None
    assert composite.all("y") == ()
    assert [entry.mime_type for entry in composite] == [MIME.JSON, "x", "Application/Json"]


def test_reading_is_lazy():
    """`first` reads no further than the entry it finds, so damage behind that stays unseen."""
    composite = CompositeMetadata.decode(TWO + b"\xff")
    assert composite
    assert "15 bytes unread" in repr(composite)
    assert composite.first(MIME.ROUTING) == b"\x04echo"
    assert "6 bytes unread" in repr(composite)
    for _ in range(2):
        with pytest.raises(MetadataError, match="at 14 is cut short"):
            composite.first("x")
    assert composite.first(MIME.TRACING_ZIPKIN) == b"\x10"


def test_iterations_do_not_disturb_each_other():
    """Two readers of one object each see all entries."""
    composite = CompositeMetadata.decode(TWO)
    assert [one.mime_type for one in composite for _ in composite] == [
        *[MIME.ROUTING] * 2,
        *[MIME.TRACING_ZIPKIN] * 2,
    ]


def test_it_is_a_value():
    """Composite metadata compare and hash by their entries, wherever these come from."""
    received = CompositeMetadata.decode(TWO)
    made = CompositeMetadata(
        [MetadataEntry(MIME.ROUTING, b"\x04echo"), MetadataEntry(MIME.TRACING_ZIPKIN, b"\x10")]
    )
    assert received == made
    assert hash(received) == hash(made)
    assert len(received) == 2
    assert made != CompositeMetadata()
    assert made != TWO
    assert not CompositeMetadata()
    assert not CompositeMetadata.decode(b"")
    assert made


def test_repr_shows_no_content():
    """Content may be a password: a log line shows the type and the size."""
    entry = MetadataEntry(MIME.AUTHENTICATION, b"\x81secret")
    assert repr(entry) == f"<MetadataEntry '{MIME.AUTHENTICATION}', 7 bytes>"
    assert "secret" not in repr(CompositeMetadata([entry]))
    assert "secret" not in repr(CompositeMetadata.decode(entry.encode()))


def test_content_has_a_largest_size():
    """The length of an entry has 24 bits."""
    largest = MetadataEntry("x", bytes(0xFFFFFF)).encode()
    assert largest[:5] == b"\0x\xff\xff\xff"
    with pytest.raises(MetadataError, match="16777216 bytes are too many"):
        MetadataEntry("x", bytes(0x1000000)).encode()


@given(st.lists(entries, max_size=5))
def test_what_is_written_is_read(written):
    """Any entries come back as they were, in order."""
    assert CompositeMetadata.decode(CompositeMetadata(written).encode()).entries == tuple(written)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_a_metadata_error(data):
    """No bytes lead to another exception."""
    try:
        composite = CompositeMetadata.decode(data)
        again = CompositeMetadata.decode(composite.encode())
    except MetadataError:
        return
    assert again == composite


@given(st.lists(entries, min_size=1, max_size=3), st.data())
def test_every_cut_is_an_error_or_fewer_entries(written, data):
    """Metadata cut anywhere gives its first entries, and an error unless cut between two."""
    whole = CompositeMetadata(written).encode()
    ends = [len(CompositeMetadata(written[:n]).encode()) for n in range(len(written) + 1)]
    cut = data.draw(st.integers(0, len(whole)))
    if cut in ends:
        assert len(CompositeMetadata.decode(whole[:cut])) == ends.index(cut)
    else:
        with pytest.raises(MetadataError):
            CompositeMetadata.decode(whole[:cut]).encode()
