"""Golden vectors, in both directions."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.ttrpc.wire import envelopes
from rsocket_trio.ttrpc.wire.decoder import FrameDecoder
from rsocket_trio.ttrpc.wire.envelopes import (
    AnyMessage,
    Request,
    Response,
    Status,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from rsocket_trio.ttrpc.wire.frames import MessageType, encode_frame, split
from tests.ttrpc.golden import BROKEN, FRAMES, OBSERVED

by_name = pytest.mark.parametrize("vector", FRAMES, ids=lambda vector: vector["name"])


def envelope_of(body, number):
    """The body, decoded if it is an envelope."""
    if number == MessageType.REQUEST:
        return decode_request(body, max_metadata=100, max_entries=4)
    return decode_response(body) if number == MessageType.RESPONSE else body


def encoded(envelope):
    if isinstance(envelope, Request):
        return encode_request(envelope)
    return encode_response(envelope) if isinstance(envelope, Response) else envelope


def expected(vector):
    """The envelope that a vector describes."""
    fields = vector["decoded"]
    if "request" in fields:
        return Request(
            fields["request"]["service"],
            fields["request"]["method"],
            bytes.fromhex(fields["request"]["payload_hex"]),
            fields["request"]["timeout_nano"],
            tuple((key, value) for key, value in fields["request"]["metadata"]),
        )
    if "response" not in fields:
        return bytes.fromhex(fields["payload_hex"])
    status = fields["response"]["status"]
    if status is not None:
        details = tuple(AnyMessage(name, bytes.fromhex(hex_)) for name, hex_ in status["details"])
        status = Status(status["code"], status["message"], details)
    return Response(status, bytes.fromhex(fields["response"]["payload_hex"]))


@by_name
def test_a_vector_decodes_to_its_fields(vector):
    fields = vector["decoded"]
    header = (fields["length"], fields["stream_id"], fields["type"], fields["flags"])
    *numbers, body = split(bytes.fromhex(vector["hex"]))
    assert tuple(numbers) == header
    assert body.hex() == fields["payload_hex"]
    # Twice: the first time the names are new, the second time they are known.
    assert envelope_of(body, fields["type"]) == expected(vector)
    assert envelope_of(body, fields["type"]) == expected(vector)


@by_name
def test_fields_encode_to_their_vector(vector):
    fields = vector["decoded"]
    for _ in range(2):
        body = encoded(expected(vector))
        frame = encode_frame(fields["stream_id"], fields["type"], fields["flags"], body)
        assert frame.hex() == vector["hex"]


@pytest.mark.parametrize("text", [vector["hex"] for vector in FRAMES] + OBSERVED)
def test_frames_are_cut_anywhere(text):
    """Whole, byte by byte, and with bytes of the next frame behind them."""
    frame = bytes.fromhex(text)
    assert FrameDecoder().feed(frame) == [frame]
    decoder = FrameDecoder()
    made = [decoder.feed(frame[at : at + 1]) for at in range(len(frame))]
    assert made == [[]] * (len(frame) - 1) + [[frame]]
    assert not decoder.pending
    assert decoder.feed(frame + frame[:9]) == [frame]
    assert decoder.pending
    assert decoder.feed(frame[9:]) == [frame]


@pytest.mark.parametrize("text", [text for text in OBSERVED if text not in BROKEN])
def test_what_peers_sent_returns_byte_for_byte(text):
    """All envelopes of the Go implementation have the form in which ours are encoded."""
    size, stream_id, number, flags, body = split(bytes.fromhex(text))
    assert size == len(body)
    assert encode_frame(stream_id, number, flags, encoded(envelope_of(body, number))).hex() == text


USUAL = [
    text
    for text in OBSERVED
    if text not in BROKEN
    # A Request with names, or a Response without status.
    and (text[16:18], text[20:22]) in {("01", "0a"), ("02", ""), ("02", "12")}
]


@pytest.mark.parametrize("text", USUAL)
def test_what_peers_usually_send_takes_the_fast_way(text, monkeypatch):
    """From the second time on, as the names are new before."""
    *_, number, _, body = split(bytes.fromhex(text))
    before = envelope_of(body, number)
    monkeypatch.setattr(envelopes, "any_request", None)
    monkeypatch.setattr(envelopes, "any_response", None)
    assert envelope_of(body, number) == before


def test_there_are_frames_for_the_fast_way():
    """With metadata, with a timeout, and of both kinds."""
    made = [envelope_of(split(bytes.fromhex(text))[4], int(text[16:18])) for text in USUAL]
    assert len(made) > 30
    assert any(isinstance(each, Response) for each in made)
    assert any(isinstance(each, Request) and each.metadata for each in made)
    assert any(isinstance(each, Request) and each.timeout_nano for each in made)


@pytest.mark.parametrize("text", BROKEN)
def test_what_peers_refused(text):
    assert text in OBSERVED
    _, _, number, _, body = split(bytes.fromhex(text))
    with pytest.raises(MalformedFrame, match=BROKEN[text]):
        envelope_of(body, number)


@by_name
def test_an_envelope_is_malformed_at_most_places_where_it_is_cut_off(vector):
    """Where it is not, less of it is decoded: a field ended there."""
    *_, body = split(bytes.fromhex(vector["hex"]))
    number = vector["decoded"]["type"]
    if number == MessageType.DATA:
        return
    ends = 0
    for size in range(len(body)):
        try:
            part = envelope_of(body[:size], number)
        except MalformedFrame:
            continue
        ends += 1
        assert encoded(part) == body[:size]
    assert ends == sum(1 for _ in fields_of(body))


def fields_of(body):
    """The first byte of each field, for lengths and tags of one byte."""
    position = 0
    while position < len(body):
        yield position
        position += 2 + body[position + 1]
