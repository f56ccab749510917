"""Two streams of one consumer and two collectors, which come and go in any order, in a real Spark.

The model is that of tests/spark/test_needs.py, and there are fewer schedules. Only here Spark's own
log of offsets says what may be asked for again, and queries run on between two steps.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from rsocket_trio.spark.spool_source import CollectorsUnreachable, DataLost
from tests.spark.engine import Crash
from tests.spark.needs import Scene as Needs

from .arrived import Row, batch_attempts
from .spark_app import AT_ONCE, ApplicationError

pytestmark = [pytest.mark.bad_days, pytest.mark.programs]

FRESH = random.SystemRandom().randrange(10**9)
GIVEN = [int(seed) for seed in os.environ.get("NEEDS_SEEDS", "").split()]
SEEDS = GIVEN or [1, FRESH]

CHANGES = ["end", "forget", "add", "add", "remove", "away", "restart", "copy", "restore", "replace",
           "crash"]  # fmt: skip

ERRORS = {
    "DataLost": DataLost,
    "CollectorsUnreachable": CollectorsUnreachable,
    "RangeUnreadable": CollectorsUnreachable,  # A task has found it out.
    "SinkFailed": Crash,
}
"""What may end a query."""


def schedule(seed):
    """Each change once, in any order, with something to read before most of them."""
    rng = random.Random(seed)
    for change in rng.sample(CHANGES, len(CHANGES)):
        stream = rng.randrange(2)
        if change == "crash":
            yield from [("end", stream), ("ship", 0, 3), ("crash", stream, "before commit")]
        else:
            yield change, stream
        if rng.random() < 0.7:
            yield "ship", rng.randrange(2), rng.randint(1, 5)
        yield "trigger", rng.randrange(2)


class Checkpoint:
    """The directories of a query, read as the model needs them."""

    def __init__(self, directory):
        self.directory = directory / "checkpoint"
        self.sink = directory / "sink"

    def numbers(self, log):
        """The batches in one of Spark's logs."""
        found = (self.directory / log).glob("[0-9]*")
        return sorted(int(path.name) for path in found)

    @property
    def offsets(self):
        log = self.directory / "offsets"
        return [(log / str(each)).read_text().splitlines()[2] for each in self.numbers("offsets")]

    @property
    def committed(self):
        return len(self.numbers("commits"))

    @property
    def rows(self):
        found = []
        for number, attempts in sorted(batch_attempts(self.sink, row_of).items()):
            assert all(each == attempts[0] for each in attempts), f"batch {number} has other rows"
            found += attempts[0]
        return [
            {"_collector": row.collector, "_offset": row.offset, "n": row.line} for row in found
        ]


def row_of(columns):
    return Row(columns["collector"], columns["offset"], json.loads(columns["value"])["n"])


class Running:
    """A query of the application, as the model sees it."""

    def __init__(self, application, options, checkpoint):
        self._application, self._checkpoint = application, checkpoint
        source = {"format": "lumberjack", "options": options}
        sink = {"format": "batches", "path": str(checkpoint.sink)}
        self._query = application.start([source], sink, checkpoint.directory, trigger=AT_ONCE)

    def trigger(self, crash=None):
        """Read all that there is; or crash between the sink and Spark's log of commits."""
        fail = self._checkpoint.sink / "fail"
        if crash:
            fail.touch()
        try:
            self._application.ask("process", name=self._query.name)
        except ApplicationError as error:
            for name, raised in ERRORS.items():
                if f"{name}: " in str(error):
                    raise raised(str(error)) from None
            raise
        finally:
            fail.unlink(missing_ok=True)

    def stop(self, *, handler):
        """Stop it; the handler is Spark's."""
        self._query.stop()


class Engine:
    """A Spark application."""

    def __init__(self, application, directory):
        self._application, self._directory = application, directory
        self._checkpoints = 0

    def checkpoint(self):
        self._checkpoints += 1
        directory = self._directory / f"stream-{self._checkpoints}"
        (directory / "sink").mkdir(parents=True)
        return Checkpoint(directory)

    def start(self, options, checkpoint):
        return Running(self._application, options, checkpoint)


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_any_order(tmp_path, application, number):
    """Nothing is deleted that a stream may ask for, and each loss is said."""
    seed = SEEDS[number]
    print(f"NEEDS_SEEDS={seed}")
    scene = Needs(tmp_path, {"startingOffsets": "earliest"}, Engine(application, tmp_path))
    try:
        for step in schedule(seed):
            print(" ", *step)
            scene.take(*step)
        scene.finish()
    finally:
        scene.close()
