"""The settings of a `LumberjackHandler`, checked."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ...field_checks import COUNT, argument, number, one_of, whole
from .record import OWN_FIELDS

__all__ = ["Settings"]


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


@attrs.frozen(kw_only=True)
class Settings:
    """See `LumberjackHandler` for the meaning of each setting."""

    max_records: int
    max_size: int
    max_event_size: int
    on_full: str
    block_timeout: float
    fields: Mapping[str, object]
    linger: float
    close_timeout: float

    def __attrs_post_init__(self) -> None:
        # They are the arguments of `LumberjackHandler`, so errors name these.
        argument("max_records", self.max_records, COUNT)
        argument("max_size", self.max_size, COUNT)
        argument("max_event_size", self.max_event_size, whole(1024))
        argument("on_full", self.on_full, one_of("drop_newest", "drop_oldest", "block"))
        argument("fields", self.fields, _check_fields)
        for name in ("block_timeout", "linger", "close_timeout"):
            argument(name, getattr(self, name), number(at_least=0, finite=True))
        if self.max_size < 2 * self.max_event_size:
            raise ValueError(
                f"max_size must be at least twice max_event_size ({self.max_event_size}), not"
                f" {self.max_size}"
            )
