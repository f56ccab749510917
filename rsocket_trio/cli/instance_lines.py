"""The instances of consumers, as ``collect --status`` and ``spool info`` print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rsocket_trio.escapes import escaped

__all__ = ["instance_lines", "instance_name"]

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def instance_lines(instances: Sequence[Mapping[str, Any]], indent: int) -> str:
    """Return a line for each instance: where it is, how far behind, and when it was there last.

    Args:
        instances: The fields of each; without ``connected`` if that is not known.
        indent: Columns before each line but the first one.
    """
    return f"\n{' ' * indent}".join(map(_line, instances)) or "none"


def _line(fields: Mapping[str, Any]) -> str:
    name = escaped(instance_name(fields["consumer"], fields["instance"]))
    parts = [f"{name} at {fields['offset']:,}", f"lag {fields['lag']:,}"]
    if fields.get("connected"):
        return ", ".join([*parts, "connected"])
    parts.append(f"last seen {_duration(fields['age'])} ago")
    if fields["lease"] is not None:
        parts.append(f"lease left {_duration(fields['lease_left'])}")
    return ", ".join(parts)


def instance_name(consumer: str, instance: str) -> str:
    """Return the name of an instance with that of its consumer."""
    return f"{consumer}/{instance}" if instance else consumer


def _duration(seconds: float) -> str:
    unit, size = next((each for each in _UNITS if seconds >= 2 * each[1]), _UNITS[-1])
    return f"{seconds // size:.0f} {unit}"
