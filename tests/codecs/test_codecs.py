"""Codecs by MIME type: text, octets, charsets, and codecs of the application."""

from datetime import date, datetime
from ipaddress import IPv4Address
from typing import Any

import pytest

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError, Codecs, JsonCodec
from rsocket_trio.codecs.compiling import Kept
from rsocket_trio.codecs.registry import explain
from rsocket_trio.errors import RSocketError
from rsocket_trio.metadata.mime_types import MIME

from .annotated import BOTH, Point


class Unknown:
    """A class that no codec knows."""


@pytest.mark.parametrize("mime_type", [*BOTH, MIME.TEXT, MIME.OCTET_STREAM, "image/png", ""])
def test_bytes_are_the_raw_data_of_any_type(mime_type):
    """The annotation bytes means no conversion, for known and unknown MIME types."""
    for annotation in (bytes, bytes | None):
        assert DEFAULT_CODECS.decode(b"\xff", annotation, mime_type) == b"\xff"
        for value in (b"\xff", bytearray(b"\xff"), memoryview(b"\xff")):
            data = DEFAULT_CODECS.encode(value, annotation, mime_type)
            assert (data, type(data)) == (b"\xff", bytes)
        with pytest.raises(CodecError, match="expected bytes, got str"):
            DEFAULT_CODECS.encode("x", annotation, mime_type)


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("42", str, "42"),
        ("42", str | None, "42"),
        ("42", object, "42"),
        ("", str, ""),
        ("", str | None, None),
        ("42", int, 42),
        ("", int | None, None),
        ('{"a":1}', dict, {"a": 1}),
        ("[1]", list[int], [1]),
        ('{"x":1,"y":0.0}', Point, Point(1)),
    ],
)
def test_plain_text_is_text_or_json_text(text, annotation, value):
    """str is the text as it is; other types use JSON."""
    assert DEFAULT_CODECS.decode(text.encode(), annotation, MIME.TEXT) == value
    if value is not None or annotation == (str | None):
        assert DEFAULT_CODECS.encode(value, annotation, MIME.TEXT) == text.encode()


def test_plain_text_without_a_type():
    """A str is written as it is, other values as JSON text."""
    assert DEFAULT_CODECS.encode("a", Any, MIME.TEXT) == b"a"
    assert DEFAULT_CODECS.encode([1], Any, MIME.TEXT) == b"[1]"
    assert DEFAULT_CODECS.encode(None, Any, MIME.TEXT) == b"null"


@pytest.mark.parametrize(
    ("codecs", "mime_type"),
    [(DEFAULT_CODECS, MIME.TEXT), (Codecs(raw_text=True), MIME.CBOR), (Codecs.for_spring(), "")],
)
def test_none_where_texts_are_the_data(codecs, mime_type):
    """None by itself, as a `Caller` writes it, is None for who takes a text: not the text null."""
    data = codecs.encode(None, type(None), mime_type or MIME.JSON)
    for annotation in (str | None, int | None, type(None)):
        assert codecs.decode(data, annotation, mime_type or MIME.JSON) is None
    with pytest.raises(CodecError):
        codecs.encode(1, None, mime_type or MIME.JSON)


@pytest.mark.parametrize(
    ("value", "annotation", "mime_type", "text"),
    [
        (IPv4Address("127.0.0.1"), Any, MIME.JSON, "this format has no IPv4Address"),
        (Unknown(), Any, MIME.CBOR, "no Unknown: convert it, or register it in Codecs"),
        ({1.5: 1}, dict[float, int], MIME.JSON, "keys are text, and float is not read from text"),
        (1, str, MIME.TEXT, "expected str, got int"),
        (1, int, MIME.OCTET_STREAM, "octets are written, got int"),
        (datetime(2024, 1, 1), datetime | date, MIME.CBOR, "without one it is written as text"),
    ],
)
def test_why_a_value_cannot_be_written(value, annotation, mime_type, text):
    """The error says why, also where the annotation is the reason."""
    with pytest.raises(CodecError, match=text):
        DEFAULT_CODECS.encode(value, annotation, mime_type)


def test_why_data_cannot_be_read_as_a_type():
    """If a MIME type never has the type, its error says so, and to the peer with `explain`, too."""
    with pytest.raises(CodecError, match="str and bytes cannot be told apart") as caught:
        DEFAULT_CODECS.decode(b'"a"', str | bytes, MIME.JSON)
    assert explain(caught.value, "v") == "v: in str | bytes, str and bytes cannot be told apart"


@pytest.mark.parametrize(
    ("value", "annotation", "data"),
    [("ü", str, b"\xc3\xbc"), ("a", Any, b"a"), (b"\xff", Any, b"\xff"), (None, str | None, b"")],
)
def test_octets_are_bytes_or_text(value, annotation, data):
    """str is written as UTF-8, bytes as they are."""
    assert DEFAULT_CODECS.encode(value, annotation, MIME.OCTET_STREAM) == data
    wanted = data if annotation is Any else value
    assert DEFAULT_CODECS.decode(data, annotation, MIME.OCTET_STREAM) == wanted


@pytest.mark.parametrize("mime_type", [MIME.TEXT, MIME.OCTET_STREAM])
@pytest.mark.parametrize(("value", "annotation"), [(1, str), (None, str), (1, str | None)])
def test_text_is_not_made_of_other_values(mime_type, value, annotation):
    """A handler that promises str and returns an int has an error, which is reported."""
    with pytest.raises(CodecError, match=f"cannot be written as {mime_type}"):
        DEFAULT_CODECS.encode(value, annotation, mime_type)


