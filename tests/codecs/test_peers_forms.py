"""Values as other programs write them, and written so that those read them."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, Rounded, localcontext
from fractions import Fraction
from typing import Any
from uuid import UUID

import attrs
import cbor2
import pytest

from rsocket_trio.codecs import DEFAULT_CODECS, CborCodec, CodecError
from rsocket_trio.metadata.mime_types import MIME

from .annotated import Colour

FIVE = UUID(int=5)
SECOND = timezone(timedelta(seconds=30))
INDIA = timezone(timedelta(hours=5, minutes=30))
WITHOUT_TAGS = [
    (datetime, "2024-05-06T07:08:09Z", datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)),
    (datetime, "2024-05-06T07:08:09", datetime(2024, 5, 6, 7, 8, 9)),
    (date, "2024-05-06", date(2024, 5, 6)),
    (UUID, FIVE.bytes, FIVE),
    (UUID, str(FIVE), FIVE),
    (dict[UUID, int], {str(FIVE): 1}, {FIVE: 1}),
    (Decimal, "1.50", Decimal("1.50")),
    (Decimal, 12.1, Decimal("12.1")),
    (Decimal, 12, Decimal(12)),
    (float, Decimal("12.5"), 12.5),
    (list[date | datetime], ["2024-05-06", "2024-05-06T07:08:09"], None),
    (str | datetime, "2024-05-06T07:08:09Z", "2024-05-06T07:08:09Z"),
    (str | UUID, str(FIVE), str(FIVE)),
    (bytes | UUID | None, FIVE.bytes, FIVE.bytes),
    (float | Decimal, 1.5, 1.5),
    (int | Decimal, 1, 1),
]


@pytest.mark.parametrize(("annotation", "plain", "value"), WITHOUT_TAGS)
def test_cbor_without_tags_is_read_by_its_annotation(annotation, plain, value):
    """As Jackson writes it; in a union, only if no other member has such values."""
    read = DEFAULT_CODECS.decode(cbor2.dumps(plain), annotation, MIME.CBOR)
    if value is None:
        value = [date(2024, 5, 6), datetime(2024, 5, 6, 7, 8, 9)]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("annotation", "plain"),
    [
        (datetime, 5),
        (datetime, "yesterday"),
        (date, "2024-05-06T07:08:09"),
        (UUID, b"short"),
        (UUID, 5),
        (Decimal, "many"),
        (Decimal, "NaN"),
        (Decimal, float("nan")),
        (Decimal, float("inf")),
        (Decimal, True),
        (float, "1.5"),
        (int, Decimal(1)),
        (datetime | Decimal, "2024-05-06T07:08:09Z"),
        (Fraction, "1/2"),
    ],
)
def test_other_values_stay_refused(annotation, plain):
    """No int of a text, no date of a number; nor a text that two types could be read from."""
    with pytest.raises(CodecError, match=": expected "):
        DEFAULT_CODECS.decode(cbor2.dumps(plain), annotation, MIME.CBOR)


@pytest.mark.parametrize(
    ("value", "annotation", "plain"),
    [
        (datetime(2024, 5, 6, 7, 8, 9), datetime, "2024-05-06T07:08:09"),
        (datetime(2024, 5, 6, 7), datetime | None, "2024-05-06T07:00:00"),
        ({FIVE: 1}, dict[UUID, int], {str(FIVE): 1}),
        ({FIVE: 1}, Any, {str(FIVE): 1}),
        ({FIVE: 1, "a": 2}, dict[UUID | str, int], {FIVE: 1, "a": 2}),
        ({FIVE}, set[UUID], {FIVE}),
    ],
)
def test_what_cbor_has_no_tag_for_is_text(value, annotation, plain):
    """Java's decoders refuse keys with tags; RFC 8949 has no times without an offset."""
    data = DEFAULT_CODECS.encode(value, annotation, MIME.CBOR)
    assert cbor2.loads(data) == plain
    if annotation is not Any:
        assert DEFAULT_CODECS.decode(data, annotation, MIME.CBOR) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2024, 5, 6, 7, tzinfo=UTC), "2024-05-06T07:00:00Z"),
        (datetime(2024, 5, 6, 7, 8, 9, 5, tzinfo=INDIA), "2024-05-06T07:08:09.000005+05:30"),
        (datetime(2024, 5, 6, 7), "2024-05-06T07:00:00"),
    ],
)
def test_datetimes_in_json(value, text):
    """Java's types without an offset refuse +00:00, and take Z."""
    for annotation in (datetime, Any):
        data = DEFAULT_CODECS.encode(value, annotation, MIME.JSON)
        assert data == f'"{text}"'.encode()
    assert DEFAULT_CODECS.decode(data, datetime, MIME.JSON) == value


@attrs.frozen
class Rate:
    value: float


