"""Statistics for Prometheus: `StatisticsCollector`, `metrics_page`.

It reads `Server.statistics` and `CallMeter.statistics` when it is asked, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import Final, Protocol

import attrs

from .escapes import escaped
from .log_policy import logger
from .sockets.workplace import workplace
from .statistics import Histogram, Refused, RouteStatistics, WireStatistics
from .transports.pages import Page
from .workers import Workers

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError(
        "rsocket_trio.metrics needs prometheus-client: pip install 'rsocket-trio[metrics]'"
    ) from error

__all__ = [
    "StatisticsCollector",
    "StatisticsSource",
    "metrics_page",
    "metrics_text",
    "worker_metrics",
    "workers_page",
]

_UNKNOWN: Final = "{unknown route}"
"""No handler can have such a route, as the name of its variable is none."""
_PREFIX: Final = "rsocket_trio_"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"  # the text format of Prometheus

_COUNTING: Final = frozenset(["counter", "histogram", "summary"])

_NUMBERS: Final = {
    "connections": (GaugeMetricFamily, "connections", "Connections that are open."),
    "accepted": (CounterMetricFamily, "connections_accepted", "Connections that were accepted."),
    "draining": (
        GaugeMetricFamily,
        "connections_draining",
        "Open connections whose end was announced, by either side.",
    ),
    "waiting": (
        GaugeMetricFamily,
        "connections_waiting",
        "Connections that read no more until others give back their room.",
    ),
    "silent": (
        CounterMetricFamily,
        "connections_silent",
        "Connections that ended because the client gave no sign of life.",
    ),
    "resumed": (
        CounterMetricFamily,
        "sessions_resumed",
        "How often a session went on over another connection.",
    ),
    "held_size": (GaugeMetricFamily, "held_bytes", "Bytes that are held for the peers."),
    "incoming_size": (
        GaugeMetricFamily,
        "incoming_bytes",
        "Bytes that have been read, and are no complete batch yet.",
    ),
    "queued_size": (GaugeMetricFamily, "queued_bytes", "Bytes that wait to be sent."),
    "dropped_events": (
        CounterMetricFamily,
        "dropped",
        "Messages of fire_and_forget that no handler got.",
    ),
    "events": (CounterMetricFamily, "events", "Events of batches that were handled."),
    "acknowledged": (CounterMetricFamily, "events_acknowledged", "Events that were acknowledged."),
}
for _name in ("active_requests", "active_calls", "publications", "held_batches"):
    _NUMBERS[_name] = (
        GaugeMetricFamily,
        "requests_active",
        "Requests of all peers that wait or are being answered.",
    )
for _name in ("calls", "published", "batches"):
    _NUMBERS[_name] = (CounterMetricFamily, "requests", "Requests that were accepted.")


class StatisticsSource(Protocol):
    """Whatever has statistics: a server of any wire, or a `CallMeter`."""

    def statistics(self) -> WireStatistics | tuple[RouteStatistics, ...]:
        """Return the numbers of now."""


class StatisticsCollector(Collector):
    """Gives the statistics of servers and meters to a registry of ``prometheus_client``.

    ``REGISTRY.register(StatisticsCollector(server))``. Collect in the thread of trio, as
    `metrics_page` does.

    Args:
        sources: Servers of any wire, and `CallMeter` objects; e.g. one of requests of a client.
            Servers of one router have the same calls: give all but one of them an acceptor,
            ``router.accept``, so that calls are not there twice.
    """

    def __init__(self, *sources: StatisticsSource) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of now. See ``prometheus_client``."""
        found = [source.statistics() for source in self._sources]
        servers = [each for each in found if isinstance(each, WireStatistics)]
        yield from _of_servers(servers)
        routes: dict[tuple[str, str], RouteStatistics] = {}
        for each in found:
            for one in each.by_route if isinstance(each, WireStatistics) else each:
                key = one.interaction, _UNKNOWN if one.route is None else escaped(one.route)
                routes[key] = one if key not in routes else _sum(routes[key], one)
        if routes:
            yield from _of_routes(routes)


def _of_servers(servers: list[WireStatistics]) -> Iterator[Metric]:
    refused = CounterMetricFamily(
        f"{_PREFIX}connections_refused",
        "Connections that were not served, by reason.",
        labels=("wire", "reason"),
    )
    families: dict[str, Metric] = {}
    by_wire: dict[tuple[str, str], int] = {}
    refusals: dict[tuple[str, str], int] = {}
    for each in servers:
        for field in attrs.fields(type(each)):
            if field.name in _NUMBERS:
                kind, name, text = _NUMBERS[field.name]
                families.setdefault(name, kind(f"{_PREFIX}{name}", text, labels=("wire",)))
                key = name, each.wire
                by_wire[key] = by_wire.get(key, 0) + getattr(each, field.name)
        for reason in Refused:
            key = each.wire, str(reason)
            refusals[key] = refusals.get(key, 0) + each.refused.get(reason, 0)
    for (name, wire), value in by_wire.items():
        families[name].add_metric((wire,), value)  # type: ignore[attr-defined]
    for labels, value in refusals.items():
        refused.add_metric(labels, value)
    yield from families.values()
    if servers:
        yield refused