def test_octets_cannot_hold_other_values():
    """An int has no octets of its own; the error names the MIME type."""
    with pytest.raises(CodecError, match="application/octet-stream cannot be read as int"):
        DEFAULT_CODECS.decode(b"1", int, MIME.OCTET_STREAM)
    with pytest.raises(CodecError, match="application/octet-stream"):
        DEFAULT_CODECS.encode(1, int, MIME.OCTET_STREAM)


def test_the_error_of_an_unknown_type_lists_the_known_ones():
    """Data of a type without a codec can only be bytes."""
    message = r"no codec for 'image/png'.* application/cbor, application/json, .*text/plain"
    with pytest.raises(CodecError, match=message):
        DEFAULT_CODECS.decode(b"1", int, "image/png")
    with pytest.raises(CodecError, match=message):
        DEFAULT_CODECS.encode(1, object, "image/png")
    assert issubclass(CodecError, RSocketError)


@pytest.mark.parametrize(
    "mime_type",
    [
        "Application/JSON",
        "application/json;charset=utf-8",
        'application/json ; q=1; Charset="UTF-8"',
    ],
)
def test_case_and_parameters_of_a_mime_type(mime_type):
    """A MIME type is found in any case, and with parameters."""
    assert DEFAULT_CODECS.decode(b"1", int, mime_type) == 1


@pytest.mark.parametrize(
    ("mime_type", "data"),
    [
        ("application/problem+json", b"[1]"),
        ("Application/Vnd.Test.V1+JSON; charset=utf-8", b"[1]"),
        ("application/senml+cbor", b"\x81\x01"),
        ("model/x.a+b+cbor", b"\x81\x01"),
    ],
)
def test_the_suffix_of_a_mime_type(mime_type, data):
    """Types that end with +json or +cbor have the codecs of JSON and CBOR (RFC 6839, RFC 8949)."""
    assert DEFAULT_CODECS.decode(data, list[int], mime_type) == [1]
    assert DEFAULT_CODECS.encode([1], list[int], mime_type) == data
    assert DEFAULT_CODECS.can_encode(list[int], mime_type)


@pytest.mark.parametrize("mime_type", ["image/svg+xml", "json", "+", "", "application/json+", "a"])
def test_other_suffixes_have_no_codec(mime_type):
    """Only a whole suffix that names JSON or CBOR tells a format."""
    assert DEFAULT_CODECS.registered(mime_type) is None
    with pytest.raises(CodecError, match="no codec"):
        DEFAULT_CODECS.decode(b"[1]", list[int], mime_type)


def test_a_codec_of_ones_own_comes_before_a_suffix():
    """A type that is registered itself keeps its codec; a suffix gets the codec put for JSON."""

    class Counting:
        def encode(self, value, annotation):
            return b"own"

        def decode(self, data, annotation):
            return "own"

    codecs = Codecs({"application/problem+json": Counting()})
    assert codecs.decode(b"[]", str, "application/problem+json") == "own"
    assert codecs.decode(b"[]", list, "application/other+json") == []
    codecs = Codecs({"application/json": Counting()})
    assert codecs.decode(b"[]", str, "application/other+json") == "own"


def test_another_charset_is_an_error():
    """Text is UTF-8; another decoding would give wrong letters."""
    with pytest.raises(CodecError, match="UTF-8, not 'latin-1'"):
        DEFAULT_CODECS.decode(b"1", str, "text/plain; charset=latin-1")
    assert DEFAULT_CODECS.decode(b"\xff", bytes, "text/plain; charset=latin-1") == b"\xff"


def test_codecs_can_be_added_and_replaced():
    """A custom codec has two methods; their errors become CodecError."""

    class Reversed:
        def encode(self, value, annotation):
            return value.encode()[::-1]

        def decode(self, data, annotation):
            return data[::-1].decode()

    codecs = Codecs({"Text/Plain": Reversed(), "x/reversed": Reversed()})
    assert "x/reversed" in codecs.mime_types
    for mime_type in ("text/plain", "x/REVERSED"):
        assert codecs.encode("ab", str, mime_type) == b"ba"
        assert codecs.decode(b"ba", str, mime_type) == "ab"
        with pytest.raises(CodecError) as caught:
            codecs.decode(b"\xff", str, mime_type)
        assert isinstance(caught.value.__cause__, UnicodeDecodeError)


@pytest.mark.parametrize(
    ("annotation", "mime_type", "can"),
    [(int, "application/json", True), (int, "APPLICATION/CBOR;x=y", True),
     (bytes, "application/json", False), (int, "image/png", False),
     (str, "application/octet-stream", True), (int, "application/octet-stream", False)],
)  # fmt: skip
def test_types_that_can_be_encoded(annotation, mime_type, can):
    """It is known in advance which types can be encoded."""
    assert Codecs().can_encode(annotation, mime_type) is can


class Shouting(JsonCodec):
    """It extends both methods of a codec that is built in."""

    def encode(self, value, annotation):
        return super().encode(value, annotation).upper()

    def decode(self, data, annotation):
        return super().decode(data.lower(), annotation)


def test_a_codec_that_is_extended_is_called():
    """Its methods are, and not the functions that those of the base would have found."""
    codecs = Codecs({MIME.JSON: Shouting()})
    assert codecs.encode("a", str, MIME.JSON) == b'"A"'
    assert codecs.decode(b'"A"', str, MIME.JSON) == "a"


@pytest.mark.parametrize("codec", [JsonCodec, "json", None])
def test_what_is_no_codec(codec):
    with pytest.raises(
        TypeError, match="the codec for 'x/y' is not an object with encode and decode"
    ):
        Codecs({"x/y": codec})


def test_what_is_kept_of_annotations_is_bounded():
    """A program may make types without end; each of them works, and not all are kept."""
    kept = Kept(str)
    for number in range(3000):
        assert kept.of(number) == str(number)
        assert len(kept._known) <= 1025
