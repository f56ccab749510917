"""WebSocket messages: the fast path agrees with wsproto, and its bounds hold."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from rsocket_trio.transports.websocket_frames import encode_messages
from rsocket_trio.transports.websocket_reader import (
    FRAMES_AT_ONCE,
    MAX_EMPTY_PARTS,
    MessageReader,
)

SIZES = [0, 1, 3, 4, 5, 124, 125, 126, 127, 1023, 1024, 1025, 1027, 65535, 65536, 70001]
LIMIT = 100_000


def reader(*, client: bool, limit: int = LIMIT) -> MessageReader:
    return MessageReader(limit, peer_masks=not client)


def feed(subject: MessageReader, data: bytes | bytearray) -> list[bytes]:
    """Return all the messages in ``data``, in as many calls as needed."""
    messages = subject.feed(data)
    while subject.has_more:
        messages += subject.feed(b"")
    return messages


def frame(
    first: int, payload: bytes, *, masked: bool, length_form: int = 0, key: bytes = b"\1\2\3\xff"
) -> bytes:
    """One frame of RFC 6455; ``length_form`` 126 or 127 asks for a longer form."""
    size = len(payload)
    form = max(length_form, 126 if 125 < size < 65536 else 127 if size > 65535 else 0)
    header = bytes([first, (0x80 if masked else 0) | (form or size)])
    header += {0: b"", 126: struct.pack(">H", size & 0xFFFF), 127: struct.pack(">Q", size)}[form]
    if not masked:
        return header + payload
    return header + key + bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))


class Outcome:
    """The result of wsproto alone for the same bytes, under the same limits."""

    def __init__(self, *, client: bool) -> None:
        kind = ConnectionType.CLIENT if client else ConnectionType.SERVER
        self.connection = Connection(kind)
        self.messages: list[bytes] = []
        self.message = b""
        self.ping: bytes | None = None
        self.peer_close: tuple[int, str] | None = None
        self.failed = False

    def feed(self, data: bytes) -> None:
        self.connection.receive_data(data)
        for event in self.connection.events():
            if isinstance(event, BytesMessage):
                self.message += event.data
                if event.message_finished:
                    self.messages.append(self.message)
                    self.message = b""
            elif isinstance(event, TextMessage):
                self.failed = True
            elif isinstance(event, Ping):
                self.ping = bytes(event.payload)
            elif isinstance(event, CloseConnection):
                if self.connection.state is ConnectionState.OPEN:
                    self.failed = True
                else:
                    self.peer_close = (event.code, event.reason or "")
            if self.failed:
                return


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mask", [False, True])
def test_wsproto_reads_our_messages(size: int, mask: bool) -> None:
    """It reads messages of every form of length, masked or not."""
    messages = [bytes([size % 256]) * size, b"", b"behind"]
    other = Outcome(client=not mask)
    other.feed(b"".join(encode_messages(messages, mask=mask)))
    assert other.messages == messages
    assert not other.failed


def test_every_frame_has_its_own_masking_key() -> None:
    """The same message sent several times never has the same bytes."""
    pieces = encode_messages([b"same message"] * 50, mask=True)
    assert len({pieces[i] for i in range(1, 150, 3)}) == 50


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("step", [1, 7, 1000, 10**6])
def test_messages_are_read_however_they_are_cut(size: int, client: bool, step: int) -> None:
    """Whole, in parts and byte by byte, the same messages are returned."""
    if step == 1 and size > 2000:
        size = 2000
    messages = [b"first", bytes(range(256)) * (size // 256) + bytes(size % 256), b"", b"last"]
    data = b"".join(encode_messages(messages, mask=not client))
    subject = reader(client=client)
    received = []
    for begin in range(0, len(data), step):
        received += feed(subject, bytearray(data[begin : begin + step]))
    assert received == messages
    assert not subject.is_over


@given(
    client=st.booleans(),
    frames=st.lists(
        st.builds(
            lambda first, payload, wrong_mask, form: (first, payload, wrong_mask, form),
            st.sampled_from([0x82, 0x82, 0x82, 0x02, 0x00, 0x80, 0x89, 0x8A, 0x88])
            | st.integers(0, 255),
            st.binary(max_size=140) | st.sampled_from([b"\x03\xe8bye", b"\x03\xe9", b""]),
            st.sampled_from([False] * 9 + [True]),
            st.sampled_from([0] * 9 + [126, 127]),
        ),
        max_size=12,
    ),
    cuts=st.lists(st.integers(0, 600), max_size=6),
)
@settings(max_examples=300)
def test_the_fast_path_agrees_with_wsproto(
    client: bool, frames: list[tuple[int, bytes, bool, int]], cuts: list[int]
) -> None:
    """The same bytes give the same messages, pings, closes and failures as from wsproto alone."""
    data = b"".join(
        frame(first, payload, masked=(not client) != wrong, length_form=form)
        for first, payload, wrong, form in frames
    )
    subject, other = reader(client=client), Outcome(client=client)
    received = []
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in pairwise(bounds):
        received += feed(subject, data[begin:end])
        if not (other.failed or other.peer_close):
            other.feed(data[begin:end])
    assert received == other.messages
    assert subject.ping == other.ping
    assert subject.peer_close == other.peer_close
    # We refuse a text message by its header; wsproto alone waits for the text.
    if other.failed:
        assert subject.failure is not None
    elif subject.failure is not None:
        assert "text" in str(subject.failure)


@given(st.booleans(), st.binary(max_size=300))
def test_any_bytes_have_an_outcome(client: bool, data: bytes) -> None:
    """Random bytes give messages, a close or a failure, never another exception."""
    subject = reader(client=client)
    subject.feed(data)
    subject.feed(data)


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("first", [0x82, 0x02])
def test_a_long_message_is_refused_by_its_header(client: bool, first: int) -> None:
    """The length alone is enough, fragmented or not."""
    subject = reader(client=client, limit=1000)
    whole = frame(first, bytes(1001), masked=not client)
    assert subject.feed(frame(0x82, bytes(1000), masked=not client)) == [bytes(1000)]
    assert subject.feed(whole[: 4 if client else 8]) == []
    assert "1001 bytes" in str(subject.failure)
    assert subject.failure_code == 1009
    assert subject.feed(whole) == []


@pytest.mark.parametrize(("size", "code"), [(2**24, 1009), (2**63 - 1, 1009), (2**63, 1002)])
def test_an_absurd_length_reserves_no_memory(size: int, code: int) -> None:
    """Sixteen megabytes, or the largest possible length, are refused at once."""
    subject = reader(client=True)
    subject.feed(b"\x82\x7f" + size.to_bytes(8, "big"))
    assert subject.failure is not None
    assert subject.failure_code == code


def test_fragments_are_joined_up_to_the_limit() -> None:
    """Fragments count together, and the one that exceeds the limit is refused."""
    subject = reader(client=True, limit=1000)
    assert subject.feed(frame(0x02, bytes(600), masked=False)) == []
    assert subject.feed(frame(0x89, b"ping", masked=False)) == []
    assert subject.feed(frame(0x80, bytes(400), masked=False)) == [bytes(1000)]
    assert subject.ping == b"ping"
    assert subject.feed(frame(0x02, bytes(600), masked=False)) == []
    assert subject.feed(frame(0x80, bytes(401), masked=False)[:4]) == []
    assert subject.failure_code == 1009


@pytest.mark.parametrize("client", [False, True])
def test_empty_parts_are_limited(client: bool) -> None:
    """A message may have some empty parts, apart from the last; one more ends the connection."""
    subject = reader(client=client, limit=10)
    part = frame(0x00, b"", masked=not client)
    for _ in range(2):
        assert subject.feed(frame(0x02, b"", masked=not client)) == []
        assert subject.feed(part * (MAX_EMPTY_PARTS - 1)) == []
        for byte in (b"a", b"b"):  # The cut behind the header makes no empty part.
            cut = frame(0x00, byte, masked=not client)
            assert subject.feed(cut[:-1]) == []
            assert subject.feed(cut[-1:]) == []
        assert subject.feed(frame(0x80, b"", masked=not client)) == [b"ab"]
    subject.feed(frame(0x02, b"x", masked=not client) + part * MAX_EMPTY_PARTS)
    assert not subject.is_over
    assert subject.feed(part + frame(0x82, b"late", masked=not client)) == []
    assert "empty parts" in str(subject.failure)
    assert subject.failure_code == 1008


def test_only_the_latest_ping_is_kept() -> None:
    """A flood of pings leaves one pong to be sent."""
    subject = reader(client=True)
    feed(subject, b"".join(frame(0x89, b"%d" % n, masked=False) for n in range(10_000)))
    assert subject.ping == b"9999"


TINY = {
    "pings": frame(0x89, b"", masked=True),
    "pongs": frame(0x8A, b"", masked=True),
    "messages": frame(0x82, b"", masked=True),
    "parts": frame(0x00, b"x", masked=True),
    "messages in two parts": frame(0x02, b"", masked=True) + frame(0x80, b"", masked=True),
    "all kinds": b"".join(frame(first, b"", masked=True) for first in (0x82, 0x89, 0x8A)),
}


@pytest.mark.parametrize("kind", TINY)
def test_the_frames_of_one_call_are_limited(kind: str) -> None:
    """A call ends after its share of the frames, and no frame is lost."""
    subject = reader(client=False)
    if kind == "parts":
        subject.feed(frame(0x02, b"", masked=True))
    data = TINY[kind] * 3000
    frames = 3000 * {"messages in two parts": 2, "all kinds": 3}.get(kind, 1)
    messages = subject.feed(data)
    calls = 1
    while subject.has_more:
        before = subject._position
        messages += subject.feed(b"")
        assert subject._position == 0 or subject._position - before <= 7 * FRAMES_AT_ONCE
        calls += 1
    assert calls == -(-frames // FRAMES_AT_ONCE)
    if kind == "parts":
        assert subject.feed(frame(0x80, b"", masked=True)) == [b"x" * 3000]
    else:
        expected = {"pings": 0, "pongs": 0}.get(kind, 3000)
        assert messages == [b""] * expected
    assert not subject.is_over


def test_a_call_with_an_incomplete_frame() -> None:
    """The beginning of a header, or of a frame, gives no further message."""
    subject = reader(client=False)
    data = frame(0x82, b"message" * 20, masked=True)
    for byte in data[:-1]:
        assert subject.feed(bytes([byte])) == []
        assert not subject.has_more
        assert subject.feed(b"") == []
    assert subject.feed(data[-1:]) == [b"message" * 20]
    assert not subject.has_more


def test_text_is_refused_by_its_header() -> None:
    """A text message ends the connection with the code for unsupported data."""
    subject = reader(client=True)
    assert subject.feed(frame(0x82, b"before", masked=False) + b"\x81\x05") == [b"before"]
    assert "text" in str(subject.failure)
    assert subject.failure_code == 1003


@pytest.mark.parametrize(
    ("data", "close"),
    [
        (b"", (1005, "")),
        (b"\x03\xe8", (1000, "")),
        (b"\x03\xe9going", (1001, "going")),
        (b"\x0f\xa0mine", (4000, "mine")),
    ],
)
def test_the_close_frame_is_kept(data: bytes, close: tuple[int, str]) -> None:
    """Code and reason of a close frame are kept, and later bytes are not read."""
    subject = reader(client=True)
    sent = frame(0x82, b"last", masked=False) + frame(0x88, data, masked=False)
    assert subject.feed(sent + frame(0x82, b"late", masked=False)) == [b"last"]
    assert subject.peer_close == close
    assert subject.failure is None


@pytest.mark.parametrize(("first", "payload"), [(0x88, b"\x03\xe8"), (0x89, b"ping")])
def test_control_frames_do_not_count_as_parts_of_a_message(first: int, payload: bytes) -> None:
    """A message that has reached the limit may be followed by them, also between its frames."""
    subject = reader(client=True, limit=10)
    assert subject.feed(frame(0x02, bytes(10), masked=False)) == []
    assert subject.feed(frame(first, payload, masked=False)) == []
    assert subject.failure is None
    assert subject.peer_close == ((1000, "") if first == 0x88 else None)


def test_the_longest_control_frame() -> None:
    """It has 125 bytes (RFC 6455, section 5.5)."""
    subject = reader(client=True)
    assert subject.feed(frame(0x89, bytes(125), masked=False)) == []
    assert subject.ping == bytes(125)
    assert subject.failure is None
    subject.feed(frame(0x89, bytes(126), masked=False))
    assert subject.failure_code == 1002


@pytest.mark.parametrize(
    ("code", "allowed"),
    [(999, False), (1000, True), (1005, False), (2999, False), (3000, True), (4999, True),
     (5000, False)],
)  # fmt: skip
def test_the_codes_of_applications(code: int, allowed: bool) -> None:
    """They begin at 3000 and end at 4999 (RFC 6455, section 7.4.2)."""
    subject = reader(client=True)
    subject.feed(frame(0x88, code.to_bytes(2, "big"), masked=False))
    assert subject.peer_close == ((code, "") if allowed else None)
    assert subject.failure_code == (0 if allowed else 1002)