def _of_routes(routes: dict[tuple[str, str], RouteStatistics]) -> Iterator[Metric]:
    labels = ("interaction", "route")
    started = CounterMetricFamily(
        f"{_PREFIX}calls_started", "Calls that have begun.", labels=labels
    )
    open_ = GaugeMetricFamily(f"{_PREFIX}calls_open", "Calls that have not ended.", labels=labels)
    seconds = HistogramMetricFamily(
        f"{_PREFIX}call_duration_seconds",
        "How long calls took that have ended, by outcome.",
        labels=(*labels, "outcome"),
    )
    items = CounterMetricFamily(
        f"{_PREFIX}call_items",
        "Items of streams and channels, and events of batches.",
        labels=(*labels, "direction"),
    )
    size = CounterMetricFamily(
        f"{_PREFIX}call_data_bytes",
        "Bytes of data, without metadata and frames.",
        labels=(*labels, "direction"),
    )
    for key, each in routes.items():
        started.add_metric(key, each.begun)
        open_.add_metric(key, each.open)
        for outcome, histogram in each.ended.items():
            bounds = [*map(str, Histogram.bounds), "+Inf"]
            buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
            seconds.add_metric((*key, outcome), buckets, histogram.total)
        items.add_metric((*key, "in"), each.items_in)
        items.add_metric((*key, "out"), each.items_out)
        size.add_metric((*key, "in"), each.size_in)
        size.add_metric((*key, "out"), each.size_out)
    yield from (started, open_, seconds, items, size)


def _sum(one: RouteStatistics, other: RouteStatistics) -> RouteStatistics:
    ended = dict(one.ended)
    for outcome, histogram in other.ended.items():
        if outcome in ended:
            counts = zip(ended[outcome].counts, histogram.counts, strict=True)
            total = ended[outcome].total + histogram.total
            histogram = Histogram(tuple(map(sum, counts)), total)
        ended[outcome] = histogram
    return RouteStatistics(
        interaction=one.interaction,
        route=one.route,
        begun=one.begun + other.begun,
        ended=ended,
        items_in=one.items_in + other.items_in,
        items_out=one.items_out + other.items_out,
        size_in=one.size_in + other.size_in,
        size_out=one.size_out + other.size_out,
    )


def metrics_text(*sources: StatisticsSource) -> bytes:
    """Return the metrics of servers and meters in the text format of Prometheus.

    Args:
        sources: See `StatisticsCollector`.
    """
    return _text(StatisticsCollector(*sources))


def metrics_page(*sources: StatisticsSource) -> Callable[[], Awaitable[Page]]:
    """Return a page for `serve_pages` with the metrics of servers and meters, as text.

    ``serve_pages({"/metrics": metrics_page(server)}, "http://127.0.0.1:9464")``.

    Args:
        sources: See `StatisticsCollector`.
    """

    async def page() -> Page:
        return Page(metrics_text(*sources), content_type=_TEXT)

    return page


def worker_metrics(*sources: StatisticsSource) -> None:
    """Let the page of the parent count this worker (see `rsocket_trio.workers.serve_workers`).

    Call it at the beginning of the function that the workers run. Elsewhere it does nothing.

    Args:
        sources: See `StatisticsCollector`; by default all servers of this process.
    """
    place = workplace()
    if place is not None:
        place.metrics = lambda: metrics_text(*(sources or place.servers))


def workers_page(workers: Workers) -> Callable[[], Awaitable[Page]]:
    """Return a page for `serve_pages` with the sums of the metrics of all workers.

    Whatever serves, one process or several, has the same metrics. Counters never go back while the
    parent runs: those of workers that have ended since this call stay in the sums. What a worker
    has counted since it was last asked is lost only if it was killed.

    Args:
        workers: Those whose function calls `worker_metrics`; the command line does so itself.
    """
    ended = _Totals()
    workers._at_end(partial(ended.add, ended=True))  # noqa: SLF001 - not for applications

    async def page() -> Page:
        texts = await workers.metrics()
        total = ended.copy()
        for each in texts:
            total.add(each)
        return Page(_text(total), content_type=_TEXT)

    return page


class _Totals(Collector):
    """The sums of the metrics of several processes."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, str]] = {}
        self._values: dict[tuple[str, str, frozenset[tuple[str, str]]], float] = {}

    def add(self, text: bytes, *, ended: bool = False) -> None:
        """Add the metrics of a process; the gauges of one that has ended are 0."""
        try:
            families = list(text_string_to_metric_families(text.decode()))
        except ValueError as error:
            logger.error("the metrics of a worker cannot be read: %s", error)
            return
        for family in families:
            lasts = not ended or family.type in _COUNTING
            self._families.setdefault(family.name, (family.documentation, family.type))
            for sample in family.samples:
                key = family.name, sample.name, frozenset(sample.labels.items())
                self._values[key] = self._values.get(key, 0.0) + sample.value * lasts

    def copy(self) -> _Totals:
        """Return another one with the same sums."""
        other = _Totals()
        other._families |= self._families
        other._values |= self._values
        return other

    def collect(self) -> Iterable[Metric]:
        """See ``prometheus_client``."""
        families = {name: Metric(name, *rest) for name, rest in self._families.items()}
        for (family, name, labels), value in self._values.items():
            families[family].add_sample(name, dict(labels), value)
        return families.values()


def _text(collector: Collector) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)
