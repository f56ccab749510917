"""Request and Response."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame, MetadataTooLarge
from rsocket_trio.ttrpc.wire import envelopes
from rsocket_trio.ttrpc.wire.any_form import MAX_FIELDS, any_request, any_response
from rsocket_trio.ttrpc.wire.envelopes import (
    AnyMessage,
    Request,
    Response,
    Status,
    decode_request,
    decode_response,
    encode_ok,
    encode_request,
    encode_response,
)
from rsocket_trio.ttrpc.wire.protobuf import field, varint


def request_of(body, max_metadata=1000, max_entries=10):
    return decode_request(body, max_metadata=max_metadata, max_entries=max_entries)


@pytest.mark.parametrize(
    "request_",
    [
        Request("", ""),
        Request("a.B", "C"),
        Request("a.B", "C", b"payload"),
        Request("a.B", "C", b"", 1),
        Request("a.B", "C", bytes(127), 2**63 - 1),
        Request("a.B", "C", bytes(128), -1),
        Request("a.B", "C", bytes(20000), -(2**63), (("k", "v"), ("k", ""), ("", "v"), ("", ""))),
        Request("ä" * 200, "\U0001f600"),
    ],
)
def test_requests_return(request_):
    assert request_of(encode_request(request_)) == request_


@pytest.mark.parametrize(
    "response",
    [
        Response(),
        Response(payload=b"x"),
        Response(payload=bytes(127)),
        Response(payload=bytes(20000)),
        Response(Status(0)),
        Response(Status(5, "no", (AnyMessage("t", b"v"), AnyMessage("", b""))), b"x"),
        Response(Status(2**31 - 1)),
        Response(Status(-(2**31))),
    ],
)
def test_responses_return(response):
    assert decode_response(encode_response(response)) == response


@pytest.mark.parametrize("size", [0, 1, 127, 128, 1000, 20000])
def test_success_is_a_response_without_status(size):
    assert encode_ok(bytes(size)) == encode_response(Response(payload=bytes(size)))


def test_metadata_has_two_limits():
    body = encode_request(Request("s", "m", metadata=(("k", "v"), ("k", "w"))))
    assert len(request_of(body, 12, 2).metadata) == 2
    with pytest.raises(
        MetadataTooLarge, match=r"more than 11 bytes of metadata \(max_metadata_size\)"
    ):
        request_of(body, 11, 2)
    with pytest.raises(
        MetadataTooLarge, match=r"more than 1 entries of metadata \(max_metadata_entries\)"
    ):
        request_of(body, 12, 1)


@pytest.mark.parametrize("code", [2**31, -(2**31) - 1])
def test_codes_that_cannot_be_sent(code):
    with pytest.raises(LocalProtocolError, match="int32"):
        encode_response(Response(Status(code)))


@pytest.mark.parametrize("timeout", [2**63, -(2**63) - 1])
def test_timeouts_that_cannot_be_sent(timeout):
    with pytest.raises(LocalProtocolError, match="int64"):
        encode_request(Request("s", "m", timeout_nano=timeout))


def test_texts_that_cannot_be_sent():
    with pytest.raises(LocalProtocolError, match="cannot be sent as UTF-8"):
        encode_request(Request("\ud800", "m"))


def test_garbage():
    with pytest.raises(MalformedFrame, match="Request, byte 3: service is a string that is not"):
        request_of(b"\x0a\x01\xff")
    with pytest.raises(MalformedFrame, match="Response, byte"):
        decode_response(b"\xff\xff")


HEAD = b"\x0a\x03a.B\x12\x01C"


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        (b"", Request("", "")),
        (HEAD, Request("a.B", "C")),
        (HEAD + b"\x1a\x00", Request("a.B", "C")),
        (HEAD + b"\x20\x00", Request("a.B", "C")),
        (b"\x12\x01C\x0a\x03a.B", Request("a.B", "C")),
        (b"\x1a\x01x" + HEAD, Request("a.B", "C", b"x")),
        (HEAD + b"\x20\x05\x1a\x01x", Request("a.B", "C", b"x", 5)),
        (HEAD + b"\x1a\x01x\x1a\x01y\x20\x05\x20\x06", Request("a.B", "C", b"y", 6)),
        (HEAD + b"\x1a\x81\x00x", Request("a.B", "C", b"x")),
        (HEAD + b"\x9a\x00\x01x", Request("a.B", "C", b"x")),
        (HEAD + b"\x0a\x01d", Request("d", "C")),
        (HEAD + b"\x12\x00", Request("a.B", "")),
        (HEAD + b"\x30\x05\x32\x03abc\x20\x05", Request("a.B", "C", b"", 5)),
        (HEAD + b"\x20" + b"\xff" * 9 + b"\x01", Request("a.B", "C", b"", -1)),
        (HEAD + b"\x2a\x00", Request("a.B", "C", metadata=(("", ""),))),
        (HEAD + b"\x2a\x03\x12\x01v", Request("a.B", "C", metadata=(("", "v"),))),
        (HEAD + b"\x2a\x06\x12\x01v\x0a\x01k", Request("a.B", "C", metadata=(("k", "v"),))),
        (HEAD + b"\x2a\x08\x0a\x01k\x12\x01v\x18\x05", Request("a.B", "C", metadata=(("k", "v"),))),
        (
            HEAD + b"\x2a\x06\x0a\x01k\x12\x01v\x2a\x06\x0a\x01K\x12\x01w\x20\x07",
            Request("a.B", "C", b"", 7, (("k", "v"), ("K", "w"))),
        ),
    ],
)
def test_legal_requests(body, request_):
    """Fields in any order, of which the last one counts; numbers in more bytes than necessary."""
    for _ in range(2):  # the names are known the second time
        assert request_of(body) == request_
        assert any_request(body, 1000, 10) == request_


@pytest.mark.parametrize(
    ("body", "response"),
    [
        (b"\x0a\x00", Response(Status(0))),
        (b"\x12\x00", Response()),
        (b"\x12\x01x\x12\x01y", Response(None, b"y")),
        (b"\x12\x01x\x0a\x02\x08\x05", Response(Status(5), b"x")),
        (b"\x12\x01x\x18\x05", Response(None, b"x")),
        (b"\x12\x81\x00x", Response(None, b"x")),
        (b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01", Response(Status(-1))),
        (b"\x0a\x06\x08\x85\x80\x80\x80\x10", Response(Status(5))),  # 2**32 + 5
        (
            b"\x0a\x05\x08\x05\x12\x01a\x0a\x04\x1a\x02\x0a\x00\x0a\x05\x12\x01b\x1a\x00",
            Response(Status(5, "b", (AnyMessage("", b""), AnyMessage("", b"")))),
        ),
        (b"\x0a\x02\x20\x05", Response(Status(0))),
        (b"\x0a\x04\x1a\x02\x18\x05", Response(Status(0, "", (AnyMessage("", b""),)))),
    ],
)
def test_legal_responses(body, response):
    """Two fields of status are merged, as protobuf merges messages."""
    assert decode_response(body) == response
    assert any_response(body) == response


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"\x0a", "Request, byte 1: a varint is cut off"),
        (b"\x0a\x05a.B", "field 1 has 5 bytes, but 3 are left"),
        (HEAD + b"\x1a", "byte 9: a varint is cut off"),
        (HEAD + b"\x1a\x02x", "field 3 has 2 bytes, but 1 are left"),
        (HEAD + b"\x1a\x80", "a varint is cut off"),
        (HEAD + b"\x20", "a varint is cut off"),
        (HEAD + b"\x20" + b"\xff" * 9 + b"\x02", "longer than 64 bits"),
        (HEAD + b"\x2a\x06\x0a\x01k\x12\x01", "field 5 has 6 bytes, but 5 are left"),
        (HEAD + b"\x2a\x06\x0a\x01\xff\x12\x01v", "the key of metadata is a string that is not"),
        (HEAD + b"\x2a\x06\x0a\x01k\x12\x01\xff", "the value of metadata is a string that is not"),
        (HEAD + b"\x2a\x05\x0a\x01k\x12\x01v", "field 2 has 1 bytes, but 0 are left"),
        (b"\x12\x02\xc3\x28", "method is a string that is not UTF-8"),
        (b"\x08\x00", "service has the wire type 0 instead of 2"),
        (b"\x15\0\0\0\0", "method has the wire type 5 instead of 2"),
        (b"\x18\x00", "payload has the wire type 0 instead of 2"),
        (b"\x22\x00", "timeout_nano has the wire type 2 instead of 0"),
        (b"\x28\x00", "metadata has the wire type 0 instead of 2"),
        (b"\x2a\x02\x08\x00", "the key of metadata has the wire type 0"),
        (b"\x0b\x0c", "service has the wire type 3 instead of 2"),
        (HEAD + b"\x0c", "service has the wire type 4 instead of 2"),
        (HEAD + b"\x34", "a group ends that did not begin"),
        (b"\x00", "0 is no field number"),
    ],
)
def test_malformed_requests(body, match):
    for _ in range(2):
        with pytest.raises(MalformedFrame, match=match):
            request_of(body)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"\x12", "Response, byte 1: a varint is cut off"),
        (b"\x12\x80", "a varint is cut off"),
        (b"\x12\x02x", "field 2 has 2 bytes, but 1 are left"),
        (b"\x12" + b"\xff" * 9 + b"\x02", "longer than 64 bits"),
        (b"\x08\x00", "status has the wire type 0 instead of 2"),
        (b"\x0a\x02\x0a\x00", "the code of status has the wire type 2 instead of 0"),
        (b"\x0a\x03\x12\x01\xff", "the message of status is a string that is not UTF-8"),
        (b"\x0a\x05\x1a\x03\x0a\x01\xff", "the type of a detail is a string that is not UTF-8"),
        (b"\x0a\x04\x1a\x02\x10\x00", "the value of a detail has the wire type 0"),
        (b"\x0a\x02\x18\x00", "a detail of status has the wire type 0 instead of 2"),
    ],
)
def test_malformed_responses(body, match):
    with pytest.raises(MalformedFrame, match=match):
        decode_response(body)


def test_many_fields_are_refused():
    """A peer could keep this process busy for seconds with each frame."""
    many = b"\x30\x00" * MAX_FIELDS
    assert request_of(many) == Request("", "")
    for body in (many + b"\x30\x00" * 31, b"\x1a\x00" * (MAX_FIELDS + 31)):
        with pytest.raises(MalformedFrame, match="too many fields"):
            request_of(body)
    with pytest.raises(MalformedFrame, match="too many fields"):
        decode_response(field(1, b"\x1a\x00" * MAX_FIELDS))
    assert len(decode_response(field(1, b"\x1a\x00" * (MAX_FIELDS - 1))).status.details) == 999


def test_metadata_does_not_count_against_other_fields():
    """As many entries as are allowed are decoded, in both ways."""
    pairs = (("k", "v"),) * 2000
    body = encode_request(Request("a.B", "C", metadata=pairs))
    for _ in range(2):
        assert request_of(body, 12000, 2000).metadata == pairs
    body = b"\x2a\x06\x12\x01v\x0a\x01k" * 2000  # not the usual form
    assert request_of(body, 12000, 2000).metadata == pairs


@pytest.mark.parametrize("entry", [b"\x2a\x06\x0a\x01k\x12\x01v", b"\x2a\x00"])
def test_metadata_above_its_limits_makes_no_objects(entry):
    """However much of it there is, and whatever follows."""
    body = HEAD + entry * (2**21 // len(entry)) + b"\xff"
    tracemalloc.start()
    try:
        with pytest.raises(MetadataTooLarge, match="max_metadata_entries"):
            request_of(body, 2**22, 64)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**16


def test_names_of_peers_do_not_pile_up():
    """Names that come once each are forgotten; names that are long are not kept at all."""
    envelopes._names.clear()
    for number in range(envelopes._KEPT * 3):
        request = Request(f"service{number}", "m")
        assert request_of(encode_request(request)) == request
        assert len(envelopes._names) <= envelopes._KEPT
        assert len(envelopes._heads) <= envelopes._KEPT
    assert len(envelopes._names) > 1
    envelopes._names.clear()
    envelopes._heads.clear()
    for service in ("s" * 300, "\xe4" * 150):
        request = Request(service, "m")
        assert request_of(encode_request(request)) == request
    assert not envelopes._names
    assert not envelopes._heads


texts = st.text(max_size=4) | st.sampled_from(["", "a.B", "x" * 127, "x" * 128, "x" * 252])
blobs = st.binary(max_size=5) | st.sampled_from([bytes(127), bytes(128), bytes(17000)])
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 300)
int32 = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 300)
requests = st.builds(Request, texts, texts, blobs, int64, pairs)
details = st.lists(st.builds(AnyMessage, texts, blobs), max_size=3).map(tuple)
responses = st.builds(Response, st.none() | st.builds(Status, int32, texts, details), blobs)


@given(requests)
def test_any_request_returns(request_):
    body = encode_request(request_)
    assert request_of(body, 5000, 3) == any_request(body, 5000, 3) == request_


@given(responses)
def test_any_response_returns(response):
    body = encode_response(response)
    assert decode_response(body) == any_response(body) == response


def result(decode, body):
    try:
        return decode(body)
    except (MalformedFrame, MetadataTooLarge) as error:
        return type(error), str(error)


fields = st.one_of(
    st.just(HEAD),
    st.builds(field, st.integers(1, 6), st.binary(max_size=4) | st.just(b"\x0a\x01k\x12\x01v")),
    st.builds(lambda value: b"\x20" + varint(value), st.integers(0, 2**64 - 1)),
    st.builds(
        lambda pair: field(5, field(1, pair[0]) + field(2, pair[1])), st.tuples(blobs, blobs)
    ),
    st.binary(max_size=3),
)
bodies = st.lists(fields, max_size=6).map(b"".join) | st.binary(max_size=20)


@given(bodies, st.integers(0, 20), st.integers(0, 2))
def test_any_bytes_give_an_envelope_or_the_documented_error(body, max_metadata, max_entries):
    """And both ways of decoding give the same one."""
    for _ in range(2):
        made = result(lambda body: request_of(body, max_metadata, max_entries), body)
        assert made == result(lambda body: any_request(body, max_metadata, max_entries), body)
    assert result(decode_response, body) == result(any_response, body)


@given(requests | responses, st.data())
def test_one_changed_byte_gives_an_envelope_or_the_documented_error(value, data):
    is_request = isinstance(value, Request)
    body = bytearray(encode_request(value) if is_request else encode_response(value))
    if body:
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    body = bytes(body)
    if is_request:
        made = result(request_of, body)
        assert made == result(lambda body: any_request(body, 1000, 10), body)
    else:
        assert result(decode_response, body) == result(any_response, body)
