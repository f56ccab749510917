"""What a codec takes comes back equal, or is refused when it is written."""

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from rsocket_trio.codecs import CborCodec, CodecError, Codecs, JsonCodec
from rsocket_trio.metadata.mime_types import MIME

from .typed_values import drawn, same, typed

CODECS = {MIME.CBOR: CborCodec, MIME.JSON: JsonCodec}
OPTIONS = [{}, {"rename": "camel", "enums": "name"}]


def comes_back(data, mime_type):
    annotation, values = data.draw(typed)
    codec = CODECS[mime_type](**data.draw(st.sampled_from(OPTIONS)))
    try:
        codec.check_decode(annotation)
        codec.check_encode(annotation)
    except TypeError:
        assume(False)
    value = data.draw(values)
    codecs = Codecs({mime_type: codec})
    try:
        written = codecs.encode(value, annotation, mime_type)
    except CodecError:
        return
    again = codecs.decode(written, annotation, mime_type)
    assert same(again, value), (annotation, value, written, again)


@pytest.mark.parametrize("mime_type", CODECS)
@pytest.mark.parametrize(("number", "examples"), [(7, 200), (None, 100)])
def test_values_come_back(number, examples, mime_type):
    """Every value of every type that can be registered: the same in each run, and others."""
    drawn(lambda data: comes_back(data, mime_type), number, examples)
