"""What a codec takes comes back equal, or is refused when it is written."""

import os

import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st

from rsocket_trio.codecs import CborCodec, CodecError, Codecs, JsonCodec
from rsocket_trio.metadata.mime_types import MIME

from .typed_values import same, typed

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


FRESH = int.from_bytes(os.urandom(4), "big")
QUIET = {"suppress_health_check": list(HealthCheck), "deadline": None}


@pytest.mark.parametrize("mime_type", CODECS)
@seed(7)
@settings(max_examples=300, database=None, **QUIET)
@given(st.data())
def test_values_come_back(mime_type, data):
    """Every value of every type that can be registered, with the same values in each run."""
    comes_back(data, mime_type)


@pytest.mark.parametrize("mime_type", CODECS)
@seed(FRESH)
@settings(max_examples=100, database=None, **QUIET)
@given(st.data())
def test_fresh_values_come_back(mime_type, data):
    """And with others in each run; the failure shows the values, and their seed."""
    print("seed", FRESH)
    comes_back(data, mime_type)
