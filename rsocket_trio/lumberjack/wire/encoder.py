"""Encode batches, for a client: one window, and its events in one compressed frame.

go-lumber, Logstash, Vector and Graylog all accept this form. Sequence numbers begin at 1 in each
window, because go-lumber acknowledges the number of events, and Logstash treats the number as
signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Final

from rsocket_trio.errors import LocalProtocolError

from .compression import compress
from .frames import COMPRESSED, LONG, MAX_U32, SHORT, WINDOW, json_code
from .limits import DEFAULT_LUMBERJACK_LIMITS, LumberjackLimits
from .sequences import MAX_SEQUENCE, last_sequence

__all__ = [
    "DEFAULT_COMPRESSION_LEVEL",
    "compressed_head",
    "encode_batch",
    "event_frames",
    "window_head",
]

DEFAULT_COMPRESSION_LEVEL: Final = 3
"""As Beats and logstash-forwarder."""

_DATA_HEAD: Final = b"1D"


def encode_batch(
    events: Sequence[bytes],
    *,
    version: int = 2,
    compression_level: int = DEFAULT_COMPRESSION_LEVEL,
    first_sequence: int = 1,
    limits: LumberjackLimits = DEFAULT_LUMBERJACK_LIMITS,
) -> bytes:
    """Return a batch as bytes: a W frame, and the events in one C frame, or as plain frames.

    Args:
        events: JSON texts in UTF-8 for version 2; what `encode_pairs` returns for version 1. They
            are not checked. Without events the batch is a window of 0, which asks a server for a
            sign of life.
        version: 1 or 2.
        compression_level: 1 to 9 as in zlib. With 0 there is no C frame. Use 0 only for version 2:
            Logstash resets the connection when a plain D frame arrives in two parts.
        first_sequence: The sequence number of the first event. Leave it at 1.
        limits: The limits that the batch must keep.

    Raises:
        LocalProtocolError: The batch goes past a limit, an event is empty, a number is impossible,
            or the last event would have the sequence number 0, whose ACK looks like a keep-alive.
    """
    if version not in (1, 2):
        raise LocalProtocolError(f"there is no Lumberjack version {version!r}")
    if not 0 <= compression_level <= 9:
        raise LocalProtocolError(f"compression_level must be 0 to 9, not {compression_level}")
    window = window_head(version, len(events))
    if not events:
        return window
    _check(events, first_sequence, limits)
    pieces = event_frames(events, version, limits, first_sequence)
    size = sum(map(len, pieces))
    if size > limits.max_batch_size:
        raise LocalProtocolError(
            f"a batch of {size} bytes is above the limit of {limits.max_batch_size}"
            " (max_batch_size)"
        )
    if not compression_level:
        return b"".join((window, *pieces))
    if size > limits.max_inflated_size:
        raise LocalProtocolError(
            f"a compressed frame of {size} bytes before compression is above the limit of"
            f" {limits.max_inflated_size} (max_inflated_size)"
        )
    payload = compress(b"".join(pieces), compression_level)
    if len(payload) > limits.max_compressed_size:
        raise LocalProtocolError(
            f"a compressed frame of {len(payload)} bytes is above the limit of"
            f" {limits.max_compressed_size} (max_compressed_size)"
        )
    return b"".join((window, compressed_head(version, len(payload)), payload))


def window_head(version: int, count: int) -> bytes:
    """Return the W frame of a window of ``count`` events."""
    return SHORT.pack(0x30 + version, WINDOW, count)


def compressed_head(version: int, size: int) -> bytes:
    """Return the head of a C frame with a payload of ``size`` bytes."""
    return SHORT.pack(0x30 + version, COMPRESSED, size)


def event_frames(
    events: Sequence[bytes], version: int, limits: LumberjackLimits, first_sequence: int = 1
) -> list[bytes]:
    """Return the D or J frames of events, in pieces: a few for each event.

    Args:
        events: See `encode_batch`.
        version: 1 or 2.
        limits: Only ``max_pairs`` is checked here.
        first_sequence: The sequence number of the first event.

    Raises:
        LocalProtocolError: An event of version 1 has too many pairs.
    """
    if version == 2:
        return _json_frames(events, first_sequence)
    return _data_frames(events, first_sequence, limits)


def _check(events: Sequence[bytes], first_sequence: int, limits: LumberjackLimits) -> None:
    if not 0 <= first_sequence <= MAX_SEQUENCE:
        raise LocalProtocolError(f"{first_sequence} is no sequence number: it has 32 bits")
    if len(events) > limits.max_window:
        raise LocalProtocolError(
            f"a window of {len(events)} events is above the limit of {limits.max_window}"
            " (max_window)"
        )
    if not last_sequence(first_sequence, len(events)):
        raise LocalProtocolError("the last event has sequence 0: its ACK looks like a keep-alive")
    longest = max(map(len, events))
    if longest > limits.max_event_size:
        raise LocalProtocolError(
            f"an event of {longest} bytes is above the limit of {limits.max_event_size}"
            " (max_event_size)"
        )
    if not all(events):
        raise LocalProtocolError("an event is empty: receivers close the connection then")


def _json_frames(events: Sequence[bytes], first: int) -> list[bytes]:
    # No line of Python runs for an event: only `map` and slices.
    last = first + len(events) - 1
    numbers = range(first, last + 1)
    sequences = numbers if last <= MAX_U32 else [number & MAX_U32 for number in numbers]
    pieces = [b""] * (2 * len(events))
    pieces[::2] = map(LONG.pack, repeat(json_code(2)), sequences, map(len, events))
    pieces[1::2] = events
    return pieces


def _data_frames(events: Sequence[bytes], first: int, limits: LumberjackLimits) -> list[bytes]:
    pieces: list[bytes] = []
    pairs = 0
    for sequence, event in enumerate(events, first):
        count = int.from_bytes(event[:4])
        pairs += count
        if count > limits.max_pairs:
            raise LocalProtocolError(
                f"an event of {count} key-value pairs is above the limit of {limits.max_pairs}"
                " (max_pairs)"
            )
        if pairs > limits.max_batch_pairs:
            raise LocalProtocolError(
                f"a batch of more than {limits.max_batch_pairs} key-value pairs is above the limit"
                " (max_batch_pairs)"
            )
        pieces += (_DATA_HEAD, (sequence & MAX_U32).to_bytes(4), event)
    return pieces
