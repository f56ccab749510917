"""A row of the table of minutes, as Spark sends it out."""

from __future__ import annotations

import attrs


@attrs.frozen
class Minute:
    """A minute of a service.

    Attributes:
        minute: When it began, for example ``2026-01-31T12:00:00Z``.
        mean_ms: The mean latency; None if there is no line.
        alert: What is unusual in it, or None.
    """

    minute: str
    service: str
    team: str | None
    lines: int
    errors: int
    mean_ms: float | None
    alert: str | None
