"""The options of the source."""

from __future__ import annotations

import pickle

import pytest

from rsocket_trio.spark.spool_source.offsets import Offsets
from rsocket_trio.spark.spool_source.settings import SourceSettings


def test_defaults():
    settings = SourceSettings.read({"collectors": "one"})
    assert settings == SourceSettings(collectors=("tcp://one:7878",))
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_all_of_them(tmp_path):
    settings = SourceSettings.read({
        "LISTEN": "lumberjack://127.0.0.1:5044, tcp://127.0.0.1:7878",
        "spool": str(tmp_path / "x" / ".." / "spool"),
        "maxspoolsize": "5000000",
        "consumer": "alerts",
        "startingoffsets": '{"s":{"a":5},"v":1}',
        "maxRowsPerTrigger": "10",
        "maxBytesPerTrigger": "20",
        "minRowsPerTrigger": "9",
        "maxTriggerDelayMs": "2000",
        "minPartitions": "3",
        "maxPartitions": "4",
        "failOnDataLoss": "False",
        "trimOn": "COMMIT",
        "pollTimeoutMs": "250",
        "collectorTimeoutMs": "1500",
        "mode": "failfast",
        "columnNameOfCorruptRecord": "bad",
        "includeRaw": "true",
        "includeMetadata": "true",
        "goneAfterMs": "2500",
    })  # fmt: skip
    assert settings == SourceSettings(
        listen=("lumberjack://127.0.0.1:5044", "tcp://127.0.0.1:7878"),
        spool=str(tmp_path / "spool"),
        max_spool_size=5_000_000,
        consumer="alerts",
        starting=Offsets({"a": 5}),
        max_rows=10,
        max_bytes=20,
        min_rows=9,
        max_delay=2.0,
        min_partitions=3,
        max_partitions=4,
        fail_on_data_loss=False,
        trim_on="commit",
        poll_timeout=0.25,
        collector_timeout=1.5,
        mode="FAILFAST",
        corrupt_column="bad",
        include_raw=True,
        include_metadata=True,
        gone_after=2.5,
    )


@pytest.mark.parametrize(
    ("text", "uris"),
    [
        ("one, two:80", ("tcp://one:7878", "tcp://two:80")),
        ("tls://one:1,ws://two/x", ("tls://one:1", "ws://two:80/x")),
        ("dns:one, dns:tls://two:1", ("dns:tcp://one:7878", "dns:tls://two:1")),
        ("file:///x/../y,file:/z,one", ("file:/y", "file:/z", "tcp://one:7878")),
        ("[::1],[::1]:80", ("tcp://[::1]:7878", "tcp://[::1]:80")),
        ("unix:///run/x.sock", ("unix:///run/x.sock",)),
    ],
)
def test_addresses(text, uris):
    assert SourceSettings.read({"collectors": text}).collectors == uris


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "collectors is required"),
        ({"listen": "lumberjack://:5044"}, "listen needs the option spool"),
        ({"collectors": "a", "listen": "b", "spool": "c"}, "exclude each other"),
        ({"collectors": "a", "consumer": ""}, "consumer must have 1 to 200"),
        (
            {"collectors": "a", "minRowsPerTrigger": "3", "maxRowsPerTrigger": "2"},
            "minRowsPerTrigger is 3, and maxRowsPerTrigger 2",
        ),
        (
            {"collectors": "a", "minPartitions": "3", "maxPartitions": "2"},
            "minPartitions is 3, and maxPartitions 2",
        ),
        ({"collectors": "a", "endingOffsets": "earliest"}, "endingOffsets is latest"),
        ({"collectors": "a", "startingOffsets": "now"}, "startingOffsets must be earliest"),
        ({"collectors": "a", "startingTimestamp": "now"}, "startingTimestamp is a time such as"),
        ({"collectors": "a", "endingTimestamp": "2026-01-01"}, "endingTimestamp .* no time zone"),
        ({"collectors": "a", "startingTimestamp": "1764230400"}, "are they seconds"),
        ({"collectors": "a", "startingTimestamp": "9" * 15}, "out of range|is a time such as"),
        ({"collectors": "a", "startingTimestamp": "20261127140000"}, "is a time such as"),
        ({"collectors": "a", "startingTimestamp": '{"a": [1]}'}, "is no time"),
        ({"collectors": "a", "startingTimestamp": '{"a": true}'}, "True is no time"),
        ({"collectors": "a", "startingTimestamp": "{" * 9999}, "startingTimestamp is a time"),
        (
            {"collectors": "a", "startingTimestamp": "2026-01-01Z", "startingOffsets": "latest"},
            "startingOffsets and startingTimestamp exclude each other",
        ),
        ({"collectors": "a", "maxRowsPerTriger": "1"}, "did you mean maxRowsPerTrigger"),
        ({"collectors": "a", "mode": "x"}, "mode must be PERMISSIVE, DROPMALFORMED or FAILFAST"),
        ({"collectors": "file:"}, "file: needs a path"),
        ({"collectors": "dns:unix:///x"}, "has no host whose addresses"),
        ({"collectors": "http://a"}, "the option collectors: .*http"),
        ({"collectors": "a", "auth.username": "me"}, "auth.password go together"),
        ({"spool": "a", "auth.token": "t"}, "need the option collectors"),
    ],
)  # fmt: skip
def test_wrong_options(options, text):
    with pytest.raises(ValueError, match=text):
        SourceSettings.read(options)
