from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.config import Limits
from rsocket_trio.errors import MetadataError, MetadataTooLarge
from rsocket_trio.metadata import (
    MIME,
    BearerAuthentication,
    CompositeMetadata,
    CustomAuthentication,
    Metadata,
    MetadataEntry,
    SimpleAuthentication,
    ZipkinTrace,
    encode_route,
)

TRACE = ZipkinTrace(trace_id=b"t" * 8, span_id=b"s" * 8)
FULL = Metadata(
    route="greet",
    tags=["eu", "v2"],
    auth=BearerAuthentication("hunter2"),
    trace=TRACE,
    data_mime_type=MIME.JSON,
    accept=[MIME.JSON, MIME.CBOR],
    extra=[("text/x-note", b"hello"), (99, b"")],
)


def test_entries_in_order():
    """The route comes first, then authentication, the trace, the types, and the rest."""
    assert FULL.encode() == b"".join(
        [
            b"\xfe\x00\x00\x0c\x05greet\x02eu\x02v2",
            b"\xfc\x00\x00\x08\x81hunter2",
            b"\xfd\x00\x00\x11\x80" + b"t" * 8 + b"s" * 8,
            b"\xfa\x00\x00\x01\x85",
            b"\xfb\x00\x00\x02\x85\x81",
            b"\x0atext/x-note\x00\x00\x05hello",
            b"\xe3\x00\x00\x00",
        ]
    )


def test_written_metadata_are_read_back():
    """This includes entries of unknown types."""
    assert Metadata.decode(FULL.encode()) == FULL


names = st.text("abc/.", min_size=3, max_size=9).map(lambda s: f"x/{s}")
mime_types = st.sampled_from([MIME.CBOR, MIME.TEXT]) | names | st.integers(50, 100)


@settings(max_examples=60)
@given(
    st.builds(
        Metadata,
        route=st.none() | st.text(max_size=9),
        auth=st.none()
        | st.builds(SimpleAuthentication, st.text(max_size=9), st.text(max_size=9))
        | st.builds(CustomAuthentication, names, st.binary(max_size=9)),
        trace=st.none() | st.just(TRACE),
        data_mime_type=st.none() | mime_types,
        accept=st.lists(mime_types, max_size=3),
        extra=st.lists(st.tuples(names, st.binary(max_size=9)), max_size=3),
    )
)
def test_round_trip(metadata):
    """Any metadata are read as they were written."""
    assert Metadata.decode(metadata.encode()) == metadata


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.binary(max_size=9).map(lambda b: FULL.encode()[:-4] + b))
def test_any_bytes(data):
    """Any bytes are metadata or a MetadataError."""
    with suppress(MetadataError):
        Metadata.decode(data)


def test_empty_metadata_add_nothing():
    """The payload's own metadata stay as they are, absent included."""
    assert Metadata().encode() is None
    assert Metadata().encode("text/plain", more=b"more") == b"more"
    assert Metadata.decode(None) == Metadata.decode(b"") == Metadata()


def test_given_metadata_go_behind():
    """Entries that are encoded already follow."""
    assert Metadata(route="a").encode(more=b"\xe3\x00\x00\x00") == b"\xfe\0\0\2\1a\xe3\0\0\0"


def test_a_connection_with_one_type_of_metadata():
    """It has room for that one entry only."""
    assert Metadata(route="a", tags=("b",)).encode(MIME.ROUTING) == encode_route("a", "b")
    assert Metadata.decode(b"\1a", MIME.ROUTING.upper()) == Metadata(route="a")
    assert Metadata.decode(b"x", "text/plain").extra == (MetadataEntry("text/plain", b"x"),)


@pytest.mark.parametrize(
    ("metadata", "more", "text"),
    [
        (Metadata(trace=TRACE), None, "tracing-zipkin.v0 cannot be sent as 'message/x.r"),
        (Metadata(route="a", trace=TRACE), None, "routing.v0 and message/x.*zipkin.v0 cannot"),
        (Metadata(route="a"), b"\1b", "routing.v0 cannot be sent together with"),
    ],
)
def test_entries_without_a_place_are_named(metadata, more, text):
    """The error also says which metadata type to use."""
    with pytest.raises(MetadataError, match=text):
        metadata.encode(MIME.ROUTING, more=more)


def test_tags_need_a_route():
    """Without a route, the first tag would be read as the route."""
    with pytest.raises(MetadataError, match="but no route"):
        Metadata(tags=["a"]).encode()


def test_one_type_may_be_given_alone():
    """A single accepted type need not be in a list."""
    assert Metadata(accept=MIME.JSON).accept == (MIME.JSON,)


def test_repeated_entries_are_kept():
    """The first of a kind counts; later ones are kept as they are, with any content."""
    entries = [
        MetadataEntry(MIME.ROUTING, b"\1a"),
        MetadataEntry(MIME.ROUTING.upper(), b"\xffdamaged"),
        MetadataEntry(7, b"x"),
    ]
    read = Metadata.decode(CompositeMetadata(entries).encode())
    assert (read.route, len(read.extra)) == ("a", 2)


@pytest.mark.parametrize("mime_type", [MIME.ROUTING, MIME.ACCEPT_MIME_TYPES])
def test_an_empty_entry_before_another(mime_type):
    """The first entry counts, also after metadata were decoded and encoded again by a proxy."""
    content = encode_route("admin") if mime_type == MIME.ROUTING else b"\x85"
    entries = [MetadataEntry(mime_type), MetadataEntry(mime_type, content)]
    data = CompositeMetadata(entries).encode()
    metadata = Metadata.decode(data)
    assert (metadata.route, metadata.accept) == (None, ())
    assert metadata.encode() == data
    assert Metadata.decode(CompositeMetadata(entries[:1]).encode()) == Metadata()


@pytest.mark.parametrize(
    "limits",
    [Limits(max_metadata_entries=6), Limits(max_routing_tags=2), Limits(max_accept_types=1)],
)
def test_the_limits_of_entries(limits):
    """One entry past a limit is refused; as many as the limit are read."""
    data = FULL.encode()
    with pytest.raises(MetadataTooLarge):
        Metadata.decode(data, limits=limits)
    one_more = Limits(max_metadata_entries=7, max_routing_tags=3, max_accept_types=2)
    assert Metadata.decode(data, limits=one_more) == FULL
    with pytest.raises(MetadataTooLarge):
        Metadata.decode(bytes(3), MIME.ROUTING, limits=Limits(max_routing_tags=2))


def test_repr_hides_secrets():
    """It shows neither a token nor the content of other entries."""
    shown = repr(FULL)
    assert "hunter2" not in shown
    assert "hello" not in shown
    assert "greet" in shown
