"""The partitions of a read: `RangePartition`, `plan`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import InputPartition

from .addresses import Address
from .ranges import SpoolRange, cut, usual_partitions
from .reading import Place
from .settings import SourceSettings

__all__ = ["RangePartition", "plan"]


class RangePartition(InputPartition):
    """What one task reads.

    Args:
        place: The range, and where it is.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


def plan(
    ranges: list[SpoolRange],
    addresses: Mapping[str, Address],
    settings: SourceSettings,
    directories: Mapping[str, str] | None = None,
) -> list[RangePartition]:
    """Return the partitions of a batch.

    Args:
        ranges: What it reads.
        addresses: The address of the collector for each spool. A spool without one, and without a
            directory, is gone, and the user accepts that.
        settings: The options.
        directories: Directories of this host with spools, by their ids.
    """
    here = directories or {}
    wanted = max(settings.min_partitions, usual_partitions(ranges, settings.cores))
    return [
        RangePartition(
            Place(
                spool_id=piece.spool_id,
                start=piece.start,
                stop=piece.stop,
                epoch=piece.epoch,
                uri=at.uri if at else None,
                address=at.ip if at else "",
                directory=here.get(piece.spool_id, settings.spool),
                tls=settings.tls,
                auth=settings.auth,
                timeout=settings.collector_timeout,
                fail_on_data_loss=settings.fail_on_data_loss,
            )
        )
        for piece in cut(ranges, min(wanted, settings.max_partitions))
        if (at := addresses.get(piece.spool_id)) or piece.spool_id in here
    ]
