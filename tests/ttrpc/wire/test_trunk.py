"""The pieces of a trunk: from bytes and to bytes, and lengths that every peer can read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.ttrpc.wire.decoder import FrameDecoder
from rsocket_trio.ttrpc.wire.frames import MAX_BODY, encode_frame
from rsocket_trio.ttrpc.wire.trunk import (
    MAX_PIECE,
    TRUNK_HEADER,
    PieceLengths,
    TrunkDecoder,
    encode_piece,
)
from tests.ttrpc.golden import VECTORS


@pytest.mark.parametrize("connection", [1, 2])
def test_golden_vectors(connection: int) -> None:
    """The same bytes as the multiplexer of NRI, both ways; the payload is a frame of ttrpc."""
    (text,) = [each["hex"] for each in VECTORS["nri_mux"] if f"conn{connection}" in each["name"]]
    payload = bytes.fromhex(text)[8:]
    assert FrameDecoder().feed(payload) == [payload]
    assert encode_piece(connection, payload).hex() == text
    decoder = TrunkDecoder()
    assert decoder.feed(bytes.fromhex(text)) == [(connection, payload)]
    assert not decoder.pending


def joined(pieces: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Pieces with those of one connection joined where they follow each other."""
    whole: list[tuple[int, bytes]] = []
    for connection, data in pieces:
        if whole and whole[-1][0] == connection:
            whole[-1] = connection, whole[-1][1] + data
        else:
            whole.append((connection, data))
    return whole


CONNECTIONS = st.sampled_from([0, 1, 2, 3, 2**32 - 1])


@given(st.lists(st.tuples(CONNECTIONS, st.binary(max_size=40))), st.data())
def test_any_division_of_the_bytes(pieces: list[tuple[int, bytes]], data: st.DataObject) -> None:
    """Each connection gets its bytes in order, and no piece handed out is empty."""
    text = b"".join(encode_piece(*piece) for piece in pieces)
    decoder = TrunkDecoder()
    found: list[tuple[int, bytes]] = []
    while text:
        size = data.draw(st.integers(0, len(text)))
        size = size or len(text)
        found += decoder.feed(text[:size])
        text = text[size:]
    assert all(payload for _, payload in found)
    assert joined(found) == joined([piece for piece in pieces if piece[1]])
    assert not decoder.pending
    assert decoder.refusal is None


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_any_bytes(chunks: list[bytes]) -> None:
    """They are pieces or a refusal, and nothing is handed out behind that."""
    decoder = TrunkDecoder()
    for chunk in chunks:
        refused = decoder.refusal is not None
        found = decoder.feed(chunk)
        assert sum(len(payload) for _, payload in found) <= len(chunk) + 7
        assert not (refused and found)
        assert len(decoder._head) < TRUNK_HEADER.size


@pytest.mark.parametrize("length", [MAX_PIECE + 1, 2**31, 2**32 - 1])
def test_a_piece_that_is_too_long(length: int) -> None:
    """It is refused at its header; what came before is handed out."""
    decoder = TrunkDecoder()
    text = encode_piece(1, b"before") + TRUNK_HEADER.pack(2, length) + b"x" * 100
    assert decoder.feed(text) == [(1, b"before")]
    assert f"a piece of {length} bytes on connection 2" in str(decoder.refusal)
    assert decoder.feed(b"x" * 100) == []


def test_the_longest_piece() -> None:
    """One frame of ttrpc; it is handed out as it comes, so a header costs no memory."""
    decoder = TrunkDecoder()
    assert decoder.feed(TRUNK_HEADER.pack(7, MAX_PIECE)) == []
    assert decoder.pending
    assert decoder.feed(b"x" * 1000) == [(7, b"x" * 1000)]
    rest = b"y" * (MAX_PIECE - 1000)
    assert decoder.feed(rest) == [(7, rest)]
    assert not decoder.pending
    assert decoder.refusal is None
    assert MAX_PIECE == 4194314


def test_empty_pieces_hand_out_nothing() -> None:
    """A flood of them costs the time to read them."""
    decoder = TrunkDecoder()
    assert decoder.feed(TRUNK_HEADER.pack(9, 0) * 8192) == []
    assert not decoder.pending


class GoReader:
    """Reads as ttrpc in Go does on NRI's multiplexer, which hands out whole pieces.

    A read with a buffer that is smaller than the piece fails there, and one with a longer capacity
    than length loses bytes. A ``bufio.Reader`` asks for its 4096 bytes, or for the rest of a body
    that is at least as long.
    """

    SIZE = 4096

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.buffered = b""

    def read(self, wanted: int) -> bytes:
        got = b""
        while len(got) < wanted:
            if not self.buffered:
                asks = max(wanted - len(got), self.SIZE)
                assert len(self.pieces[0]) <= asks, "ENOMEM"
                self.buffered = self.pieces.pop(0)
            part = self.buffered[: wanted - len(got)]
            self.buffered = self.buffered[len(part) :]
            got += part
        return got

    def frame(self) -> bytes:
        header = self.read(10)
        return header + self.read(int.from_bytes(header[:4]))


BODIES = st.integers(0, 200) | st.integers(4000, 4200) | st.integers(8000, 300_000)


@given(
    st.lists(BODIES, min_size=1, max_size=6),
    st.lists(st.integers(1, 5000) | st.integers(1, 200_000), max_size=12),
)
def test_every_piece_can_be_read_by_a_peer_in_go(sizes: list[int], calls: list[int]) -> None:
    """However the frames are divided among the calls that send them."""
    frames = [encode_frame(2 * i + 1, 1, 0, b"%d" % i * size) for i, size in enumerate(sizes)]
    text = b"".join(frames)
    lengths = PieceLengths()
    pieces = []
    for call in [*calls, len(text)]:
        for_this_call, text = text[:call], text[call:]
        while for_this_call:
            piece = for_this_call[: lengths.next()]
            lengths.sent(piece)
            pieces.append(piece)
            for_this_call = for_this_call[len(piece) :]
    reader = GoReader(pieces)
    assert [reader.frame() for _ in frames] == frames


def test_a_large_frame_has_few_pieces() -> None:
    """A peer in Go holds 256 unread pieces, and no more."""
    lengths = PieceLengths()
    frame = memoryview(encode_frame(1, 1, 0, b"x" * MAX_BODY))
    sizes = []
    while frame:
        piece = frame[: lengths.next()]
        lengths.sent(piece)
        sizes.append(len(piece))
        frame = frame[len(piece) :]
    assert len(sizes) == 65
    assert max(sizes) == 65536
    assert sizes[0] == 4096


@given(st.lists(st.binary(min_size=1, max_size=3000), max_size=10))
def test_any_bytes_have_pieces(chunks: list[bytes]) -> None:
    """What is sent need not be ttrpc."""
    lengths = PieceLengths()
    for chunk in chunks:
        assert 1 <= lengths.next() <= 65536
        lengths.sent(chunk[: lengths.next()])
        assert len(lengths._head) < 10
