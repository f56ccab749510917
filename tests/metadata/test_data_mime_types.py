import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.config import Limits
from rsocket_trio.errors import MetadataError, MetadataTooLarge
from rsocket_trio.metadata.data_mime_types import AcceptMimeTypes, DataMimeType, each_mime_type
from rsocket_trio.metadata.mime_types import MIME


@pytest.mark.vectors("mime-type")
def test_golden_mime_types_both_ways(vector):
    """Bytes of other stacks are read, and written back unchanged."""
    data, [name] = bytes.fromhex(vector["hex"]), vector["fields"]["mimes"]
    assert DataMimeType.decode(data) == DataMimeType(name)
    assert DataMimeType(name).encode() == data


@pytest.mark.vectors("accept-mime-types")
def test_golden_accepted_types_both_ways(vector):
    """The order of the list is the requester's preference."""
    data, names = bytes.fromhex(vector["hex"]), vector["fields"]["mimes"]
    assert AcceptMimeTypes.decode(data).mime_types == tuple(names)
    assert AcceptMimeTypes(names).encode() == data


def test_an_empty_list_is_legal():
    """A list of no accepted types is valid."""
    assert AcceptMimeTypes.decode(b"") == AcceptMimeTypes(())


@pytest.mark.parametrize(("data", "reason"), [(b"", "missing"), (b"\x85\x81", "1 bytes follow")])
def test_a_mime_type_entry_is_one_mime_type(data, reason):
    """None and two are errors."""
    with pytest.raises(MetadataError, match=reason):
        DataMimeType.decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_a_metadata_error(data):
    """There is no other exception, and a type that was read can be written."""
    for kind in (DataMimeType, AcceptMimeTypes):
        try:
            decoded = kind.decode(data)
        except MetadataError:
            continue
        assert kind.decode(decoded.encode()) == decoded


def test_the_limit_of_accepted_types_at_its_edge():
    """64 types are read, and one more is an error; a caller that iterates may stop before it."""
    assert AcceptMimeTypes.decode(b"\x85" * 64).mime_types == (MIME.JSON,) * 64
    with pytest.raises(
        MetadataTooLarge, match=r"^more than 64 accepted types \(max_accept_types\)$"
    ):
        AcceptMimeTypes.decode(b"\x85" * 65)
    one = Limits(max_accept_types=1)
    assert AcceptMimeTypes.decode(b"\x85", limits=one).mime_types == (MIME.JSON,)
    with pytest.raises(MetadataTooLarge):
        AcceptMimeTypes.decode(b"\x85\x81", limits=one)
    types = each_mime_type(b"\x85\xd0\x20")
    assert [next(types), next(types)] == [MIME.JSON, 0x50]
    with pytest.raises(MetadataError, match="cut off"):
        next(types)


def test_values_that_cannot_be_written_are_refused():
    """An empty name cannot be written."""
    with pytest.raises(MetadataError):
        AcceptMimeTypes([MIME.JSON, ""]).encode()
