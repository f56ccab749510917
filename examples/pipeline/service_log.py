"""A log of six services over an hour, with three faults. It has the same bytes each time.

Each line is a JSON object: when it was written, by which service, with which level, and how many
milliseconds the request took. The lines are in the order of their times.

    python -m pipeline.service_log services.log     (in the folder examples)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

import attrs

BEGINS: Final = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MINUTES: Final = 60
SEED: Final = 7


@attrs.frozen
class Service:
    """A service: its name, its team, and how it works on a good day."""

    name: str
    team: str
    per_minute: int
    milliseconds: float


SERVICES: Final = (
    Service("gateway", "edge", 400, 12.0),
    Service("search", "catalogue", 260, 35.0),
    Service("stock", "catalogue", 160, 8.0),
    Service("checkout", "money", 120, 60.0),
    Service("payments", "money", 90, 140.0),
    Service("mail", "edge", 40, 90.0),
)
ERROR_SHARE: Final = 0.01


@attrs.frozen
class Fault:
    """A time in which a service behaves otherwise. Minutes count from the beginning."""

    service: str
    first: int
    last: int
    rate: float = 1.0
    slowness: float = 1.0
    errors: float = ERROR_SHARE

    def holds(self, service: str, minute: int) -> bool:
        """Return whether the service behaves otherwise in that minute."""
        return service == self.service and self.first <= minute <= self.last


FAULTS: Final = (
    Fault("search", 22, 23, slowness=6.0),
    Fault("payments", 38, 41, rate=3.0, slowness=4.0, errors=0.35),
    Fault("mail", 52, 54, rate=0.0),
)
WELL: Final = Fault("", 0, 0)


def lines(minutes: int = MINUTES, *, seed: int = SEED, rate: float = 1.0) -> Iterator[str]:
    """Return the lines of the log, without line ends; ``rate`` times as many as usual."""
    random = Random(seed)
    for minute in range(minutes):
        begins = BEGINS + timedelta(minutes=minute)
        records = [
            record
            for service in SERVICES
            for record in _minute(random, begins, minute, service, rate)
        ]
        records.sort(key=lambda record: record["at"])
        for record in records:
            yield json.dumps(record, separators=(",", ":"))


def _minute(
    random: Random, begins: datetime, minute: int, service: Service, rate: float
) -> Iterator[dict[str, str | float]]:
    holding = (fault for fault in FAULTS if fault.holds(service.name, minute))
    fault = next(holding, WELL)
    count = round(service.per_minute * rate * fault.rate * random.uniform(0.92, 1.08))
    for _ in range(count):
        at = begins + timedelta(milliseconds=random.randrange(60_000))
        failed = random.random() < fault.errors
        took = service.milliseconds * fault.slowness * random.lognormvariate(0, 0.4)
        yield {
            "at": at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z",
            "service": service.name,
            "level": "ERROR" if failed else "INFO",
            "ms": round(took, 1),
            "message": "timed out" if failed else "done",
        }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in lines()))
