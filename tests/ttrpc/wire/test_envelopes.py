"""Request and Response."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import LocalProtocolError, MalformedFrame, MetadataTooLarge
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
    with pytest.raises(MetadataTooLarge, match=r"more than 11 bytes of metadata \(max_metadata\)"):
        request_of(body, 11, 2)
    with pytest.raises(MetadataTooLarge, match=r"more than 1 entries of metadata \(max_entries\)"):
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
