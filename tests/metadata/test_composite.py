from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.config import DEFAULT_LIMITS, Limits
from rsocket_trio.errors import MetadataError, MetadataTooLarge
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry, WantedEntries
from rsocket_trio.metadata.mime_types import MIME

TWO = bytes.fromhex("fe000005046563686ffd00000110")
names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=128)
entries = st.builds(MetadataEntry, names | st.integers(0x2B, 0x79), st.binary(max_size=300))


@pytest.mark.vectors("composite")
def test_golden_vectors_both_ways(vector):
    """Bytes of other stacks are read, and written back unchanged."""
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
    """Entries cut short, or written with the literal length, are a MetadataError."""
    with pytest.raises(MetadataError, match="cut off"):
        CompositeMetadata.decode(bytes.fromhex(vector["hex"])).entries  # noqa: B018 - it reads


def test_a_well_known_type_sent_as_a_string_is_the_same_type():
    """CompositeMetadata.md allows the long form of a well-known type."""
    name = MIME.ROUTING.encode()
    data = bytes([len(name) - 1]) + name + b"\0\0\1\0"
    assert CompositeMetadata.decode(data).first(MIME.ROUTING) == b"\0"


def test_unknown_entries_are_kept_and_skipped():
    """An unassigned id is no error: it is kept, and the next entry is read."""
    data = b"\xd0\0\0\2ab" + TWO
    composite = CompositeMetadata.decode(data)
    assert composite.first(MIME.ROUTING) == b"\x04echo"
    assert composite.first(0x50) == b"ab"
    assert composite.encode() == data


def test_entries_of_one_type_keep_their_order():
    """`first` gives the first, `all` gives all, in their order; names may be in any case."""
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


class Watched(bytes):
    """Bytes that count the bytes that are read from them."""

    taken = 0

    def __getitem__(self, key):
        part = super().__getitem__(key)
        self.taken += 1 if isinstance(part, int) else len(part)
        return part


def test_reading_is_lazy():
    """`first` reads no further than the entry it finds, so damage behind that is not noticed."""
    composite = CompositeMetadata.decode(TWO + b"\xff")
    assert composite
    for _ in range(2):
        assert composite.first(MIME.ROUTING) == b"\x04echo"
        with pytest.raises(MetadataError, match="at byte 14 is cut off"):
            composite.first("x")
    assert composite.first(MIME.TRACING_ZIPKIN) == b"\x10"


def test_the_content_of_skipped_entries_is_not_read():
    """Only the type and length of a skipped entry are read."""
    large = CompositeMetadata(
        [MetadataEntry("x/" + "y" * 100, bytes(10_000)), MetadataEntry(7, bytes(10_000))]
    )
    data = Watched(large.encode() + TWO)
    assert CompositeMetadata.decode(data).first(MIME.ROUTING) == b"\x04echo"
    assert data.taken < 130
    data = Watched(TWO + large.encode())
    assert CompositeMetadata.decode(data).first(MIME.ROUTING) == b"\x04echo"
    assert data.taken < 12


def test_no_more_entries_are_read_than_the_limit():
    """An entry past the limit is not read by any method."""
    data = Watched(b"\xd0\0\0\0" * 250_000)
    composite = CompositeMetadata.decode(data)
    readers = [
        lambda: composite.first("x"),
        lambda: composite.find(["x", "y"]),
        lambda: composite.all("x"),
        lambda: composite.entries,
        lambda: len(composite),
        lambda: list(composite),
        lambda: composite.encode(),
        lambda: hash(composite),
        lambda: composite == CompositeMetadata(),
    ]
    for read in readers:
        with pytest.raises(
            MetadataTooLarge, match=r"^more than 128 entries of metadata \(max_metadata_entries\)$"
        ):
            read()
    assert repr(composite) == "<CompositeMetadata 1000000 bytes as received>"
    assert data.taken < len(readers) * DEFAULT_LIMITS.max_metadata_entries * 8


@pytest.mark.parametrize(("limit", "refused"), [(3, False), (2, True)])
def test_the_limit_of_entries_at_its_edge(limit, refused):
    """Up to the limit all entries are read; with one more, none behind the limit is found."""
    entries = [MetadataEntry("a", b"1"), MetadataEntry("b", b"2"), MetadataEntry("c", b"3")]
    data = CompositeMetadata(entries).encode()
    composite = CompositeMetadata.decode(data, limits=Limits(max_metadata_entries=limit))
    with pytest.raises(MetadataTooLarge) if refused else nullcontext():
        assert composite.entries == tuple(entries)
    with pytest.raises(MetadataTooLarge) if refused else nullcontext():
        assert composite.first("c") == b"3"
    with pytest.raises(MetadataTooLarge) if refused else nullcontext():
        assert composite.first("d") is None
    assert composite.first("b") == b"2"


def test_several_types_in_one_pass():
    """`find` gives the first of each type, by its given name, and stops at the last."""
    composite = CompositeMetadata.decode(TWO + b"\xfe\0\0\1?" + b"\0x\0\0\0" + b"\xff")
    wanted = [MIME.ROUTING.upper(), "X"]
    assert composite.find(wanted) == {MIME.ROUTING.upper(): b"\x04echo", "X": b""}
    with pytest.raises(MetadataError, match="at byte 24 is cut off"):
        composite.find([*wanted, "y"])
    assert composite.find(wanted, optional=["y", MIME.TRACING_ZIPKIN]) == {
        MIME.ROUTING.upper(): b"\x04echo",
        "X": b"",
        MIME.TRACING_ZIPKIN: b"\x10",
    }
    with pytest.raises(MetadataError, match="at byte 24 is cut off"):
        composite.find(["y"], optional=wanted)
    made = CompositeMetadata([MetadataEntry("X/y", b"1"), MetadataEntry("x/Y", b"2")])
    assert made.find(["x/y", "z"]) == {"x/y": b"1"}
    assert composite.find([]) == {}


