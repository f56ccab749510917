"""What cannot be read back is not written: levels and integers without a bound."""

from typing import Any

import attrs
import pytest

from rsocket_trio.codecs import CborCodec, CodecError, Codecs
from rsocket_trio.metadata.mime_types import MIME

from .annotated import BOTH


@attrs.define
class Chain:
    next: "Chain | list[int] | None" = None


def nested(levels, wrap):
    value = None
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(
    ("annotation", "wrap"),
    [
        (Any, lambda value: [value]),
        (Any, lambda value: {"a": value}),
        (list[Any], lambda value: [value]),
        (Chain, Chain),
    ],
)
def test_levels(annotation, wrap, mime_type):
    """The last level that is read is the last one that is written."""
    codecs = Codecs()
    deepest = nested(200, wrap)
    data = codecs.encode(deepest, annotation, mime_type)
    assert codecs.decode(data, annotation, mime_type) == deepest
    with pytest.raises(CodecError, match="more than 200 levels"):
        codecs.encode(nested(201, wrap), annotation, mime_type)


@pytest.mark.parametrize("mime_type", BOTH)
def test_levels_beside_much_else(mime_type):
    """Many lists without levels are written; they do not hide one with too many."""
    codecs = Codecs()
    wide = [[{"ä": [number]}] for number in range(300)]
    assert codecs.decode(codecs.encode(wide, Any, mime_type), Any, mime_type) == wide
    with pytest.raises(CodecError, match="more than 200 levels"):
        codecs.encode([*wide, nested(200, lambda value: [value])], Any, mime_type)


@pytest.mark.parametrize("mime_type", BOTH)
def test_values_without_an_end_or_a_form(mime_type):
    """A value that contains itself, one that no format has, and half of a surrogate pair."""
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (cycle, object(), "\ud800"):
        with pytest.raises(CodecError, match=f"{type(value).__name__} cannot be .* {mime_type}"):
            Codecs().encode(value, object, mime_type)


def test_keys_have_levels():
    """A key of CBOR may be a list, and is a level, too."""
    codecs = Codecs()

    def deep(levels):
        value = {(1,): 2}
        for _ in range(levels):
            value = [value]
        return value

    data = codecs.encode(deep(198), Any, MIME.CBOR)
    assert codecs.decode(data, Any, MIME.CBOR) == deep(198)
    with pytest.raises(CodecError, match="more than 200 levels"):
        codecs.encode(deep(199), Any, MIME.CBOR)


@pytest.mark.parametrize("annotation", [int, Any, list[int]])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_cbor(annotation, sign):
    """The longest integer that is read is the longest one that is written."""
    longest = sign * (2**8192 - 1)

    def value(number):
        return [number] if annotation == list[int] else number

    codecs = Codecs()
    data = codecs.encode(value(longest), annotation, MIME.CBOR)
    assert codecs.decode(data, annotation, MIME.CBOR) == value(longest)
    with pytest.raises(CodecError, match="an integer of more than 1024 bytes"):
        codecs.encode(value(longest * 2), annotation, MIME.CBOR)


def test_bytes_that_look_like_an_integer():
    """They are written."""
    value = b"\xc2\x59\xff\xff" * 1000
    codecs = Codecs()
    data = codecs.encode([value], list[bytes], MIME.CBOR)
    assert codecs.decode(data, list[bytes], MIME.CBOR) == [value]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("any_keys_size", -1), ("any_keys_size", "8"), ("max_parts", 0), ("max_parts", 1.5)],
)
def test_arguments(name, wrong):
    """A wrong limit is an error where it is written, with its name."""
    with pytest.raises((TypeError, ValueError), match=name):
        CborCodec(**{name: wrong})
    CborCodec(any_keys_size=0, max_parts=1)
