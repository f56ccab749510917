"""The offsets of a query: a number for each spool, as Spark keeps them in its checkpoint.

Options name them, or times that stand for them: `Since`.

Spark compares offsets as JSON texts, so equal offsets must give equal texts: `Offsets.as_json` has
its keys in order. Spark's own form is
``{"e": {"<spool id>": "<epoch>"}, "i": "<instance>", "s": {"<spool id>": 17}, "v": 2}``. Version 1
has no epochs and no instance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeAlias

import attrs

from ..options import parse_place

__all__ = ["Offsets", "Since", "StartingOffsets", "parse_starting_offsets", "parse_timestamp"]

_VERSION: Final = 2
_VERSIONS: Final = (1, 2)
_MAX_OFFSET: Final = 2**63 - 1
_MAX_NAME: Final = 200
"""Characters of an epoch and of an instance."""
_MAX_SPOOLS: Final = 100_000
"""Spools of one query. Each trigger writes them all to the checkpoint."""

_FEWEST_MILLISECONDS: Final = 10**11
"""The year 1973. A smaller number is in seconds, by mistake."""

StartingOffsets: TypeAlias = "Offsets | Literal['earliest', 'latest']"


def _sorted(values: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(values.items()))


def _sorted_texts(values: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(values.items()))


@attrs.frozen
class Offsets(Mapping[str, int]):
    """For each spool, the offset of the first event that has not been read.

    Args:
        spools: The offsets by spool id.
        epochs: The last epochs of the spools when these offsets were chosen, by spool id. A spool
            that does not have its epoch up to its offset was restored from an older copy.
        instance: The name of the reader at the collectors. Spark keeps it in the checkpoint, so a
            stream has the same name each time that it is started.
    """

    spools: dict[str, int] = attrs.field(factory=dict, converter=_sorted)
    epochs: dict[str, str] = attrs.field(factory=dict, converter=_sorted_texts)
    instance: str | None = None

    def __getitem__(self, spool_id: str) -> int:
        return self.spools[spool_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.spools)

    def __len__(self) -> int:
        return len(self.spools)

    def as_json(self) -> dict[str, Any]:
        """Return what Spark writes to its checkpoint, with the keys in order."""
        named = {} if self.instance is None else {"i": self.instance}
        epochs = {"e": dict(self.epochs)} if self.epochs else {}
        return {**epochs, **named, "s": dict(self.spools), "v": _VERSION}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the offsets that `as_json` has returned, or a user has written.

        Raises:
            ValueError: They are something else.
        """
        match value:
            case {"v": version} if version not in _VERSIONS or isinstance(version, bool):
                raise ValueError(
                    f"the offsets have the version {version!r}; this version of rsocket-trio reads"
                    f" the versions up to {_VERSION}: use the version that wrote the checkpoint, or"
                    " a newer one"
                )
            case {"s": dict(spools), "v": _, **rest} if rest.keys() <= {"e", "i"}:
                pass
            case _:
                raise ValueError(
                    'offsets are like {"s": {"<spool id>": 17}, "v": 2}, with the spool ids that'
                    " `rsocket-trio collect --status` shows"
                )
        if len(spools) > _MAX_SPOOLS:
            raise ValueError(f"there are more than {_MAX_SPOOLS} spools in the offsets")
        for spool_id, offset in spools.items():
            if not (isinstance(spool_id, str) and spool_id):
                raise ValueError(f"{spool_id!r} is no spool id")
            is_number = isinstance(offset, int) and not isinstance(offset, bool)
            if not (is_number and 0 <= offset <= _MAX_OFFSET):
                raise ValueError(f"{offset!r} is no offset of the spool {spool_id}")
        epochs, instance = rest.get("e", {}), rest.get("i")
        if not isinstance(epochs, dict) or not epochs.keys() <= spools.keys():
            raise ValueError("the epochs of offsets are texts by spool ids")
        return cls(
            spools,
            {each: _name(epoch) for each, epoch in epochs.items()},
            None if instance is None else _name(instance),
        )


def _name(value: object) -> str:
    if not (isinstance(value, str) and 0 < len(value) <= _MAX_NAME):
        raise ValueError(f"{value!r} is no name of an epoch or an instance")
    return value


def parse_starting_offsets(text: str, *, option: str = "startingOffsets") -> StartingOffsets:
    """Return the value of the option ``startingOffsets`` or ``endingOffsets``.

    Raises:
        ValueError: It is none of the three forms.
    """
    return parse_place(text, option, Offsets.from_json, "offsets in JSON")


@attrs.frozen
class Since:
    """For each spool, the first event that was stored at a time, or later.

    Args:
        option: The option that says so.
        time: Seconds since 1970, for all spools; None: only for those that are named.
        spools: The same by spool id.
    """

    option: str
    time: float | None
    spools: dict[str, float] = attrs.field(factory=dict)

    def of(self, spool_id: str) -> float | None:
        """Return the time for a spool; None: it has none."""
        return self.spools.get(spool_id, self.time)

    def has(self, spool_id: str) -> bool:
        """Return whether there is a time for a spool."""
        return self.of(spool_id) is not None


def parse_timestamp(text: str, *, option: str) -> Since:
    """Return the value of the option ``startingTimestamp`` or ``endingTimestamp``.

    Raises:
        ValueError: It is no time, and no times by spool ids in JSON.
    """
    try:
        if not text.lstrip().startswith("{"):
            return Since(option, _seconds(text))
        found: dict[str, object] = json.loads(text)
        return Since(option, None, {spool_id: _seconds(value) for spool_id, value in found.items()})
    except (ValueError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{option} is a time such as 2026-11-27T14:00:00Z, milliseconds since 1970, or an"
            f" object of these by spool ids in JSON: {error}"
        ) from None


def _seconds(value: object) -> float:
    """Return a time in seconds since 1970.

    Raises:
        ValueError: It is none, or its time zone is not known.
        OverflowError: It is out of reach.
    """
    text = str(value).strip()[:_MAX_NAME]
    # Up to the year 2286: 20261127140000 is a date that somebody means otherwise.
    if isinstance(value, str | int) and re.fullmatch("[0-9]{1,13}", text, re.ASCII):
        if int(text) < _FEWEST_MILLISECONDS:
            raise ValueError(f"{text} milliseconds are in 1973 or before; are they seconds?")
        return int(text) / 1000
    if not isinstance(value, str):
        raise ValueError(f"{text} is no time")  # noqa: TRY004 - of the user
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text} has no time zone, such as Z or +01:00")
    return time.timestamp()
