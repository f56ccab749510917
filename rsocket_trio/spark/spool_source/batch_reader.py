"""The reader of a batch, over what collectors keep: `LumberjackBatchReader`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...collector import SpoolInfo
from ...spool import SpoolDescription, describe_spool, find_since
from ..columns import Layout
from .addresses import Address
from .offsets import Offsets, Since
from .planning import plan
from .ranges import ranges_between
from .settings import SourceSettings
from .source_errors import CollectorsUnreachable
from .stream_reader import read_partition

__all__ = ["LumberjackBatchReader"]


_Kept: TypeAlias = "Mapping[str, SpoolInfo | SpoolDescription]"


class LumberjackBatchReader(DataSourceReader):
    """Reads a range of the events that collectors keep, and moves no position.

    Args:
        settings: The options.
        layout: The columns.
    """

    def __init__(self, settings: SourceSettings, layout: Layout) -> None:
        self._settings = settings
        self._layout = layout

    def partitions(self) -> Sequence[InputPartition]:
        """Return what each task reads."""
        settings = self._settings
        if not settings.collectors and settings.spool is not None:
            found, spool = describe_spool(settings.spool), settings.spool

            def here(wanted: Since) -> dict[str, int]:
                time = wanted.of(found.spool_id)
                at = None if time is None else find_since(spool, time, spool_id=found.spool_id)
                return {} if at is None else {found.spool_id: at}

            kept: Mapping[str, SpoolInfo | SpoolDescription] = {found.spool_id: found}
            start, stop = self._ends(kept, here)
            addresses: dict[str, Address] = {}
        else:
            # The tasks import this module too, and need neither clients nor servers.
            from .driver import SourceDriver

            driver = SourceDriver(settings)
            try:
                kept, addresses = driver.thread.run(driver.fleet.kept)
                start, stop = self._ends(kept, partial(driver.thread.run, driver.fleet.since))
            finally:
                driver.close()
        for each, info in kept.items():
            is_lost = stop[each] < info.oldest and not settings.fail_on_data_loss
            if stop[each] < start[each] and not is_lost:
                raise ValueError(
                    f"the range of the spool {each} ends at {stop[each]}, before its beginning at"
                    f" {start[each]} (options startingOffsets or startingTimestamp, and"
                    " endingOffsets or endingTimestamp)"
                )
        ranges = ranges_between(start, stop)
        directories = {} if addresses else dict.fromkeys(kept, settings.spool or "")
        return plan(ranges, addresses, settings, directories)

    def _ends(
        self, kept: _Kept, since: Callable[[Since], Mapping[str, int]]
    ) -> tuple[Offsets, Offsets]:
        """Return where the batch begins and ends."""
        starting, ending = self._settings.starting, self._settings.ending
        start = _chosen(starting, kept, since, "startingOffsets", at_end=starting == "latest")
        return start, _chosen(ending, kept, since, "endingOffsets", at_end=True)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range, in a task."""
        return read_partition(partition, self._layout)


def _chosen(
    wanted: Offsets | Since | str,
    kept: _Kept,
    since: Callable[[Since], Mapping[str, int]],
    option: str,
    *,
    at_end: bool,
) -> Offsets:
    """Return the offsets that an option means.

    Args:
        wanted: The option.
        kept: What the spools hold.
        since: Finds the first events of times.
        option: The name of the option.
        at_end: A spool that is not named is meant up to its end, and otherwise from its beginning.

    Raises:
        ValueError: The option names a spool that is not there, or an offset beyond its head.
        CollectorsUnreachable: A collector does not answer.
    """
    named = Offsets()
    if isinstance(wanted, Since):
        option = wanted.option
        _check_named(wanted.spools, kept, option)
        found = since(wanted)
        if silent := {each for each in kept if wanted.has(each)} - found.keys():
            raise CollectorsUnreachable(
                f"{option}: no answer about the spool {min(silent)}; see whether its collector runs"
            )
        # Events that came since the collectors were asked first are not for this batch.
        named = Offsets({each: min(found[each], kept[each].head) for each in kept if each in found})
    elif isinstance(wanted, Offsets):
        _check_named(wanted, kept, option)
        named = wanted
        for each, offset in wanted.items():
            if offset > kept[each].head:
                raise ValueError(
                    f"{option} names the offset {offset} of the spool {each}, which ends at"
                    f" {kept[each].head}"
                )
    places = {each: info.head if at_end else info.oldest for each, info in kept.items()}
    return Offsets(
        places | named.spools,
        {each: info.epoch for each, info in kept.items() if info.epoch is not None},
    )


def _check_named(spool_ids: Iterable[str], kept: _Kept, option: str) -> None:
    strangers = set(spool_ids) - kept.keys()
    if strangers:
        raise ValueError(
            f"{option} names the spool {min(strangers)}; there are {', '.join(sorted(kept))}"
        )
