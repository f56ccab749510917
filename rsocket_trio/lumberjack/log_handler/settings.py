"""The settings of a `LumberjackHandler`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

import attrs

from .record import OWN_FIELDS

__all__ = ["Settings"]

POLICIES: Final = ("drop_newest", "drop_oldest", "block")


def _check_seconds(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{attribute.name} must be a number, not {type(value).__name__}")
    if not 0 <= value < inf:
        raise ValueError(f"{attribute.name} must be at least 0 and finite, not {value!r}")


def _check_policy(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    if value not in POLICIES:
        shown = repr(value) if isinstance(value, str) else type(value).__name__
        raise ValueError(f"on_full must be one of {', '.join(POLICIES)}, not {shown}")


def _check_fields(
    instance: object, attribute: attrs.Attribute[Mapping[str, object]], value: Mapping[str, object]
) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"fields must be a mapping, not {type(value).__name__}")
    if not all(isinstance(name, str) for name in value):
        raise TypeError("fields must be a mapping with text as keys")
    taken = sorted(OWN_FIELDS & {*value})
    if taken:
        raise ValueError(f"fields must not have {taken[0]!r}: it comes from the record")


def _check_count(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{attribute.name} must be an int, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{attribute.name} must be at least 1, not {value}")


def _check_event_size(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    _check_count(instance, attribute, value)
    if value < 1024:
        raise ValueError(f"{attribute.name} must be at least 1024, not {value}")


@attrs.frozen(kw_only=True)
class Settings:
    """See `LumberjackHandler` for the meaning of each setting."""

    max_records: int = attrs.field(validator=_check_count)
    max_size: int = attrs.field(validator=_check_count)
    max_event_size: int = attrs.field(validator=_check_event_size)
    on_full: str = attrs.field(validator=_check_policy)
    block_timeout: float = attrs.field(validator=_check_seconds)
    fields: Mapping[str, object] = attrs.field(validator=_check_fields)
    linger: float = attrs.field(validator=_check_seconds)
    close_timeout: float = attrs.field(validator=_check_seconds)

    def __attrs_post_init__(self) -> None:
        if self.max_size < 2 * self.max_event_size:
            raise ValueError(
                f"max_size must be at least twice max_event_size ({self.max_event_size}), not"
                f" {self.max_size}"
            )
