import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MetadataError
from rsocket_trio.metadata.authentication import (
    BearerAuthentication,
    CustomAuthentication,
    SimpleAuthentication,
    decode_authentication,
)


@pytest.mark.vectors("authentication")
def test_golden_vectors_both_ways(vector):
    """Bytes of other stacks are read, and written back unchanged (ids, not names)."""
    fields = vector["fields"]
    if fields["auth_type"] == "simple":
        wanted = SimpleAuthentication(fields["username"], fields["password"])
    else:
        wanted = BearerAuthentication(fields["token"])
    data = bytes.fromhex(vector["hex"])
    assert decode_authentication(data) == wanted
    if not fields.get("as_string"):
        assert wanted.encode() == data


@pytest.mark.parametrize("auth_type", ["digest", "x" * 128, 0x02])
def test_other_types_both_ways(auth_type):
    """The payload of an unknown type is kept as it is."""
    custom = CustomAuthentication(auth_type, b"\x01\x02")
    assert decode_authentication(custom.encode()) == custom


@pytest.mark.parametrize("username", ["", "x", "x" * 65535])
@pytest.mark.parametrize("password", ["", "y" * 70_000])
def test_simple_authentication_of_any_size(username, password):
    """A user name has up to 65535 bytes; a password may have any size, also zero."""
    simple = SimpleAuthentication(username, password)
    encoded = simple.encode()
    assert encoded[1:3] == len(username).to_bytes(2, "big")
    assert decode_authentication(encoded) == simple
    for end in (2, 2 + len(username)):
        with pytest.raises(MetadataError, match=r"the user name of simple .* is cut off"):
            decode_authentication(encoded[:end])


def test_names_are_written_with_their_length_less_one():
    """Six characters, so the first byte is five, as in other stacks."""
    assert CustomAuthentication("digest", b"\x01").encode() == b"\x05digest\x01"


@pytest.mark.vectors("authentication-literal")
def test_a_literal_length_of_a_name_is_misread(vector):
    """With the length itself, the name takes a byte of the payload."""
    decoded = decode_authentication(bytes.fromhex(vector["hex"]))
    assert decoded == CustomAuthentication("digest\x01", b"\x02")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "missing"),
        ("8000", "cut off"),
        ("80000975736572", "cut off"),
        ("800001ff", "the user name is not UTF-8"),
        ("800000ff", "the password is not UTF-8"),
        ("81ff", "the token is not UTF-8"),
    ],
)
def test_damaged_authentication_is_a_metadata_error(data, reason):
    """Authentication cut short or not UTF-8 is a MetadataError."""
    with pytest.raises(MetadataError, match=reason):
        decode_authentication(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (SimpleAuthentication("x" * 65536, ""), "65536"),
        (SimpleAuthentication("\ud800", ""), "the user name cannot"),
        (SimpleAuthentication("", "\ud800"), "the password cannot"),
        (BearerAuthentication("\ud800"), "the token cannot"),
        (CustomAuthentication("simple"), ": use SimpleAuthentication"),
        (CustomAuthentication(0x01), ": use SimpleAuthentication or BearerAuthentication"),
        (CustomAuthentication(""), "type of authentication"),
    ],
)
def test_values_that_cannot_be_written_are_refused(credentials, reason):
    """A user name has 65535 bytes at most, text is UTF-8, and well-known types have classes."""
    with pytest.raises(MetadataError, match=reason):
        credentials.encode()


def test_repr_shows_no_secret():
    """An accidental log line shows no credentials."""
    for credentials in (
        SimpleAuthentication("user", "secret"),
        BearerAuthentication("secret"),
        CustomAuthentication("digest", b"secret"),
    ):
        assert "secret" not in repr(credentials)


def test_errors_show_no_secret():
    """Neither the error nor its cause shows one."""
    with pytest.raises(MetadataError) as caught:
        decode_authentication(b"\x81secret\xff")
    assert "secret" not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__suppress_context__


@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_a_metadata_error(data):
    """There is no other exception, and authentication that was read can be written."""
    try:
        credentials = decode_authentication(data)
    except MetadataError:
        return
    assert decode_authentication(credentials.encode()) == credentials


def test_a_bearer_token_whose_type_is_a_name():
    """A peer may write the name where the id would be shorter: it means the same."""
    assert decode_authentication(b"\x05bearertoken") == BearerAuthentication("token")
