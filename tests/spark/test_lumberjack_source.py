"""The data source: what Spark gets for its options and its schema."""

from __future__ import annotations

import json
import ssl

import pytest
import trustme

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import BinaryType, LongType, StructType
from pyspark.worker_util import pickleSer

from rsocket_trio.cli.collect_auth import given_grants
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.collector import admit
from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.registration import load_source
from tests.spark.collectors import LocalCollector
from tests.spark.engine import Checkpoint, Query, read_batch


def test_it_is_the_one_that_is_registered():
    assert load_source("lumberjack") is LumberjackDataSource
    assert LumberjackDataSource.name() == "lumberjack"


def test_the_default_schema():
    names = ["collector", "offset", "received_at", "remote", "value"]
    assert LumberjackDataSource({"collectors": "a"}).schema().names == names
    source = LumberjackDataSource({"collectors": "a", "includeraw": "true"})
    assert source.schema().names == [*names, "raw"]


def test_wrong_options_and_schemas():
    """The error comes when the reader is made, before anything is opened."""
    with pytest.raises(ValueError, match="collectors is required"):
        LumberjackDataSource({}).schema()
    source = LumberjackDataSource({"collectors": "a"})
    schema = StructType().add("a", BinaryType())
    for make in (source.reader, source.streamReader):
        with pytest.raises(ValueError, match="not decoded from JSON"):
            make(schema)


def test_readers_are_pickled_without_connections(tmp_path):
    collector = LocalCollector(tmp_path / "spool")
    options = {"collectors": collector.uri, "pollTimeoutMs": "0"}
    query = Query(LumberjackDataSource, options, Checkpoint())
    query.trigger()
    copy = pickleSer.loads(pickleSer.dumps(query.reader))
    assert copy.partitions({"s": {"a": 1}, "v": 1}, {"s": {"a": 1}, "v": 1}) == []
    assert copy.reportLatestOffset() is None
    copy.stop()
    query.reader.stop()
    collector.stop()


def test_writers():
    """They are those of the sink."""
    source = LumberjackDataSource({"hosts": "127.0.0.1:5044"})
    schema = StructType().add("n", LongType())
    assert isinstance(source.writer(schema, overwrite=False), DataSourceWriter)
    assert isinstance(source.streamWriter(schema, overwrite=False), DataSourceStreamWriter)


@pytest.fixture
def encrypted(tmp_path):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    collector = LocalCollector(tmp_path / "spool", ssl_context=context)
    collector.ship(3)
    yield collector, {"collectors": collector.uri, "tls.ca": str(tmp_path / "ca.pem")}
    collector.stop()


def test_tls(encrypted):
    """Driver and tasks use the certificates of the options."""
    _, options = encrypted
    rows = read_batch(LumberjackDataSource, options, schema=StructType().add("n", LongType()))
    assert [row["n"] for row in rows] == [0, 1, 2]


@pytest.fixture
def guarded(tmp_path):
    """A collector that lets in those who have what the options of ``collect`` name."""
    (tmp_path / "token").write_text("s3cret\n")
    secrets = ["--auth-bearer", f"@{tmp_path / 'token'}", "--auth-simple", "ada:pass:word"]
    args = build_parser().parse_args(["collect", *secrets])
    made = LocalCollector(tmp_path / "spool", authenticate=admit(*given_grants(args)))
    made.ship(3)
    yield made
    made.stop()


@pytest.mark.parametrize(
    "given",
    [{"auth.token": "s3cret"}, {"auth.username": "ada", "auth.password": "pass:word"}],
    ids=["bearer", "simple"],
)
def test_credentials(guarded, given):
    """Driver and tasks present those of the options, as a batch and as a stream."""
    options = {"collectors": guarded.uri} | given
    schema = StructType().add("n", LongType())
    rows = read_batch(LumberjackDataSource, options, schema=schema)
    assert [row["n"] for row in rows] == [0, 1, 2]
    checkpoint = Checkpoint()
    query = Query(LumberjackDataSource, options | {"pollTimeoutMs": "0"}, checkpoint, schema=schema)
    query.trigger()
    query.trigger()
    query.reader.stop()
    assert [row["n"] for row in checkpoint.rows] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "authentication is needed"),
        ({"auth.token": "guess"}, "the credentials are wrong"),
        ({"auth.token": "ada:pass:word"}, "the credentials are wrong"),
        ({"auth.username": "ada", "auth.password": "s3cret"}, "the credentials are wrong"),
    ],
)
def test_wrong_credentials(guarded, given, text):
    """The error has the reason, and no secret."""
    options = {"collectors": guarded.uri, "collectorTimeoutMs": "1000"} | given
    with pytest.raises(Exception, match=text) as error:
        read_batch(LumberjackDataSource, options)
    assert not any(secret in str(error.value) for secret in ("guess", "s3cret", "pass:word"))


def test_tls_without_the_certificate(encrypted):
    collector, _ = encrypted
    options = {"collectors": collector.uri, "collectorTimeoutMs": "1500"}
    with pytest.raises(Exception, match="certificate"):
        read_batch(LumberjackDataSource, options)


def test_a_batch_of_a_range(tmp_path):
    """Offsets in JSON limit it on both sides; a limit closes the task early."""
    one, two = LocalCollector(tmp_path / "one"), LocalCollector(tmp_path / "two")
    for each in (one, two):
        for _ in range(4):
            each.ship(5)
    begin = json.dumps({"v": 1, "s": {one.spool_id: 3}})
    end = json.dumps({"v": 1, "s": {one.spool_id: 17, two.spool_id: 2}})
    options = {
        "collectors": f"{one.uri},{two.uri}",
        "startingOffsets": begin,
        "endingOffsets": end,
        "minPartitions": "4",
    }
    rows = read_batch(LumberjackDataSource, options)
    found = [row["offset"] for row in rows if row["collector"] == one.spool_id]
    assert found == list(range(3, 17))
    assert [row["offset"] for row in rows if row["collector"] == two.spool_id] == [0, 1]
    assert one.description.positions == {}
    options["endingOffsets"] = '{"v":1,"s":{"nowhere":17}}'
    with pytest.raises(ValueError, match="endingOffsets names the spool nowhere; there are"):
        read_batch(LumberjackDataSource, options)
    for option in ("startingOffsets", "endingOffsets"):
        wrong = {
            **options,
            "endingOffsets": "latest",
            option: json.dumps({"v": 1, "s": {one.spool_id: 21}}),
        }
        with pytest.raises(ValueError, match=f"{option} names the offset 21 .* which ends at 20"):
            read_batch(LumberjackDataSource, wrong)
    options["endingOffsets"] = "latest"
    options["startingOffsets"] = "latest"
    assert read_batch(LumberjackDataSource, options) == []
    two.stop()
    options["collectorTimeoutMs"] = "200"
    with pytest.raises(Exception, match=r"not all collectors have answered.*its RSocket address"):
        read_batch(LumberjackDataSource, options)
    one.stop()
