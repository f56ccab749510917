"""The reader of a batch, over what collectors keep: `LumberjackBatchReader`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...collector import SpoolInfo
from ...spool import SpoolDescription, describe_spool
from ..columns import Layout
from .addresses import Address
from .offsets import Offsets
from .planning import plan
from .ranges import ranges_between
from .settings import SourceSettings
from .stream_reader import read_partition

__all__ = ["LumberjackBatchReader"]


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
            found = describe_spool(settings.spool)
            kept: Mapping[str, SpoolInfo | SpoolDescription] = {found.spool_id: found}
            addresses: dict[str, Address] = {}
        else:
            # The tasks import this module too, and need neither clients nor servers.
            from .driver import SourceDriver

            driver = SourceDriver(settings)
            try:
                kept, addresses = driver.thread.run(driver.fleet.kept)
            finally:
                driver.close()
        start = _chosen(settings.starting, kept, "startingOffsets")
        stop = _chosen(settings.ending, kept, "endingOffsets")
        for each, info in kept.items():
            is_lost = stop[each] < info.oldest and not settings.fail_on_data_loss
            if stop[each] < start[each] and not is_lost:
                raise ValueError(
                    f"the range of the spool {each} ends at {stop[each]}, before its beginning at"
                    f" {start[each]} (options startingOffsets and endingOffsets)"
                )
        ranges = ranges_between(start, stop)
        directories = {} if addresses else dict.fromkeys(kept, settings.spool or "")
        return plan(ranges, addresses, settings, directories)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range, in a task."""
        return read_partition(partition, self._layout)


def _chosen(
    wanted: Offsets | str, kept: Mapping[str, SpoolInfo | SpoolDescription], option: str
) -> Offsets:
    """Return the offsets that an option means.

    Raises:
        ValueError: The option names a spool that is not there, or an offset beyond its head.
    """
    if isinstance(wanted, Offsets):
        strangers = wanted.keys() - kept.keys()
        if strangers:
            raise ValueError(
                f"{option} names the spool {min(strangers)}; there are {', '.join(sorted(kept))}"
            )
        for each, offset in wanted.items():
            if offset > kept[each].head:
                raise ValueError(
                    f"{option} names the offset {offset} of the spool {each}, which ends at"
                    f" {kept[each].head}"
                )
        # A spool that is not named is read from its beginning, and to its end.
        at_end, named = option == "endingOffsets", wanted
    else:
        at_end, named = wanted == "latest", Offsets()
    places = {each: info.head if at_end else info.oldest for each, info in kept.items()}
    return Offsets(
        places | named.spools,
        {each: info.epoch for each, info in kept.items() if info.epoch is not None},
    )
