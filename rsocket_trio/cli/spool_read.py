"""``spool read``: print the events of a spool."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.collector import stored_payloads
from rsocket_trio.errors import RSocketError
from rsocket_trio.lumberjack import InvalidEvent, StoredEvents, stored_events
from rsocket_trio.metadata import MIME
from rsocket_trio.spool import OffsetTrimmed, describe_spool, find_since, read_range

from .data_types import DataType
from .event_lines import event_line, invalid_line
from .exits import DONE, PEER_ERROR, USAGE, Failure
from .output import json_line, render, text_or_hex, utc
from .spool_options import spool_failure
from .standard_streams import is_unread, print_bytes, print_error_bytes

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Payload
    from rsocket_trio.spool import StoredBatch

__all__ = ["run"]

_INTERVAL: Final = 0.25
"""Seconds between two looks for more events."""


def run(args: argparse.Namespace) -> int:
    """Print the events from an offset on, up to the present end or without end.

    Returns:
        0, or 1 if an event is not valid JSON.

    Raises:
        Failure: The directory has no spool, it cannot be read, the offset is not kept, or there are
            batches that no Lumberjack receiver and no collector has stored.
        BrokenPipeError: The reader of the output has closed the pipe.
    """
    if None not in (args.since, args.until) and args.until < args.since:
        raise Failure("--until is before --since", USAGE)
    status = DONE
    left = args.take
    try:
        for batch in _batches(args):
            events = _events_of(batch)
            if not _print(events, batch, args, left):
                status = PEER_ERROR
            if left is not None:
                left -= min(left, len(events.raw))
                if left == 0:
                    break
    except RSocketError as error:
        raise spool_failure(error) from error
    return status


def _batches(args: argparse.Namespace) -> Iterator[StoredBatch]:
    directory: str = args.directory
    spool_id: str | None = None
    at: int | None = args.start
    while True:
        found = describe_spool(directory)
        spool_id = spool_id or found.spool_id
        begin, head = found.oldest if at is None else at, found.head
        if at is None and (args.last is not None or args.since is not None):
            if args.last is not None:
                begin = max(begin, head - args.last)
            else:
                begin = min(find_since(directory, args.since, spool_id=spool_id), head)
            if begin == head:  # With --follow, events that come later are all printed.
                at = begin
        if args.until is not None:
            head = min(find_since(directory, args.until, spool_id=spool_id), head)
        if begin < head or not args.follow:
            try:
                # Also for an empty range: a start that is not stored is an error.
                end = max(begin, head)
                for batch in read_range(directory, begin, end, spool_id=spool_id):
                    at = batch.stop
                    yield batch
            except OffsetTrimmed:
                if at is None:  # The oldest event was deleted meanwhile: begin with the next one.
                    continue
                raise
        if not args.follow:
            return
        if is_unread():
            raise BrokenPipeError
        time.sleep(_INTERVAL)  # Another process writes the spool, and cannot tell us.


def _events_of(batch: StoredBatch) -> StoredEvents:
    """Return the events of a Lumberjack receiver, or of a collector.

    Payloads that are not JSON become JSON objects, as the commands of RSocket print them.
    """
    if batch.encoding != "payloads":
        return stored_events(batch)
    payloads = stored_payloads(batch)
    mime_type = batch.facts.get("mime", "")
    if DEFAULT_CODECS.registered(mime_type) == MIME.JSON:
        raw = [each.data for each in payloads]
    else:
        data_type = DataType(mime_type)
        raw = [_as_object(each, data_type).removesuffix(b"\n") for each in payloads]
    return StoredEvents(raw=raw, is_json=True, first=batch.start)


def _as_object(payload: Payload, data_type: DataType) -> bytes:
    try:
        return data_type.line(payload, as_json=True)
    except CodecError:
        return render(payload, as_json=True)


def _print(
    events: StoredEvents, batch: StoredBatch, args: argparse.Namespace, left: int | None
) -> bool:
    """Print at most ``left`` events; return whether all of them are valid."""
    lines: list[bytes] = []
    valid = True
    raw = events.raw if left is None else events.raw[:left]
    for offset, each in enumerate(raw, events.first):
        try:
            line = event_line(each, is_json=events.is_json)
            if args.json:
                line = _with_facts(offset, batch, line)
        except InvalidEvent as error:
            valid = False
            if not args.json:
                print_bytes(b"".join(lines))  # first, as a terminal shows both
                lines.clear()
                print_error_bytes(invalid_line(each, error, f"offset {offset}", as_json=False))
                continue
            text = text_or_hex("invalid_event", each)
            line = json_line({**_facts(offset, batch), **text, "reason": error.reason})
        lines.append(line)
    print_bytes(b"".join(lines))
    return valid


def _facts(offset: int, batch: StoredBatch) -> dict[str, object]:
    return {
        "offset": offset,
        "stored_at": utc(batch.stored_at),
        "peer": batch.facts.get("peer"),
    }


def _with_facts(offset: int, batch: StoredBatch, line: bytes) -> bytes:
    # The event is put in as it is: decoding and encoding it may change its numbers.
    facts = json_line(_facts(offset, batch)).removesuffix(b"}\n")
    return facts + b', "event": ' + line.removesuffix(b"\n") + b"}\n"
