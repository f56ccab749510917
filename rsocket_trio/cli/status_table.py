"""What ``collect --status`` and ``spool info`` print: `table`, and the instances of consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsocket_trio.escapes import escaped

from .output import utc

__all__ = ["instance_name", "moment", "table"]

_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def table(fields: Mapping[str, object], width: int) -> bytes:
    """Return a line for each field, behind its name.

    Args:
        fields: Numbers, texts, numbers by names, and instances.
        width: The columns of the names.
    """
    lines = []
    for name, value in fields.items():
        match value:
            case list():
                # Where each is, how far behind, and when it was there last.
                shown = f"\n{' ' * (width + 1)}".join(map(_line, value)) or "none"
            case dict():
                shown = "  ".join(f"{escaped(k)} {n:,}" for k, n in value.items()) or "none"
            case bool() | None:
                shown = "yes" if value else "no" if value is False else "none"
            case int():
                shown = f"{value:,}"
            case _:
                shown = escaped(str(value))
        lines.append(f"{name.replace('_', ' '):{width}} {shown}\n")
    return "".join(lines).encode()


def _line(fields: Mapping[str, Any]) -> str:
    name = escaped(instance_name(fields["consumer"], fields["instance"]))
    lag = f"lag {fields['lag']:,}"
    if fields["lag"] and fields["lag_seconds"] is not None:
        lag += f" ({_duration(fields['lag_seconds'])})"
    parts = [f"{name} at {fields['offset']:,}", lag]
    if fields.get("connected"):
        return ", ".join([*parts, "connected"])
    parts.append(f"last seen {_duration(fields['age'])} ago")
    if fields["lease"] is not None:
        parts.append(f"lease left {_duration(fields['lease_left'])}")
    return ", ".join(parts)


def moment(at: float | None) -> str | None:
    """Return a time as text; ``None`` if there is none."""
    return None if at is None else utc(at)


def instance_name(consumer: str, instance: str) -> str:
    """Return the name of an instance with that of its consumer."""
    return f"{consumer}/{instance}" if instance else consumer


def _duration(seconds: float) -> str:
    unit, size = next((each for each in _UNITS if seconds >= 2 * each[1]), _UNITS[-1])
    return f"{seconds // size:.0f} {unit}"
