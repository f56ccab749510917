"""Offsets of a stream with ``delivery=replay``, as Spark keeps them: `Position`. Pure functions.

Spark stores the offset at the end of a batch before it reads the batch. After a crash it plans the
batch again from its start and this end. The start of the first batch is not stored: Spark asks for
it again, and ``latest`` may be later then. So the end of a batch says where the batch begins, for
all partitions where this is not the end of the batch before. Spark compares offsets as text, so
their keys have a fixed order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final, TypeVar

import attrs

from ...log_policy import logger
from ..failures import DataLoss
from ..options import parse_place
from ..replay import Offsets, RangeRequest, ReplayOffsets
from ..replay.messages import MAX_OFFSET

__all__ = [
    "LATEST",
    "Position",
    "advance",
    "check_order",
    "parse_starting",
    "ranges",
    "starting",
]

_T = TypeVar("_T")

VERSION: Final = 1
_KEYS: Final = {"begins", "first", "ids", "next", "v"}
LATEST: Final = -1
EARLIEST: Final = -2
"""Offsets that stand for the end and the beginning of a partition, as for Spark's Kafka source."""


@attrs.frozen
class Position:
    """An offset of the stream.

    Attributes:
        next: The next offset of each partition.
        ids: The identity of the elements of each partition, if there is one.
        begins: Where the batch before this offset begins, if not at the offset before.
        is_first: Whether no batch is before this offset.
    """

    next: Mapping[int, int]
    ids: Mapping[int, str] = attrs.field(factory=dict)
    begins: Mapping[int, int] = attrs.field(factory=dict)
    is_first: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the offset for Spark. Equal positions have equal texts."""
        whole: dict[str, Any] = {
            "begins": _sorted(self.begins),
            "first": self.is_first,
            "ids": _sorted(self.ids),
            "next": _sorted(self.next),
        }
        return {name: value for name, value in whole.items() if value} | {"v": VERSION}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Position:
        """Read an offset that Spark has kept.

        Raises:
            ValueError: It is of another source, or of a later version of this one, or damaged.
        """
        try:
            if offset.get("v") == VERSION and offset.keys() <= _KEYS:
                return cls(
                    next=_by_partition(offset.get("next", {}), _offset),
                    ids=_by_partition(offset.get("ids", {}), _identity),
                    begins=_by_partition(offset.get("begins", {}), _offset),
                    is_first=bool(offset.get("first", False)),
                )
        except (ValueError, AttributeError):
            pass
        raise ValueError(
            f"the checkpoint has the offset {json.dumps(offset)[:200]}, which is of another "
            "source, of a later version, or damaged: use another checkpointLocation"
        )


def _sorted(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): values[number] for number in sorted(values)}


def _by_partition(values: Mapping[str, Any], check: Callable[[Any], _T]) -> dict[int, _T]:
    return {int(number): check(value) for number, value in values.items()}


def _offset(value: Any) -> int:
    if type(value) is int and 0 <= value <= MAX_OFFSET:
        return value
    raise ValueError(value)


def _identity(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(value)


def parse_starting(text: str, name: str = "startingOffsets") -> int | Mapping[int, int]:
    """Read the option ``startingOffsets``.

    Raises:
        ValueError: It is something else.
    """
    found = parse_place(
        text,
        name,
        _by_number,
        'the offsets of partitions in JSON, e.g. {"0": 1000, "1": -2}, where -2 is the earliest and'
        " -1 the latest",
    )
    if isinstance(found, str):
        return EARLIEST if found == "earliest" else LATEST
    return found


def _by_number(value: object) -> dict[int, int]:
    if not isinstance(value, dict) or any(
        type(each) is not int or each < EARLIEST for each in value.values()
    ):
        raise ValueError("these are no offsets of partitions")
    return {int(number): each for number, each in value.items()}


def starting(
    wanted: int | Mapping[int, int],
    here: ReplayOffsets,
    option: str = "startingOffsets",
    default: int = EARLIEST,
) -> Position:
    """Return the first position; or that of the end of a batch read.

    Args:
        wanted: What `parse_starting` has returned.
        here: The elements that can be read.
        option: The name of the option, for errors.
        default: What holds for partitions that ``wanted`` does not name.

    Raises:
        ValueError: There is no such partition, or it has no such offset yet.
    """
    given = {} if isinstance(wanted, int) else wanted
    default = wanted if isinstance(wanted, int) else default
    for number in given:
        if number not in here.partitions:
            raise ValueError(f"{option} names partition {number}, which is not there")
    following = {}
    for number, offsets in here.partitions.items():
        offset = given.get(number, default)
        if offset > offsets.latest:
            raise ValueError(
                f"{option} names offset {offset} of partition {number}, which ends at "
                f"{offsets.latest}"
            )
        ends = {EARLIEST: offsets.earliest, LATEST: offsets.latest}
        following[number] = ends.get(offset, offset)
    return Position(following, _ids(here), is_first=True)


def _ids(here: ReplayOffsets) -> dict[int, str]:
    return {number: each.id for number, each in here.partitions.items() if each.id is not None}


def advance(
    start: Position,
    here: ReplayOffsets,
    *,
    limit: int | None,
    fail_on_loss: bool,
    may_be_behind: bool = False,
) -> Position:
    """Return the end of the next batch; ``start`` itself if there is nothing new.

    Args:
        start: The end of the last batch.
        here: The elements that can be read.
        limit: The largest number of elements of the batch, or None.
        fail_on_loss: Whether elements that are gone are an error.
        may_be_behind: Whether another responder has told ``start``, and this one may not have its
            newest elements yet.

    Raises:
        DataLoss: Elements are gone.
    """
    begins: dict[int, int] = {}
    backlog: dict[int, int] = {}
    for number, offsets in here.partitions.items():
        begin = start.next.get(number, offsets.earliest)
        lost = _loss(number, start, offsets, may_be_behind=may_be_behind)
        if lost:
            if fail_on_loss:
                raise DataLoss(
                    f"{lost}. With failOnDataLoss=false, the query goes on with the elements that "
                    "are there"
                )
            logger.warning("%s; the query goes on at offset %d", lost, offsets.earliest)
            begin = offsets.earliest
        begins[number] = begin
        backlog[number] = max(0, offsets.latest - begin)
    gone = sorted(start.next.keys() - here.partitions.keys())
    if gone and fail_on_loss:
        raise DataLoss(
            f"partition {gone[0]} is gone, which was read up to offset {start.next[gone[0]]}. With "
            "failOnDataLoss=false, the query goes on with the other partitions"
        )
    taken = _shares(backlog, limit, turn=sum(begins.values()))
    following = dict(start.next) | {number: begins[number] + taken[number] for number in begins}
    if not start.is_first:
        begins = {
            number: begin for number, begin in begins.items() if begin != start.next.get(number)
        }
        if following == dict(start.next) and not begins:
            return start
    away = {number: each for number, each in start.ids.items() if number in gone}
    return Position(following, away | _ids(here), begins)


def _loss(number: int, start: Position, here: Offsets, *, may_be_behind: bool) -> str:
    """Return which elements of a partition are gone, or no text."""
    offset = start.next.get(number)
    if offset is None:
        return ""
    known = start.ids.get(number)
    if known is not None and known != here.id and offset > 0:
        return f"partition {number} has other elements now than it had up to offset {offset}"
    if offset < here.earliest:
        return f"partition {number} begins at offset {here.earliest}, but {offset} was to be read"
    if offset > here.latest and not may_be_behind:
        return f"partition {number} ends at offset {here.latest}, but it was read up to {offset}"
    return ""


def _shares(backlog: Mapping[int, int], limit: int | None, turn: int) -> dict[int, int]:
    """Share a limit: each partition gets the same, and what one does not need goes to the others.

    Args:
        backlog: The elements of each partition.
        limit: The number of elements, or None.
        turn: Changes with each batch, so that the remainder does not go to the same partition.
    """
    shares = dict(backlog)
    if limit is None or sum(shares.values()) <= limit:
        return shares
    left = limit
    waiting = sorted(backlog, key=lambda number: (backlog[number], number))
    while waiting and backlog[waiting[0]] <= left // len(waiting):
        left -= shares[waiting.pop(0)]
    waiting.sort()
    share, more = divmod(left, len(waiting))
    for index, number in enumerate(waiting):
        shares[number] = share + ((index - turn) % len(waiting) < more)
    return shares


def check_order(begin: Position, end: Position) -> None:
    """Check that a batch does not end before its beginning.

    Raises:
        ValueError: It does.
    """
    for number, stop in end.next.items():
        start = begin.next.get(number, stop)
        if stop < start:
            raise ValueError(
                f"endingOffsets ends partition {number} at offset {stop}, before its beginning at "
                f"{start} (startingOffsets)"
            )


def ranges(start: Position, end: Position, minimum: int) -> list[RangeRequest]:
    """Return the ranges of a batch.

    Args:
        start: The end of the batch before, or a first position.
        end: The end of this batch.
        minimum: Split ranges into about so many, if they have so many elements.
    """
    begins = {**start.next, **end.begins}
    whole = [
        (number, begins.get(number, stop), stop)
        for number, stop in sorted(end.next.items())
        if begins.get(number, stop) < stop
    ]
    total = sum(stop - begin for _, begin, stop in whole)
    found = []
    for number, begin, stop in whole:
        size = stop - begin
        parts = max(1, min(size, round(size * minimum / total)))
        edges = [begin + size * part // parts for part in range(parts + 1)]
        for low, high in pairwise(edges):
            found.append(
                RangeRequest(partition=number, start=low, stop=high, id=end.ids.get(number))
            )
    return found
