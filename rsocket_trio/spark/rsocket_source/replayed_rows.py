"""The elements of a range, in a task of Spark: exactly these, or an error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from time import monotonic, sleep

import attrs
import pyarrow as pa

from ... import ConnectionClosed, CustomError, Rejected
from ...log_policy import logger
from ..attempts import RETRY
from ..failures import DataLoss, ReadFailed
from ..pulling import BUFFER
from ..replay import NotReplayable, RangeRequest, ReplayOffsets
from .asking import find_offsets
from .batch_reader import THREAD, row_maker
from .pulling import open_chunks
from .settings import SourceSettings

__all__ = ["replayed_rows"]


def replayed_rows(
    settings: SourceSettings, schema: pa.Schema, wanted: RangeRequest, *, fail_on_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Read a range of elements, over several connections if need be.

    Raises:
        DataLoss: The elements are gone.
        ReadFailed: The responder has not sent exactly these elements.
    """
    maker = row_maker(settings, schema)
    at, stop = wanted.start, wanted.stop
    patience = _Patience(settings.timeout)
    while at < stop:
        request = settings.cbor_request(
            attrs.evolve(wanted, start=at).as_map(), settings.route, wanted.partition
        )
        opened = partial(
            open_chunks,
            settings,
            request,
            limit=stop - at,
            within=patience.seconds_left,
            attempt=patience.attempts,
        )
        try:
            with THREAD.iterate(opened, buffer=BUFFER) as chunks:
                for chunk in chunks:
                    yield from maker.rows(chunk.payloads, at, partition=wanted.partition)
                    at += len(chunk.payloads)
                    patience.renew()
                    chunk.done()
        except ReadFailed as error:
            if _is_loss(error):
                if fail_on_loss:
                    raise DataLoss(
                        f"{error}. If the elements are gone for good, restart the query with "
                        "failOnDataLoss=false: it goes on with those that are there"
                    ) from error
                begin = at
                at = _beyond_loss(settings, attrs.evolve(wanted, start=at))
                if at == begin:  # They are there again.
                    patience.wait(error)
                else:
                    logger.warning("%s; %d elements are left out", error, at - begin)
            elif _may_pass(error):
                patience.wait(error)
            else:
                raise
        else:
            if at < stop:
                raise ReadFailed(
                    f"the responder has ended {request} after offset {at}: {stop - at} of "
                    f"{stop - wanted.start} elements are missing"
                )


class _Patience:
    """The time for attempts without progress.

    Attributes:
        attempts: The attempts that have failed, of all times.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.attempts = 0
        self.renew()

    def renew(self) -> None:
        """Begin anew: elements have come."""
        self._since: float | None = None
        self._delays = RETRY.delays(random.random)

    @property
    def seconds_left(self) -> float:
        """The seconds for the next attempt."""
        past = 0.0 if self._since is None else monotonic() - self._since
        return max(0.001, self._seconds - past)

    def wait(self, error: Exception) -> None:
        """Wait before the next attempt; raise the error if there is no time for one."""
        self.attempts += 1
        if self._since is None:
            self._since = monotonic()
        delay = next(self._delays)
        if delay >= self.seconds_left:
            raise error
        sleep(delay)


def _beyond_loss(settings: SourceSettings, wanted: RangeRequest) -> int:
    """Return the first offset of the range that is still there; its end if there is none."""
    found: list[ReplayOffsets] = []
    THREAD.run(find_offsets, settings, found.append)
    here = found[-1].partitions.get(wanted.partition)
    if here is None or here.id != wanted.id:
        return wanted.stop
    return min(wanted.stop, max(wanted.start, here.earliest))


def _may_pass(error: ReadFailed) -> bool:
    """Return whether the next attempt may be better."""
    cause = error.__cause__
    # One of several responders can be behind the others.
    behind = isinstance(cause, CustomError) and cause.code == NotReplayable.NOT_YET
    return behind or isinstance(cause, ConnectionClosed | Rejected)


def _is_loss(error: ReadFailed) -> bool:
    cause = error.__cause__
    gone = {NotReplayable.TRIMMED, NotReplayable.OTHER_ID}
    return isinstance(cause, CustomError) and cause.code in gone
