import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MetadataError
from rsocket_trio.metadata.mime_types import (
    MIME,
    WellKnownMimeType,
    check_mime_type,
    decode_mime_type,
    encode_mime_type,
    same_mime_type,
)


def test_the_table_is_complete():
    """WellKnownMimeTypes.md lists 49 types: 0x00 to 0x2A and 0x7A to 0x7F."""
    assert [member.id for member in WellKnownMimeType] == [*range(0x2B), *range(0x7A, 0x80)]
    assert len({member.mime_type for member in WellKnownMimeType}) == 49


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0x00, "application/avro"),
        (0x05, "application/json"),
        (0x21, "text/plain"),
        (0x25, "video/VP8"),
        (0x2A, "application/x-flatbuffers"),
        (0x7F, "message/x.rsocket.composite-metadata.v0"),
    ],
)
def test_a_member_is_found_by_id_and_by_name_in_any_case(number, name):
    """Ids and names lead to the same member; the case of a name does not matter."""
    member = WellKnownMimeType(number)
    assert (member.id, member.value, member.mime_type) == (number, number, name)
    assert WellKnownMimeType.from_name(name.upper()) is member


@pytest.mark.parametrize(
    "name",
    [*[each.mime_type for each in WellKnownMimeType], "text/plain; charset=utf-8", "a/b;", "X/Y+z"],
)
def test_mime_types_pass_the_check(name):
    assert check_mime_type(name, "data_mime_type") == name


@pytest.mark.parametrize(
    "name", ["", "text", "text/", "/plain", "text plain/x", "a/b/c", "a/b\n", "a/\u00e9", "a/b c"]
)
def test_what_is_no_mime_type_is_refused(name):
    with pytest.raises(ValueError, match="data_mime_type must be a MIME type") as caught:
        check_mime_type(name, "data_mime_type")
    assert str(caught.value).isprintable()


def test_other_names_have_no_member():
    """A type with a parameter is not the well-known one: that implies UTF-8."""
    assert WellKnownMimeType.from_name("text/plain; charset=latin-1") is None


def test_the_constants_are_well_known_types():
    """Each constant of MIME is in the table."""
    names = [value for key, value in vars(MIME).items() if key.isupper()]
    assert len(names) == 10
    assert all(WellKnownMimeType.from_name(name) for name in names)


@pytest.mark.parametrize("member", WellKnownMimeType)
def test_a_well_known_type_is_one_byte_and_its_string_is_read_as_well(member):
    """The id is written; the id and the name are read."""
    encoded = encode_mime_type(member.mime_type)
    assert encoded == bytes([0x80 | member.id])
    assert decode_mime_type(encoded) == (member.mime_type, 1)
    name = member.mime_type
    assert decode_mime_type(bytes([len(name) - 1]) + name.encode()) == (name, len(name) + 1)


def test_an_unassigned_id_stays_a_number():
    """The unassigned id 0x50 is read and written as it is."""
    assert decode_mime_type(b"\xd0", 0) == (0x50, 1)
    assert encode_mime_type(0x50) == b"\xd0"


@pytest.mark.parametrize("size", [1, 128])
def test_the_length_of_a_name_is_stored_less_one(size):
    """1 to 128 characters fit into the seven bits."""
    encoded = encode_mime_type("x" * size)
    assert encoded[0] == size - 1
    assert decode_mime_type(b"??" + encoded, 2) == ("x" * size, size + 3)


@pytest.mark.parametrize("wrong", ["", "x" * 129, "text/größe", -1, 128])
def test_values_that_cannot_be_written_are_refused(wrong):
    """Names are 1 to 128 ASCII characters, ids 0 to 127."""
    with pytest.raises(MetadataError, match="MIME type"):
        encode_mime_type(wrong)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "a MIME type is missing at byte 0"),
        (b"\x00", "a MIME type of 1 bytes at byte 1 is cut off"),
        (b"\x01x", "a MIME type of 2 bytes at byte 1 is cut off"),
        (b"\x7f" + b"x" * 127, "a MIME type of 128 bytes at byte 1 is cut off"),
        (b"\x01\xc3\xa4", "the MIME type at byte 1 is not ASCII"),
    ],
)
def test_damaged_names_are_metadata_errors(data, reason):
    """A damaged name is a MetadataError, and no other exception."""
    with pytest.raises(MetadataError, match=reason):
        decode_mime_type(data)


@given(st.binary(max_size=140), st.integers(0, 150))
def test_any_bytes_decode_or_are_a_metadata_error(data, offset):
    """This holds for any offset; a type that was read can be written."""
    try:
        value, end = decode_mime_type(data, offset)
    except MetadataError:
        return
    assert offset < end <= len(data)
    assert decode_mime_type(encode_mime_type(value))[0] == value


def test_types_are_compared_without_case():
    """Names are the same in any case; an id equals only itself."""
    assert same_mime_type("application/JSON", MIME.JSON)
    assert same_mime_type(0x50, 0x50)
    assert not same_mime_type(0x50, "0x50")
    assert not same_mime_type("x", 0x50)
    assert not same_mime_type(MIME.JSON, MIME.CBOR)
