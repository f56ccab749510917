"""The options of ``format("lumberjack")`` as a source, checked: `SourceSettings`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, Self, cast

import attrs

from ...uri import shown_all
from ..auth_options import read_authentication
from ..columns import Mode
from ..options import Options
from ..tls_options import TlsSettings
from .addresses import collector_address
from .offsets import Since, StartingOffsets, parse_starting_offsets, parse_timestamp

if TYPE_CHECKING:
    from ...collector import Subscription
    from ...metadata import Authentication

__all__ = ["SourceSettings"]

_MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_LEASE: Final = 7 * 24 * 60 * 60 * 1000
"""Milliseconds: a query may be stopped over the longest weekend."""
_LONGEST_LEASE: Final = 10 * 365 * 24 * 60 * 60 * 1000
_MOST_PARTITIONS: Final = 10_000
_DELAY: Final = 15 * 60 * 1000
"""Milliseconds: as Kafka's source waits for `minOffsetsPerTrigger`."""
_TRIM_ON: Final = ("start", "commit")


@attrs.frozen(kw_only=True)
class SourceSettings:
    """The options of a read. docs/reference/spark-lumberjack.md describes them.

    Times are in seconds. ``subscribe`` is no option: ``format("rsocket")`` sets it.
    """

    collectors: tuple[str, ...] = attrs.field(default=(), repr=shown_all)
    listen: tuple[str, ...] = ()
    spool: str | None = None
    max_spool_size: int = 2**30
    consumer: str = "spark"
    starting: StartingOffsets | Since = "earliest"
    ending: StartingOffsets | Since = "latest"
    max_rows: int | None = None
    max_bytes: int | None = None
    min_rows: int | None = None
    max_delay: float = 900.0
    min_partitions: int = 1
    max_partitions: int = _MOST_PARTITIONS
    cores: int | None = None
    fail_on_data_loss: bool = True
    trim_on: Literal["start", "commit"] = "start"
    poll_timeout: float = 0.5
    collector_timeout: float = 30.0
    gone_after: float | None = None
    lease: float = 7 * 86400.0
    mode: Mode = "PERMISSIVE"
    corrupt_column: str = "_corrupt_record"
    include_raw: bool = False
    include_metadata: bool = False
    tls: TlsSettings = attrs.field(factory=TlsSettings)
    auth: Authentication | None = None
    subscribe: tuple[Subscription, ...] = ()

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """Check the options of a read.

        Raises:
            ValueError: One of them is wrong, unknown, or does not go with another.
        """
        options = Options(given)
        settings = cls(
            collectors=tuple(map(collector_address, options.list("collectors"))),
            listen=options.list("listen"),
            spool=_directory(options.text("spool", "")),
            max_spool_size=options.size("maxSpoolSize", 2**30, 2**20),
            consumer=options.text("consumer", "spark"),
            starting=_place(options, "starting", "earliest"),
            ending=_place(options, "ending", "latest"),
            max_rows=options.integer("maxRowsPerTrigger", None, 1),
            max_bytes=options.size("maxBytesPerTrigger", None, 1),
            min_rows=options.integer("minRowsPerTrigger", None, 1),
            max_delay=options.milliseconds("maxTriggerDelayMs", _DELAY),
            min_partitions=options.integer("minPartitions", 1, 1, _MOST_PARTITIONS),
            max_partitions=options.integer("maxPartitions", _MOST_PARTITIONS, 1, _MOST_PARTITIONS),
            cores=options.integer("cores", None, 1),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            trim_on=cast("Literal['start', 'commit']", options.choice("trimOn", _TRIM_ON, "start")),
            poll_timeout=options.milliseconds("pollTimeoutMs", 500, 0),
            collector_timeout=options.milliseconds("collectorTimeoutMs", 30_000),
            gone_after=_gone_after(options.integer("goneAfterMs", None, 0, _LONGEST_LEASE)),
            lease=options.milliseconds("leaseMs", _LEASE, 1000, _LONGEST_LEASE),
            mode=cast("Mode", options.choice("mode", _MODES, "PERMISSIVE")),
            corrupt_column=options.text("columnNameOfCorruptRecord", "_corrupt_record"),
            include_raw=options.flag("includeRaw", default=False),
            include_metadata=options.flag("includeMetadata", default=False),
            tls=options.tls(),
            auth=read_authentication(options),
        )
        options.finish()
        settings._check()
        return settings

    def _check(self) -> None:
        if self.collectors and self.listen:
            raise ValueError(
                "the options collectors and listen exclude each other: read from collectors that"
                " run, or listen here with a spool here"
            )
        if self.listen and self.spool is None:
            raise ValueError("the option listen needs the option spool, a directory of this host")
        if not self.collectors and self.spool is None:
            raise ValueError(
                "the option collectors is required, e.g. collectors=host1:7878,host2:7878; or the"
                " options listen and spool, to receive events within the query"
            )
        if self.auth is not None and not self.collectors:
            raise ValueError(
                "the options auth.token, auth.username and auth.password are for collectors: they"
                " need the option collectors"
            )
        if (
            self.min_rows is not None
            and self.max_rows is not None
            and self.min_rows > self.max_rows
        ):
            raise ValueError(
                f"minRowsPerTrigger is {self.min_rows}, and maxRowsPerTrigger {self.max_rows}: a"
                " microbatch cannot have both"
            )
        if self.min_partitions > self.max_partitions:
            raise ValueError(
                f"minPartitions is {self.min_partitions}, and maxPartitions {self.max_partitions}"
            )
        if not 0 < len(self.consumer) <= 200:
            raise ValueError("the option consumer must have 1 to 200 characters")
        if self.ending == "earliest":
            raise ValueError("the option endingOffsets is latest, or offsets in JSON")


def _gone_after(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _place(options: Options, which: str, default: str) -> StartingOffsets | Since:
    """Return where to begin or to end: an offset, or a time that stands for one."""
    offsets, time = f"{which}Offsets", f"{which}Timestamp"
    if not options.has(time):
        return parse_starting_offsets(options.text(offsets, default), option=offsets)
    if options.has(offsets):
        raise ValueError(
            f"the options {offsets} and {time} exclude each other: give one of them (Spark's source"
            f" for Kafka would take {time})"
        )
    return parse_timestamp(options.text(time), option=time)


def _directory(text: str) -> str | None:
    return os.path.abspath(os.path.expanduser(text)) if text else None
