"""Events of the caller to bytes: `EventEncoder`.

It refuses each event that no server would accept, so that it is known before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.json_texts import write, write_all

from ..wire.frames import encode_pairs, split_pairs
from ..wire.limits import LumberjackLimits

__all__ = ["FRAME_HEAD", "EventEncoder"]

FRAME_HEAD: Final = 10
"""Bytes of a frame before its event, at most."""

_ENOUGH: Final = 256 * 2**10
"""Bytes of events that are encoded before other tasks run."""

_SLICE_COUNT: Final = 64
_SLICE_SIZE: Final = 64 * 2**10
"""Dicts that are encoded at once: so many, and about so many bytes."""


class EventEncoder:
    """Encodes and checks events.

    Args:
        version: 1: key-value pairs; 2: JSON.
        compression_level: 0 to 9.
        limits: The limits that each event must keep.

    Attributes:
        version: As given.
        compression_level: As given.
        limits: As given.
        max_size: The largest size of an encoded event that keeps all limits.
        max_frames: The largest size of the frames of one window that keeps all limits.
    """

    def __init__(self, version: int, compression_level: int, limits: LumberjackLimits) -> None:
        self.version: Final = version
        self.compression_level: Final = compression_level
        self.limits: Final = limits
        name, self.max_frames = _largest(compression_level, limits)
        of_events = ("max_event_size", limits.max_event_size)
        of_frames = (name, self.max_frames - FRAME_HEAD)
        self._name, self.max_size = min(of_events, of_frames, key=itemgetter(1))

    def encode(self, events: Sequence[object], start: int, stop: int) -> list[bytes]:
        """Return the bytes of events, from the one at ``start`` on, at least one.

        After some hundred KiB it stops, before ``stop``, so that the caller can let others run.

        Raises:
            LocalProtocolError: An event is too large, empty, or has a value that JSON cannot have.
            TypeError: An event, or a value in it, is of a type that cannot be encoded.
        """
        part = events[start:stop]
        kinds = set(map(type, part)) if self.version == 2 else None
        if kinds == {bytes}:
            found: list[bytes] = part  # type: ignore[assignment]  # their types are known now
            self._check_all(found, start)
            return found
        if kinds == {dict}:
            return self._dicts(part, start)  # type: ignore[arg-type]  # as above
        encode_one = self._any_json if self.version == 2 else self._any_pairs
        found = []
        size = 0
        for number, event in enumerate(part, start + 1):
            raw = encode_one(event, number)
            self._check(raw, number)
            found.append(raw)
            size += len(raw)
            if size >= _ENOUGH:
                break
        return found

    def _dicts(self, events: Sequence[dict[str, Any]], start: int) -> list[bytes]:
        """Do the same for dicts only, quickly."""
        found: list[bytes] = []
        size = 0
        count = 1  # The next slice is small, if the events are large.
        while len(found) < len(events) and size < _ENOUGH:
            part = events[len(found) : len(found) + count]
            raws = write_all(part) or [
                self._any_json(event, number)
                for number, event in enumerate(part, start + len(found) + 1)
            ]
            longest = self._check_all(raws, start + len(found))
            found += raws
            size += sum(map(len, raws))
            count = min(max(_SLICE_SIZE // longest, 1), _SLICE_COUNT)
        return found

    def _check_all(self, raws: Sequence[bytes], start: int) -> int:
        """Check the texts of the events behind ``start``; return the size of the longest."""
        longest = max(map(len, raws))
        if longest > self.max_size or not all(raws):
            for number, raw in enumerate(raws, start + 1):
                self._check(raw, number)
        return longest

    def _check(self, raw: bytes, number: int) -> None:
        if not raw:
            raise LocalProtocolError(
                f"event {number} is empty: receivers close the connection then"
            )
        if len(raw) > self.max_size:
            raise LocalProtocolError(
                f"event {number} of {len(raw)} bytes is above the limit of {self.max_size}"
                f" ({self._name})"
            )

    def _any_json(self, event: object, number: int) -> bytes:
        if isinstance(event, bytes):
            return event
        if not isinstance(event, dict):
            event = _as_dict(event, number)
        try:
            return write(event)
        except TypeError as error:
            raise TypeError(
                f"event {number} cannot be encoded as JSON: {error}; convert it before"
            ) from None
        except UnicodeEncodeError:
            why = "it contains half of a surrogate pair"
        except RecursionError:
            why = "it is nested too deeply, or contains itself"
        except ValueError:
            why = "it contains NaN, Infinity, or an integer that is too long"
        raise LocalProtocolError(f"event {number} cannot be encoded as JSON: {why}")

    def _any_pairs(self, event: object, number: int) -> bytes:
        limit = self.limits.max_pairs
        if isinstance(event, bytes):
            try:
                count = len(split_pairs(event))
            except MalformedFrame as error:
                raise LocalProtocolError(
                    f"event {number} is not what encode_pairs returns: {error}"
                ) from None
            raw = event
        else:
            pairs = _as_dict(event, number)
            count = len(pairs)
            texts: list[tuple[str | bytes, str | bytes]] = []
            for key, value in pairs.items():
                if not isinstance(key, str | bytes) or not isinstance(value, str | bytes):
                    raise TypeError(
                        f"event {number} of version 1 has text or bytes only, not"
                        f" {type(key).__name__}: {type(value).__name__}; convert it before"
                    )
                texts.append((key, value))
            try:
                raw = encode_pairs(texts)
            except UnicodeEncodeError:
                raise LocalProtocolError(
                    f"event {number} cannot be encoded: it contains half of a surrogate pair"
                ) from None
        if count > limit:
            raise LocalProtocolError(
                f"event {number} of {count} key-value pairs is above the limit of {limit}"
                " (max_pairs)"
            )
        return raw


def _as_dict(event: object, number: int) -> dict[object, object]:
    if isinstance(event, Mapping):
        return dict(event)
    raise TypeError(f"event {number} is of type {type(event).__name__}; give a mapping, or bytes")


def _largest(compression_level: int, limits: LumberjackLimits) -> tuple[str, int]:
    """Return the limit that binds the frames of one window, and their largest size."""
    sizes = [("max_batch_size", limits.max_batch_size)]
    if compression_level:
        # Bytes that cannot be compressed become a few more.
        most = limits.max_compressed_size
        sizes += [
            ("max_inflated_size", limits.max_inflated_size),
            ("max_compressed_size", most - most // 1000 - 64),
        ]
    return min(sizes, key=itemgetter(1))
