import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.config import Limits
from rsocket_trio.errors import MetadataError, MetadataTooLarge
from rsocket_trio.metadata.composite import CompositeMetadata, MetadataEntry
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.metadata.routing import decode_route, encode_route, find_route, route_metadata


@pytest.mark.vectors("routing")
def test_golden_vectors_both_ways(vector):
    """Bytes of other stacks are read, and written back unchanged."""
    data, tags = bytes.fromhex(vector["hex"]), tuple(vector["fields"]["tags"])
    assert decode_route(data) == tags
    assert encode_route(*tags) == data


@pytest.mark.parametrize("tag", ["", "x" * 255, "ü" * 127])
def test_tags_of_any_size_up_to_255_bytes(tag):
    """Empty tags are legal by the layout, and so are 255 bytes."""
    assert decode_route(encode_route(tag, "next")) == (tag, "next")


@pytest.mark.parametrize(
    ("tag", "reason"), [("ü" * 128, "255 bytes, not 256"), ("\ud800", "UTF-8")]
)
def test_tags_that_cannot_be_written(tag, reason):
    """256 bytes are too long, and a lone surrogate is not UTF-8."""
    with pytest.raises(MetadataError, match=reason):
        encode_route(tag)


@pytest.mark.parametrize(("data", "reason"), [(b"\x02x", "cut off"), (b"\x01\xff", "not UTF-8")])
def test_damaged_tags_are_metadata_errors(data, reason):
    """A tag cut off, or one that is not UTF-8."""
    with pytest.raises(MetadataError, match=reason):
        decode_route(data)


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_a_metadata_error(data):
    """There is no other exception, and tags that were read are written back unchanged."""
    try:
        tags = decode_route(data)
    except MetadataError:
        return
    assert encode_route(*tags) == data


def test_the_limit_of_tags_at_its_edge():
    """64 tags are read, and one more is an error; empty ones count too."""
    assert decode_route(bytes(64)) == ("",) * 64
    with pytest.raises(MetadataTooLarge, match=r"^more than 64 routing tags \(max_routing_tags\)$"):
        decode_route(bytes(65))
    few = Limits(max_routing_tags=2)
    assert decode_route(b"\1a\1b", limits=few) == ("a", "b")
    with pytest.raises(MetadataTooLarge):
        decode_route(b"\1a\1b\xff", limits=few)  # The rest is not read.
    metadata = route_metadata("a", more=MetadataEntry("x").encode())
    assert find_route(metadata, MIME.COMPOSITE_METADATA, limits=few) == ("a",)
    with pytest.raises(MetadataTooLarge):
        find_route(bytes(3), MIME.ROUTING, limits=few)
    with pytest.raises(MetadataTooLarge):
        find_route(
            b"\xd0\0\0\0" * 2, MIME.COMPOSITE_METADATA, limits=Limits(max_metadata_entries=1)
        )


def test_a_route_is_an_entry_of_composite_metadata():
    """With composite metadata, the default, the route is an entry in front of the others."""
    assert route_metadata("echo").hex() == "fe000005046563686f"
    other = MetadataEntry("x", b"1").encode()
    both = route_metadata("echo", MIME.COMPOSITE_METADATA.upper(), more=other)
    assert CompositeMetadata.decode(both).entries == (
        MetadataEntry(MIME.ROUTING, b"\x04echo"),
        MetadataEntry("x", b"1"),
    )


def test_a_route_is_the_metadata_where_that_is_routing():
    """With message/x.rsocket.routing.v0 the metadata are the route, and nothing else fits."""
    assert route_metadata("echo", MIME.ROUTING) == b"\x04echo"
    assert route_metadata("echo", MIME.ROUTING, more=b"") == b"\x04echo"
    with pytest.raises(MetadataError, match="a route or other metadata, not both"):
        route_metadata("echo", MIME.ROUTING, more=b"x")


def test_other_metadata_has_no_place_for_a_route():
    """The error says what to do."""
    with pytest.raises(MetadataError, match=r"'application/json'.*connect with metadata_mime_type"):
        route_metadata("echo", MIME.JSON)


@pytest.mark.parametrize(
    ("metadata", "mime_type", "tags"),
    [
        (None, MIME.COMPOSITE_METADATA, None),
        (b"", MIME.COMPOSITE_METADATA, None),
        (b"", MIME.ROUTING, ()),
        (b"\x04echo\x01t", MIME.ROUTING, ("echo", "t")),
        (route_metadata("echo"), MIME.COMPOSITE_METADATA, ("echo",)),
        (route_metadata("echo"), MIME.JSON, None),
    ],
)
def test_finding_the_route(metadata, mime_type, tags):
    """Tags come from routing metadata, bare or composite; without it there are none."""
    assert find_route(metadata, mime_type) == tags


@pytest.mark.parametrize("tag", [5, None, b"route"])
def test_a_tag_that_is_no_text(tag):
    """The error says of which type it is."""
    with pytest.raises(TypeError, match=f"must be a str, not {type(tag).__name__}"):
        encode_route("route", tag)
