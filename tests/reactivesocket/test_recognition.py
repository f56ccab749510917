"""Recognition of the protocol by the first bytes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.reactivesocket.frames import SetupFrame, encode_length
from rsocket_trio.reactivesocket.recognition import (
    NEEDED,
    Wire,
    recognise_bytes,
    recognise_message,
)

DIRECTORY = Path(__file__).parent.parent / "vectors"
RSOCKET = json.loads((DIRECTORY / "rsocket.json").read_text())
DRAFT = json.loads((DIRECTORY / "reactivesocket.json").read_text())


def by_name(vectors, key):
    return [
        pytest.param(bytes.fromhex(vector[key]), id=vector["name"])
        for vector in vectors
        if set(vector.get(key, "(")) <= set("0123456789abcdef") and vector[key]
    ]


def verdicts(data):
    """Return the verdict on each prefix, the shortest first."""
    return [recognise_bytes(data[:size]) for size in range(len(data) + 1)]


def check_every_prefix(data, wire):
    """Check that a verdict never changes, and that there is one at 16 bytes."""
    seen = verdicts(data)
    assert set(seen) <= {None, wire}
    assert seen == sorted(seen, key=lambda verdict: verdict is not None)
    assert seen[:6] == [None] * len(seen[:6])
    assert None not in seen[NEEDED:]


@pytest.mark.parametrize("data", by_name(RSOCKET, "tcp_hex"))
def test_every_vector_of_1_0(data):
    """Every frame of the 1.0 vectors, as the first one, is recognized as 1.0, at every length."""
    check_every_prefix(data, Wire.RSOCKET)


SETUPS = [vector for vector in DRAFT if vector["hex"].startswith("0001")]


@pytest.mark.parametrize("data", by_name(SETUPS, "tcp_hex"))
def test_every_setup_of_the_draft(data):
    """Every SETUP of the draft is recognized once six bytes are there."""
    check_every_prefix(data, Wire.REACTIVESOCKET)
    assert recognise_bytes(data[:6]) is Wire.REACTIVESOCKET


@pytest.mark.parametrize(
    "data",
    by_name([v for v in DRAFT if v not in SETUPS and v["kind"] != "v0-sequence"], "tcp_hex"),
)
def test_other_frames_of_the_draft(data):
    """Other frames of the draft are left to 1.0, which refuses them."""
    check_every_prefix(data, Wire.RSOCKET)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(("lease", "strict"), [*itertools.product([False, True], repeat=2)])
def test_setups_whose_length_is_a_multiple_of_256(version, lease, strict):
    """Their fourth byte is 0 as in 1.0, so flags, stream id and version decide."""
    bare = SetupFrame(version, 500, 0, lease, strict)
    padding = 256 - (len(bare.encode()) + 4) % 256
    frame = SetupFrame(version, 500, 0, lease, strict, data=b"x" * padding).encode()
    data = encode_length(frame) + frame
    assert data[3] == 0
    check_every_prefix(data, Wire.REACTIVESOCKET)
    assert recognise_bytes(data[:15]) is None


@pytest.mark.parametrize("spoilt", [6, 7, 8, 11, 12, 13, 14, 15])
def test_frames_that_resemble_a_setup_of_the_draft(spoilt):
    """A bit that no legal SETUP of the draft has makes it a 1.0 frame on stream 256."""
    data = bytearray.fromhex("00000100 0001 0000 00000000 00000000 000003e8")
    data[spoilt] |= 0x04
    assert recognise_bytes(data) is Wire.RSOCKET
    # The stream id and the flags decide at once, the version when it is complete.
    assert (recognise_bytes(data[: spoilt + 1]) is None) == (spoilt in (12, 13, 14))


def test_all_illegal_first_frames_of_1_0():
    """First frames of any type on any stream are left to 1.0, except one of all zeros."""
    wrong = []
    streams = (0, 1, 2, 255, 256, 511)
    sizes = (6, 7, 10, 12, 16, 23, 64, 255, 300)
    for stream_id, kind, size in itertools.product(streams, range(64), sizes):
        frame = stream_id.to_bytes(4, "big") + (kind << 10).to_bytes(2, "big")
        frame += bytes(size - 6)
        data = len(frame).to_bytes(3, "big") + frame + bytes(8)
        check = recognise_bytes(data)
        if check is not Wire.RSOCKET:
            wrong.append((stream_id, kind))
    assert set(wrong) == {(256, 0)}


def test_the_reserved_bit_of_a_length():
    """A length of the draft has 31 bits."""
    assert recognise_bytes(bytes.fromhex("80000024 0001")) is Wire.RSOCKET


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=24))
def test_a_verdict_never_changes(data):
    """For any bytes there is a verdict at 16 bytes."""
    seen = [verdict for verdict in verdicts(data) if verdict]
    assert len(set(seen)) <= 1
    assert seen or len(data) < NEEDED


@pytest.mark.parametrize("message", by_name(RSOCKET, "hex"))
def test_messages_of_1_0(message):
    """Every 1.0 vector as the first message is recognized as 1.0."""
    assert recognise_message(message) is Wire.RSOCKET


@pytest.mark.parametrize("setup", SETUPS, ids=[vector["name"] for vector in SETUPS])
def test_messages_of_the_draft(setup):
    """A SETUP is recognized in both forms; on another stream it is left to 1.0."""
    wrong_stream = setup["name"] == "v0_setup_nonzero_stream"
    without = recognise_message(bytes.fromhex(setup["hex"]))
    with_length = recognise_message(bytes.fromhex(setup["tcp_hex"]))
    if wrong_stream:
        assert without is with_length is Wire.RSOCKET
    else:
        assert without is Wire.REACTIVESOCKET
        assert with_length is Wire.REACTIVESOCKET_WITH_LENGTH


@pytest.mark.parametrize("message", [b"", b"\0", bytes.fromhex("0001"), bytes.fromhex("00000006")])
def test_short_messages(message):
    """A message that is too short for either is left to 1.0, which refuses it."""
    assert recognise_message(message) is Wire.RSOCKET