known = st.sampled_from([MIME.ROUTING, MIME.JSON, "Application/Json", "x/y", "X/Y", 0x50, 0x51])
few = st.builds(MetadataEntry, known, st.binary(max_size=3))


@given(st.lists(few, max_size=8), st.lists(known, max_size=4), st.binary(max_size=6))
def test_find_agrees_with_iteration(written, wanted, rest):
    """Skipping bytes finds the same entries as iterating, in made and received metadata."""
    made = CompositeMetadata(written)
    received = CompositeMetadata.decode(made.encode())
    damaged = CompositeMetadata.decode(made.encode() + rest)

    def same(one, other):
        return str(one).lower() == str(other).lower()

    for mime_type in wanted:
        contents = tuple([e.content for e in written if same(e.mime_type, mime_type)])
        for composite in (made, received):
            assert composite.all(mime_type) == contents
            assert composite.first(mime_type) == next(iter(contents), None)
        if contents:
            assert damaged.first(mime_type) == contents[0]
    expected = {
        mime_type: received.first(mime_type)
        for number, mime_type in enumerate(wanted)
        if received.first(mime_type) is not None
        and not any(same(mime_type, other) for other in wanted[:number])
    }
    for composite in (made, received):
        assert composite.find(wanted) == composite.find([], wanted) == expected


def test_a_name_of_one_byte_is_not_a_number():
    """The byte of a name may be that of an id: then it is not ASCII, and not that type."""
    composite = CompositeMetadata.decode(b"\x00\xfe\0\0\1a" + TWO)
    assert composite.first(MIME.ROUTING) == b"\x04echo"
    for length in (1, 66, 98, 128):
        name = "a" * length
        entry = MetadataEntry(name.upper(), b"1").encode()
        composite = CompositeMetadata.decode(entry)
        assert composite.first(name) == b"1"
        assert composite.first(name + "a") is None
        assert composite.first(name[1:]) is None


def test_iterations_do_not_disturb_each_other():
    """Two readers of one object each see all entries."""
    composite = CompositeMetadata.decode(TWO)
    assert [one.mime_type for one in composite for _ in composite] == [
        *[MIME.ROUTING] * 2,
        *[MIME.TRACING_ZIPKIN] * 2,
    ]


def test_composite_metadata_are_values():
    """They compare and hash by their entries, made or received."""
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
    """Content may be a password: a log line shows type and size."""
    entry = MetadataEntry(MIME.AUTHENTICATION, b"\x81secret")
    assert repr(entry) == f"<MetadataEntry '{MIME.AUTHENTICATION}', 7 bytes>"
    assert "secret" not in repr(CompositeMetadata([entry]))
    assert "secret" not in repr(CompositeMetadata.decode(entry.encode()))


def test_the_size_of_content_is_limited():
    """The length of an entry has 24 bits."""
    largest = MetadataEntry("x", bytes(0xFFFFFF)).encode()
    assert largest[:5] == b"\0x\xff\xff\xff"
    with pytest.raises(MetadataError, match="at most 16777215 bytes, not 16777216"):
        MetadataEntry("x", bytes(0x1000000)).encode()


@given(st.lists(entries, max_size=5))
def test_written_entries_are_read_back(written):
    """Any entries come back unchanged, in order."""
    assert CompositeMetadata.decode(CompositeMetadata(written).encode()).entries == tuple(written)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_a_metadata_error(data):
    """There is no other exception."""
    try:
        composite = CompositeMetadata.decode(data)
        again = CompositeMetadata.decode(composite.encode())
    except MetadataError:
        return
    assert again == composite


@given(st.lists(entries, min_size=1, max_size=3), st.data())
def test_every_cut_is_an_error_or_fewer_entries(written, data):
    """Metadata cut anywhere give their first entries, and an error unless cut between two."""
    whole = CompositeMetadata(written).encode()
    ends = [len(CompositeMetadata(written[:n]).encode()) for n in range(len(written) + 1)]
    cut = data.draw(st.integers(0, len(whole)))
    if cut in ends:
        assert len(CompositeMetadata.decode(whole[:cut])) == ends.index(cut)
    else:
        with pytest.raises(MetadataError):
            CompositeMetadata.decode(whole[:cut]).encode()


@given(st.lists(entries, max_size=8), st.data())
def test_wanted_entries_are_found_as_one_by_one(written, data):
    """The loop that each request runs gives the first entry of each type, wherever it begins."""
    wanted = data.draw(st.lists(st.sampled_from([e.mime_type for e in written] or ["x"])))
    read = {}
    for entry in written:
        read.setdefault(entry.mime_type, entry.content)
    expected = {name: read[name] for name in wanted if name in read}
    raw = CompositeMetadata(written).encode()
    finder = WantedEntries((), wanted)
    found = finder.find(raw, 8, {})
    assert {name: bytes(content) for name, content in found.items()} == expected