NOT_READ_AGAIN = [
    (Decimal("NaN"), Decimal, "got NaN or an infinity"),
    (Decimal("-Infinity"), Any, "got NaN or an infinity"),
    (datetime(2024, 5, 6, tzinfo=SECOND), datetime, "whose offset has seconds"),
    (10**400, float, "got an int that is no float"),
    (Rate(2**53 + 1), Rate, "value: expected float, got an int that is no float"),
    ({Colour.RED: 1, "red": 2}, dict, "got keys that are written alike"),
    ("red", Colour | str, "read as another value"),
]
ONLY_CBOR = [
    (Decimal(10**2466), Decimal, "of more than 2466 digits"),
    (datetime(2024, 5, 6), str | datetime, "expected a datetime with an offset"),
    ({Colour.RED, "red"}, set, "got items that are written alike"),
]
ONLY_JSON = [
    ({1: 1, "1": 2}, Any, "got keys that are written alike"),
    ({None: 1, "null": 2}, dict, "got keys that are written alike"),
    (float("nan"), list[float] | float, "got NaN or an infinity"),
    ([1.0, float("inf")], list[float], r"\[1\]: expected float, got NaN or an infinity"),
    ([float("nan")], Any, "got NaN or an infinity"),
    ({(1, 2): 3}, Any, "expected a key of text, got tuple"),
]


@pytest.mark.parametrize(
    ("value", "annotation", "reason", "mime_type"),
    [
        *[(*case, mime_type) for case in NOT_READ_AGAIN for mime_type in (MIME.CBOR, MIME.JSON)],
        *[(*case, MIME.CBOR) for case in ONLY_CBOR],
        *[(*case, MIME.JSON) for case in ONLY_JSON],
    ],
)
def test_what_is_not_read_again_is_not_written(value, annotation, reason, mime_type):
    """A peer would refuse it, or read another value in silence."""
    with pytest.raises(CodecError, match=reason):
        DEFAULT_CODECS.encode(value, annotation, mime_type)


def test_a_decimal_of_most_digits_comes_back():
    value = Decimal(10**2466 - 1)
    data = CborCodec().encode(value, Decimal)
    assert CborCodec().decode(data, Decimal) == value


@pytest.mark.parametrize(
    "context",
    [Context(prec=3), Context(prec=3, traps=[Inexact, Rounded]), Context(prec=5, Emax=6, Emin=-6)],
)
def test_the_context_of_decimals_changes_no_value(context):
    """A program may set one for its sums: durations of Java and bigfloats were rounded by it."""
    duration = timedelta(days=-1, microseconds=-123_457)
    with localcontext(context):
        for mime_type, text in ((MIME.JSON, b'"%s"'), (MIME.CBOR, b"\x76%s")):
            data = text % b"PT-24H-0000000.123457S"
            assert DEFAULT_CODECS.decode(data, timedelta, mime_type) == duration
        number = Decimal("1234567890.12345678901234567890123456789012345")
        for mime_type in (MIME.JSON, MIME.CBOR):
            data = DEFAULT_CODECS.encode(number, Decimal, mime_type)
            assert str(DEFAULT_CODECS.decode(data, Decimal, mime_type)) == str(number)
        bigfloat = b"\xc5" + cbor2.dumps([-60, 2**60 + 1])
        read = DEFAULT_CODECS.decode(bigfloat, Decimal, MIME.CBOR)
    assert Fraction(read) == 1 + Fraction(1, 2**60)


def test_bigfloats_are_exact_or_refused():
    """They were rounded to the digits of the program's context, and large ones took as long."""
    for exponent in (1000, -1000, 2**62):
        with pytest.raises(CodecError):
            DEFAULT_CODECS.decode(b"\xc5" + cbor2.dumps([exponent, 1]), Any, MIME.CBOR)
    with pytest.raises(CodecError):
        DEFAULT_CODECS.decode(b"\xc5" + cbor2.dumps([1, "2"]), Any, MIME.CBOR)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("PT-0.0000005S", 0), ("PT-0.0000015S", -2), ("-PT-0.5S", 500_000), ("PT-1.9999996S", -2e6)],
)
def test_parts_of_microseconds_are_rounded_to_the_even_one(text, microseconds):
    assert DEFAULT_CODECS.decode(cbor2.dumps(text), timedelta, MIME.CBOR) == timedelta(
        microseconds=microseconds
    )


@pytest.mark.parametrize("mime_type", [MIME.CBOR, MIME.JSON])
@pytest.mark.parametrize("start", ["1_3", "+12", " 12", "\u066112"])
def test_texts_that_only_int_takes_are_no_uuid(start, mime_type):
    """Two texts would be the same UUID."""
    text = f"{start}45678123456781234567812345678"
    text += "0" * (32 - len(text))
    data = DEFAULT_CODECS.encode(text, str, mime_type)
    with pytest.raises(CodecError):
        DEFAULT_CODECS.decode(data, UUID, mime_type)
    for form in (FIVE.hex.upper(), f"{{{FIVE}}}", FIVE.urn):
        data = DEFAULT_CODECS.encode(form, str, mime_type)
        assert DEFAULT_CODECS.decode(data, UUID, mime_type) == FIVE
