"""Statistics as text for Prometheus, over the pages that a scraper gets."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from rsocket_trio import (
    Caller,
    CallMeter,
    Invalid,
    Router,
    connect,
    lumberjack,
    rsio,
    serve,
    serve_pages,
    ttrpc,
)
from rsocket_trio.errors import MetadataError
from rsocket_trio.metrics import StatisticsCollector, metrics_page, metrics_text, workers_page
from rsocket_trio.testing import connected_pair, served
from tests.gated import LOCAL


def application(meter):
    router = Router(middleware=[meter])

    @router.request_response("user.{name}")
    async def user(name: str, data: bytes) -> bytes:
        return data * 2

    return router


@asynccontextmanager
async def serve_one(meter):
    """Serve the application in the block; a caller of it."""
    async with connected_pair(application(meter)) as requester:
        yield Caller(requester)


async def scraped(*sources):
    """The samples of a page, by name and labels."""
    page = await metrics_page(*sources)()
    families = list(text_string_to_metric_families(page.body.decode()))
    assert all(each.documentation.endswith(".") for each in families)
    samples = [sample for family in families for sample in family.samples]
    found = {(each.name, *sorted(each.labels.items())): each.value for each in samples}
    assert len(found) == len(samples)
    return {name: family.type for family in families for name in [family.name]}, found


async def test_a_scraper_gets_all_numbers():
    """Types, names with units, labels; routes are templates; buckets add up."""
    meter = CallMeter()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, application(meter), LOCAL)
        (page,) = await nursery.start(
            serve_pages, {"/metrics": metrics_page(server)}, "http://127.0.0.1:0"
        )
        async with connect(server.uris[0]) as requester:
            caller = Caller(requester)
            await caller.request_response("user.secret", b"abc", returns=bytes)
            with pytest.raises(Invalid):
                await caller.request_response("secret.route", b"abc", returns=bytes)
            types, found = await scraped(server)
        host, _, port = page.removeprefix("http://").partition("/")[0].partition(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b"".join([part async for part in stream])
        nursery.cancel_scope.cancel()
    assert b"text/plain; version=0.0.4" in answer
    assert b'rsocket_trio_connections_accepted_total{wire="rsocket"} 1.0' in answer
    assert "secret" not in str(found)
    assert types["rsocket_trio_connections"] == "gauge"
    assert types["rsocket_trio_calls_started"] == "counter"
    assert types["rsocket_trio_call_duration_seconds"] == "histogram"
    wire = ("wire", "rsocket")
    assert found["rsocket_trio_connections", wire] == 1
    assert found["rsocket_trio_connections_refused_total", ("reason", "setup"), wire] == 0
    route = ("interaction", "request_response"), ("route", "user.{name}")
    unknown = ("interaction", "request_response"), ("route", "{unknown route}")
    for labels, outcome in ((route, "completed"), (unknown, "failed")):
        assert found["rsocket_trio_calls_started_total", *labels] == 1
        assert found["rsocket_trio_calls_open", *labels] == 0
        seconds = "rsocket_trio_call_duration_seconds"
        ended = [labels[0], ("outcome", outcome), labels[1]]
        assert found[f"{seconds}_count", *ended] == 1
        name = f"{seconds}_bucket"
        buckets = [found[key] for key in found if key[0] == name and set(ended) < set(key)]
        assert buckets == sorted(buckets)
        assert buckets[-1] == 1
    sent = found["rsocket_trio_call_data_bytes_total", ("direction", "out"), *route]
    assert sent == 6


async def test_every_wire_and_a_client():
    """Servers of all wires are one set of metrics; a meter of requests of ours is a source too."""
    ours = CallMeter()
    events = Router()

    @events.events
    async def take(events: list[bytes]) -> None:
        pass

    async with trio.open_nursery() as nursery:
        servers = [
            await nursery.start(serve, application(CallMeter()), LOCAL),
            await nursery.start(rsio.serve, {}, "rsio://127.0.0.1:0"),
            await nursery.start(ttrpc.serve, ttrpc.Service("demo.Words"), "tcp://127.0.0.1:0"),
            await nursery.start(lumberjack.serve, events, "lumberjack://127.0.0.1:0"),
        ]
        async with connect(servers[0].uris[0], middleware=[ours]) as requester:
            await Caller(requester).request_response("user.x", b"", returns=bytes)
            _, found = await scraped(*servers, servers[0])
            _, own = await scraped(ours)
        nursery.cancel_scope.cancel()
    wires = {key[1] for key in found if key[0] == "rsocket_trio_requests_active"}
    assert wires == {("wire", each) for each in ("rsocket", "rsio", "ttrpc", "lumberjack")}
    route = ("interaction", "request_response"), ("route", "user.{name}")
    assert found["rsocket_trio_calls_started_total", *route] == 2  # one server, named twice
    assert own["rsocket_trio_calls_started_total", route[0], ("route", "user.x")] == 1


async def test_any_text_may_be_a_route_of_a_client():
    """One that cannot be encoded, e.g. forwarded from elsewhere, takes the page from nobody."""
    meter = CallMeter()
    async with served(Router()) as dial, connect(dial, middleware=[meter]) as requester:
        with pytest.raises(MetadataError):
            await Caller(requester).request_response("a\ud800\x1b", returns=int)
    _, found = await scraped(meter)
    name = "rsocket_trio_calls_started_total"
    labels = ("interaction", "request_response"), ("route", "a\\ud800\\x1b")
    assert found[(name, *labels)] == 1


def test_it_is_a_collector_for_any_registry():
    """Without sources there is nothing; a registry that exists takes it."""
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(StatisticsCollector())
    assert list(registry.collect()) == []


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("rsocket_trio.metrics", "prometheus_client", "metrics"),
        ("rsocket_trio.otel", "opentelemetry", "otel"),
    ],
)
def test_without_the_package_the_error_names_the_extra(module, package, extra):
    program = f"import sys; sys.modules[{package!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"pip install 'rsocket-trio[{extra}]'" in done.stderr.splitlines()[-1]


async def test_a_page_of_several_workers(caplog):
    """It has the sums; what has ended is counted still, and its gauges are 0."""
    meters = [CallMeter(), CallMeter()]
    texts, ends = [], []
    for number, meter in enumerate(meters, 1):
        async with serve_one(meter) as caller:
            for _ in range(number):
                await caller.request_response("user.secret", b"abc", returns=bytes)
    texts = [metrics_text(each) for each in meters]

    class Workers:
        async def metrics(self):
            return tuple(texts)

        def _at_end(self, tell):
            ends.append(tell)

    page = workers_page(Workers())

    async def read():
        return (await page()).body.decode()

    text = await read()
    assert text == metrics_text(*meters).decode()
    texts[1] += b"# HELP g G.\n# TYPE g gauge\ng 5.0\n"
    assert await read() == text + "# HELP g G.\n# TYPE g gauge\ng 5.0\n"
    ends[0](texts.pop())
    assert await read() == text + "# HELP g G.\n# TYPE g gauge\ng 0.0\n"
    ends[0](b"no metrics {")
    assert "the metrics of a worker cannot be read" in caplog.text
