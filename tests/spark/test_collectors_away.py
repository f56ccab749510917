"""Collectors that are only away, beside one that lost its disk: no event of theirs is skipped."""

from __future__ import annotations

import pytest
import trio

pytest.importorskip("pyspark")

from rsocket_trio import parse_uri
from rsocket_trio.spark.spool_source.addresses import Address, collector_address
from rsocket_trio.spark.spool_source.fleet import Fleet
from rsocket_trio.spark.spool_source.offsets import Offsets
from rsocket_trio.spark.spool_source.ranges import Limit
from rsocket_trio.spark.spool_source.settings import SourceSettings
from rsocket_trio.spark.spool_source.source_errors import CollectorsUnreachable
from rsocket_trio.spool import Batch
from tests.collector.running import running
from tests.pool.test_sources import Resolver


@pytest.mark.parametrize("gone", [1, 2])
async def test_a_batch_waits_for_a_collector_that_is_away(tmp_path, nursery, gone):
    """With failOnDataLoss=false a batch is planned without events only if all have answered."""
    async with running(tmp_path / "one") as one, running(tmp_path / "other") as other:
        spools = [one.spool.spool_id, other.spool.spool_id][:gone]
        away = one.uris[0]
    async with running(tmp_path / "new disk") as new:
        settings = SourceSettings(
            collectors=(away, new.uris[0]), collector_timeout=0.2, fail_on_data_loss=False
        )
        fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
        with pytest.raises(CollectorsUnreachable, match="start that collector again"):
            await fleet.locate(spools)


async def test_all_addresses_of_a_name(tmp_path, nursery):
    """A name may stand for many collectors, of which each task gets its own by its IP address."""
    resolver = Resolver()
    trio.socket.set_custom_hostname_resolver(resolver)
    async with running(tmp_path / "one", "tcp://127.0.0.1:0") as one:
        port = parse_uri(one.uris[0]).port
        resolver.answer = ["127.0.0.1"]
        item = collector_address(f"dns:collectors.example:{port}")
        settings = SourceSettings(collectors=(item,), collector_timeout=20, poll_timeout=0.0)
        fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
        start = await fleet.latest(Offsets(), Limit())
        assert start.spools == {one.spool.spool_id: 0}
        async with running(tmp_path / "two", f"tcp://127.0.0.2:{port}") as two:
            resolver.answer = ["127.0.0.1", "127.0.0.2"]
            with trio.fail_after(20):
                while len(end := await fleet.latest(start, Limit())) < 2:
                    await trio.sleep(0.01)
            uri = f"tcp://collectors.example:{port}"
            assert await fleet.locate(end) == {
                one.spool.spool_id: Address(uri, "127.0.0.1"),
                two.spool.spool_id: Address(uri, "127.0.0.2"),
            }


async def test_a_name_without_an_answer(tmp_path, nursery):
    """The collectors of a file are read while the resolver is silent."""

    class Silent(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_):
            await trio.sleep_forever()

        async def getnameinfo(self, *_):
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Silent())
    async with running(tmp_path / "one", "tcp://127.0.0.1:0") as one:
        file = tmp_path / "list"
        file.write_text(one.uris[0])
        lists = ("dns:tcp://collectors.example:7878", f"file:{file}")
        settings = SourceSettings(collectors=lists, collector_timeout=20, poll_timeout=0.0)
        fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
        with trio.fail_after(15):
            assert (await fleet.latest(Offsets(), Limit())).spools == {one.spool.spool_id: 0}


async def test_a_collector_by_two_names(tmp_path, nursery):
    """One name is asked. What the other one said long ago is no backlog, and no end of a run."""
    async with running(tmp_path / "one", "tcp://127.0.0.1:0") as one:
        other = f"tcp://localhost:{parse_uri(one.uris[0]).port}"
        settings = SourceSettings(collectors=(one.uris[0], other), poll_timeout=0.0)
        fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
        start = await fleet.latest(Offsets(), Limit())
        await one.spool.append(Batch(3, b"1\n1\n1\n", encoding="json-lines"))
        await fleet.prepare_available_now()
        assert fleet.heads().spools == {one.spool.spool_id: 3}
        assert (await fleet.latest(start, Limit())).spools == {one.spool.spool_id: 3}


async def test_a_file_of_too_many_addresses(tmp_path, nursery, monkeypatch, caplog):
    """The first ones are used, and the log says so."""
    monkeypatch.setattr("rsocket_trio.spark.spool_source.fleet._MOST_ADDRESSES", 2)
    async with running(tmp_path / "one") as one, running(tmp_path / "two") as two:
        file = tmp_path / "list"
        file.write_text("\n".join([one.uris[0], one.uris[0], two.uris[0], "tcp://127.0.0.1:9"]))
        settings = SourceSettings(collectors=(f"file:{file}",), poll_timeout=0.0)
        fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
        start = await fleet.latest(Offsets(), Limit())
        assert start.keys() == {one.spool.spool_id, two.spool.spool_id}
        assert await fleet.latest(start, Limit()) == start
        assert caplog.text.count("of 3 addresses only the first 2 are used: the file") == 1


async def test_an_error_about_many_collectors(tmp_path, nursery):
    """It names some, and first those that cannot be reached."""
    async with running(tmp_path / "one") as one:
        named = (one.uris[0], *(f"tcp://127.0.0.{each}:9" for each in range(1, 51)))
        settings = SourceSettings(collectors=named, collector_timeout=0.5)
        fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
        with pytest.raises(CollectorsUnreachable, match="; and 31 more") as caught:
            await fleet.locate(["elsewhere"])
        assert str(caught.value).count("cannot be reached") == 20


async def test_a_batch_goes_on_without_a_spool_that_nobody_has(tmp_path, nursery):
    """All collectors answer, and none has it: with failOnDataLoss=false it is given up."""
    async with running(tmp_path / "one") as one, running(tmp_path / "two") as two:
        settings = SourceSettings(
            collectors=(one.uris[0], two.uris[0]), collector_timeout=0.5, fail_on_data_loss=False
        )
        fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
        found = await fleet.locate([one.spool.spool_id, "nobody's"])
        assert found == {one.spool.spool_id: Address(one.uris[0])}
