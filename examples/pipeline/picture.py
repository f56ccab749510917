"""Draw the minutes of all services as an SVG file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Final

from .minute import Minute

WIDTH: Final = 960
HEIGHT: Final = 110
"""Of the chart of a service."""

LEFT: Final = 180
RIGHT: Final = 60
TOP: Final = 64
XMLNS: Final = 'xmlns="http://www.w3.org/2000/svg"'
STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #1c2330 }
.title { font-size: 18px; font-weight: 600 } .name { font-weight: 600 } .faint { fill: #6a7383 }
.lines { fill: #9dc1ea } .errors { fill: #c62f22 } .alert { fill: #c62f22; fill-opacity: .1 }
.mean { fill: none; stroke: #0b6bcb; stroke-width: 1.6 } .axis { stroke: #d5dae2 }
.at { text-anchor: middle } .right { text-anchor: end }
"""


def draw(minutes: Sequence[Minute], subtitle: str) -> str:
    """Return the picture: lines, errors and latency of each service, with its alerts."""
    services = sorted({each.service for each in minutes})
    height = TOP + HEIGHT * len(services) + 40
    first = min(_time(each) for each in minutes)
    last = max(_time(each) for each in minutes)
    count = int((last - first).total_seconds() // 60) + 1
    step = (WIDTH - LEFT - RIGHT) / count
    parts = [
        f'<svg {XMLNS} viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text class="title" x="20" y="30">Lines, errors and latency per minute</text>',
        f'<text class="faint" x="20" y="50">{escape(subtitle)}</text>',
    ]
    for number, service in enumerate(services):
        rows = [each for each in minutes if each.service == service]
        parts += _chart(rows, first, step, TOP + HEIGHT * number)
    for minute in range(0, count, 10):
        at = first + timedelta(minutes=minute)
        x = LEFT + (minute + 0.5) * step
        parts.append(f'<text class="faint at" x="{x:.1f}" y="{height - 18}">{at:%H:%M}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _chart(rows: list[Minute], first: datetime, step: float, top: float) -> Iterator[str]:
    base, height = top + HEIGHT - 14, HEIGHT - 30
    most = max([each.lines for each in rows] + [1])
    slowest = max([each.mean_ms or 0 for each in rows] + [1])
    curves: list[list[str]] = [[]]  # one for each time in which there is a mean
    for each in sorted(rows, key=_time):
        x = LEFT + (_time(each) - first).total_seconds() / 60 * step
        if each.alert:
            yield (
                f'<rect class="alert" x="{x:.1f}" y="{top + 4:.1f}" width="{step:.1f}" '
                f'height="{HEIGHT - 18}"><title>{escape(each.alert)}</title></rect>'
            )
        for name, value in (("lines", each.lines), ("errors", each.errors)):
            tall = value / most * height
            yield (
                f'<rect class="{name}" x="{x + step * 0.1:.1f}" y="{base - tall:.1f}" '
                f'width="{step * 0.8:.1f}" height="{tall:.1f}"/>'
            )
        if each.mean_ms is None:
            curves.append([])
        else:
            y = base - each.mean_ms / slowest * height
            curves[-1].append(f"{x + step / 2:.1f},{y:.1f}")
    for points in curves:
        yield f'<polyline class="mean" points="{" ".join(points)}"/>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>'
    alerts = sum(each.alert is not None for each in rows)
    yield f'<text class="name" x="20" y="{top + 34}">{escape(rows[0].service)}</text>'
    yield f'<text class="faint" x="20" y="{top + 52}">{escape(rows[0].team or "")}</text>'
    if alerts:
        yield f'<text class="errors" x="20" y="{top + 70}">{alerts} alerts</text>'
    yield f'<text class="faint right" x="{LEFT - 8}" y="{base - height + 10}">{most} lines</text>'
    end = WIDTH - RIGHT + 8
    yield f'<text class="faint" x="{end}" y="{base - height + 10}">{slowest:.0f} ms</text>'


def _time(row: Minute) -> datetime:
    return datetime.fromisoformat(row.minute)
