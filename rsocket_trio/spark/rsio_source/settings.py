"""The options of ``format("rsio")`` about publishers: `SourceSettings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from ...collector import Subscription
from ...rsio import rsio_uri
from ...uri import shown_all
from ..options import Options
from ..rows.settings import FORMATS, RowSettings
from ..tls_options import TlsSettings

__all__ = ["SourceSettings", "read_settings", "read_subscription"]

PLACE: Final = "{partition}"
OF: Final = "{partitions}"


@attrs.frozen(kw_only=True)
class SourceSettings:
    """What the options say about connections, publishers and elements. It can be pickled.

    Attributes:
        uris: The addresses of servers that all have the same publishers.
        tls: See `TlsSettings`.
        publisher: The name of the publisher, in which the number of a partition may have a place.
        partitions: The number of partitions of a batch read.
        limit: The largest number of elements of a partition, or ``None``.
        window: The largest number of elements on the way or unread.
        window_size: About the same in bytes.
        timeout: How long to wait for a connection, and for the next element, in seconds.
        rows: How elements become rows.
    """

    uris: tuple[str, ...] = attrs.field(repr=shown_all)
    tls: TlsSettings
    publisher: str
    partitions: int
    limit: int | None
    window: int
    window_size: int
    timeout: float
    rows: RowSettings

    def name(self, partition: int) -> str:
        """Return the name of the publisher of a partition."""
        return self.publisher.replace(PLACE, str(partition)).replace(OF, str(self.partitions))


def read_settings(options: Options, rows: RowSettings) -> SourceSettings:
    """Read the options of a batch.

    Raises:
        ValueError: An option is wrong, or they do not go together.
    """
    settings = SourceSettings(
        uris=_uris(options),
        tls=options.tls(),
        publisher=options.text("publisher"),
        partitions=options.integer("numPartitions", 1, 1, 100_000),
        limit=options.integer("limit", None, 1),
        window=options.integer("prefetch", 65_536, 1, 2**20),
        window_size=options.size("maxUnreadBytes", 32 * 2**20, 1, 2**31 - 1),
        timeout=options.milliseconds("timeoutMs", 60_000),
        rows=rows,
    )
    if settings.partitions > 1 and PLACE not in settings.publisher:
        raise ValueError(
            f"with numPartitions={settings.partitions}, each partition would read the same "
            f"elements: write {PLACE} in the option publisher, e.g. rows?part={PLACE}&of={OF}"
        )
    return settings


def read_subscription(options: Options, rows: RowSettings) -> Callable[[], Subscription | None]:
    """Read the options of a publisher that a collector subscribes to.

    Returns:
        A function that returns the subscription, or ``None`` if ``uri`` or ``publisher`` is
        missing.
    """
    uri, name = options.text("uri", None), options.text("publisher", None)
    mime_type = FORMATS[rows.payload_format]

    def subscription() -> Subscription | None:
        if not uri or not name:
            return None
        return Subscription(rsio_uri(uri), name, mime_type=mime_type)

    return subscription


def _uris(options: Options) -> tuple[str, ...]:
    one, more = options.text("uri", None), options.list("uris")
    if (one is None) == (not more):
        raise ValueError(
            "give one of the options uri (an address, e.g. rsio://127.0.0.1:7980) and uris "
            "(several servers with the same publishers)"
        )
    uris = more if one is None else (one.strip(),)
    for uri in uris:
        try:
            rsio_uri(uri)
        except ValueError as error:
            raise ValueError(f"the option {'uri' if one else 'uris'}: {error}") from None
    return uris
