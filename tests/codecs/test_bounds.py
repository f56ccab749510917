"""Bounds by `msgspec.Meta` hold in every format, and both ways."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Annotated, Any, NewType

import pytest
from msgspec import Meta

from rsocket_trio.codecs import CodecError, Codecs
from rsocket_trio.metadata.mime_types import MIME

CODECS = Codecs()
Positive = Annotated[int, Meta(gt=0)]
Identifier = NewType("Identifier", Annotated[str, Meta(pattern="^[a-z]+$")])


@dataclass
class Line:
    quantity: Annotated[Positive, Meta(lt=10)]
    notes: Annotated[list[str], Meta(max_length=1)]


WITHIN = [
    (Positive, [1, 2**80], [0, -(2**80)]),
    (Annotated[int, Meta(ge=3, le=4)], [3, 4], [2, 5]),
    (Annotated[int, Meta(multiple_of=3)], [0, 9, -3], [1]),
    (Annotated[float, Meta(ge=0.5)], [0.5, 1], [0.25, -1]),
    (Annotated[float, Meta(lt=0.5, multiple_of=0.25)], [0.25, -1.0], [0.5, 0.1]),
    (Annotated[str, Meta(min_length=1, max_length=2)], ["a", "äö"], ["", "abc"]),
    (Identifier, ["abc"], ["", "abC"]),
    (Annotated[bytes, Meta(max_length=2)], [b"ab"], [b"abc"]),
    (Annotated[list[int], Meta(min_length=1)], [[1]], [[]]),
    (Annotated[dict[str, int], Meta(max_length=1)], [{"a": 1}], [{"a": 1, "b": 2}]),
    (
        Annotated[datetime, Meta(tz=True)],
        [datetime(2024, 1, 1, tzinfo=UTC)],
        [datetime(2024, 1, 1)],
    ),
    (Annotated[time, Meta(tz=False)], [time(1)], [time(1, tzinfo=UTC)]),
    (list[Positive], [[1]], [[1, 0]]),
    (dict[Annotated[str, Meta(max_length=1)], Positive], [{"a": 1}], [{"ab": 1}, {"a": 0}]),
    (Positive | None, [1, None], [0]),
    (Positive | str, [1, "0"], [0]),
    (tuple[Positive, int], [(1, 0)], [(0, 1)]),
    (Line, [Line(1, [])], [Line(0, []), Line(10, []), Line(1, ["a", "b"])]),
]


@pytest.mark.parametrize("mime_type", [MIME.CBOR, MIME.JSON, MIME.TEXT, MIME.OCTET_STREAM])
@pytest.mark.parametrize(("annotation", "within", "outside"), WITHIN)
def test_bounds(annotation, within, outside, mime_type):
    """A value out of bounds is neither read nor written."""
    try:
        CODECS.check_decode(annotation, mime_type)
    except TypeError:
        assert mime_type == MIME.OCTET_STREAM
        return
    for value in within:
        data = CODECS.encode(value, annotation, mime_type)
        assert CODECS.decode(data, annotation, mime_type) == value
    for value in outside:
        with pytest.raises(CodecError, match="got another"):
            CODECS.encode(value, annotation, mime_type)
        value = asdict(value) if annotation is Line else value
        loose = type(value) if isinstance(value, str | bytes) else Any
        data = CODECS.encode(value, loose, mime_type)
        with pytest.raises(CodecError, match="got another"):
            CODECS.decode(data, annotation, mime_type)


def test_values_are_not_shown():
    """The bound is told, which is no secret."""
    with pytest.raises(CodecError) as caught:
        CODECS.decode(b'"secret"', Annotated[str, Meta(max_length=3)], MIME.JSON)
    assert "length <= 3" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_nan_is_within_no_bounds():
    """CBOR has it."""
    bounded = Annotated[float, Meta(ge=0)]
    with pytest.raises(CodecError, match="float >= 0"):
        CODECS.encode(float("nan"), bounded, MIME.CBOR)
    with pytest.raises(CodecError, match="float >= 0"):
        CODECS.decode(CODECS.encode(float("nan"), float, MIME.CBOR), bounded, MIME.CBOR)


def test_an_int_too_large_for_the_test():
    """It is refused, not an error of arithmetic."""
    bounded = Annotated[int, Meta(multiple_of=0.5)]
    with pytest.raises(CodecError, match=r"multiple of 0\.5"):
        CODECS.encode(10**400, bounded, MIME.JSON)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[bool, Meta(ge=0)],
        Annotated[str, Meta(ge=0)],
        Annotated[bytes, Meta(ge=0)],
        Annotated[int, Meta(max_length=1)],
        Annotated[Decimal, Meta(ge=0)],
        Annotated[Line, Meta(max_length=1)],
        Annotated[Any, Meta(max_length=1)],
        Annotated[int | None, Meta(ge=0)],
        Annotated[int, Meta(ge=0)] | Annotated[int, Meta(ge=1)],
        list[Annotated[bytes, Meta(pattern="a")]],
    ],
)
def test_bounds_that_a_type_cannot_have(annotation):
    """They are an error when the handler is registered, never ignored."""
    with pytest.raises(TypeError, match="bound"):
        CODECS.check_decode(annotation)
    with pytest.raises(TypeError, match="bound"):
        CODECS.check_encode(annotation)


def test_notes_that_bound_nothing():
    """A description is no bound, and any type has one."""
    noted = Annotated[int | None, Meta(description="a number")]
    assert CODECS.decode(b"null", noted, MIME.JSON) is None
