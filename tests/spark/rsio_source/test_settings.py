"""The options of ``format("rsio")``."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from rsocket_trio.spark.options import Options
from rsocket_trio.spark.rows.settings import read_row_settings
from rsocket_trio.spark.rsio_source.rsio_source import RsioDataSource
from rsocket_trio.spark.rsio_source.settings import read_settings

PAGE = Path(__file__).parents[3] / "docs/reference/spark-rsio.md"
GOOD = {"uri": "rsio://127.0.0.1:7980", "publisher": "rows"}
SCHEMA = StructType().add("data", "binary")


def settings(**given: str):
    options = Options(GOOD | given)
    return read_settings(options, read_row_settings(options))


def test_defaults_are_those_of_the_page():
    """The table of the page has all options, with their defaults."""
    section = PAGE.read_text().partition("## Options\n")[2].partition("\nWith `delivery")[0]
    page = dict(re.findall(r"^\| `(\w+)` \| (?:`?(\w+)`?)? ?\|", section, re.MULTILINE))
    found = settings()
    assert page["prefetch"] == str(found.window)
    assert page["maxUnreadBytes"] == str(found.window_size)
    assert page["timeoutMs"] == str(round(found.timeout * 1000))
    assert page["numPartitions"] == str(found.partitions)
    assert page["payloadFormat"] == found.rows.payload_format
    assert page["byteOrder"] == found.rows.byte_order
    assert page["mode"] == found.rows.mode
    with pytest.raises(ValueError, match="there is no option zzzzzzzzz: there are") as caught:
        RsioDataSource(GOOD | {"zzzzzzzzz": "1"}).reader(SCHEMA)
    known = str(caught.value).partition("there are ")[2].split(", ")
    others = {"delivery", "startingOffsets", "endingOffsets", "maxRowsPerTrigger"}
    others |= {"minPartitions", "failOnDataLoss", "pollTimeoutMs"}
    others |= {each for each in known if each.startswith("tls.")}
    assert {*known} - others == {*page}


def test_they_can_be_sent_to_executors():
    """By pickle."""
    found = settings(numPartitions="3", publisher="rows?part={partition}&of={partitions}")
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.name(2) == "rows?part=2&of=3"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"uri": "tcp://127.0.0.1:1"}, "the option uri: .* the scheme 'tcp' is not one of rsio"),
        ({"uris": "rsio://a:1"}, "give one of the options uri"),
        ({"publisher": ""}, "the option publisher is required"),
        ({"numPartitions": "2"}, r"write \{partition\} in the option publisher"),
        ({"prefetch": "0"}, "prefetch must be at least 1"),
        ({"limit": "0"}, "limit must be at least 1"),
        ({"byteOrder": "middle"}, "byteOrder must be big or little"),
        ({"payloadFormat": "xml"}, "payloadFormat must be"),
        ({"route": "x"}, "there is no option route"),
        ({"delivery": "replay"}, "delivery must be subscribe or spool"),
    ],
)
def test_options_that_are_wrong(given, text):
    """The error says what is right."""
    with pytest.raises(ValueError, match=text):
        RsioDataSource(GOOD | given).reader(SCHEMA)


def test_a_format_that_needs_a_schema():
    """The error shows one."""
    with pytest.raises(ValueError, match="give one"):
        RsioDataSource(GOOD | {"payloadFormat": "fixed"}).schema()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"delivery": "subscribe"}, "delivery must be spool"),
        ({}, "needs the option spool"),
        ({"spool": "/tmp/x", "publisher": ""}, "needs the options uri and publisher"),
    ],
)
def test_options_of_a_stream_that_are_wrong(given, text):
    """A stream goes through a spool."""
    with pytest.raises(ValueError, match=text):
        RsioDataSource(GOOD | given).streamReader(SCHEMA)


def test_a_spool_without_a_publisher():
    """The error names the options of a publisher."""
    with pytest.raises(ValueError, match="needs the options uri and publisher"):
        RsioDataSource({"spool": "/tmp/x"}).streamReader(SCHEMA)
