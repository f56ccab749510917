"""The writers of ``format("lumberjack")``, driven as Spark drives them, but without Spark."""

from __future__ import annotations

import json
import pickle
import threading
import time

import pytest
import trio

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StructField, StructType  # noqa: E402 - after importorskip

from rsocket_trio import lumberjack  # noqa: E402
from rsocket_trio.spark.sinks.errors import SinkError  # noqa: E402
from rsocket_trio.spark.sinks.lumberjack_sink.writer import (  # noqa: E402
    lumberjack_stream_writer,
    lumberjack_writer,
)

SCHEMA = StructType([StructField("v", LongType())])


def numbers(start: int, stop: int):
    """A record batch of Spark, with a column of numbers."""
    return pa.record_batch([pa.array(range(start, stop), pa.int64())], names=["v"])


def texts(*values):
    """A record batch of Spark, with the column that is JSON already."""
    return pa.record_batch([pa.array(values, pa.string())], names=["value"])


class Receiver:
    """A receiver of events; it can be told to wait."""

    def __init__(self, background) -> None:
        self.events: list[bytes] = []
        self.go_on = trio.Event()
        self.go_on.set()
        self.background = background
        self.host = background.start(self._run).removeprefix("lumberjack://")

    async def _run(self, task_status=trio.TASK_STATUS_IGNORED):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(lumberjack.serve, self._take, "lumberjack://127.0.0.1:0")
            task_status.started(str(server.uris[0]))

    async def _take(self, batch: lumberjack.Batch) -> None:
        await self.go_on.wait()
        self.events.extend(batch.raw)

    def hold(self) -> None:
        self.go_on = trio.Event()


@pytest.fixture
def receiver(background):
    """A receiver in a thread."""
    return Receiver(background)


def ship(batches, hosts: str, **options) -> int:
    """Run a task; its writer and its message are pickled, as between Spark's processes."""
    writer = lumberjack_writer({"hosts": hosts} | options, SCHEMA, overwrite=False)
    message = pickle.loads(pickle.dumps(writer)).write(iter(batches))
    writer.commit([message])
    return pickle.loads(pickle.dumps(message)).rows


@pytest.mark.parametrize("compression", ["0", "6"])
def test_rows_are_events(receiver, compression):
    """All rows are acknowledged when the task ends, in their order."""
    batches = [numbers(0, 5000), numbers(5000, 5000), numbers(5000, 12_000)]
    assert ship(batches, receiver.host, compression=compression, window="100") == 12_000
    assert [json.loads(each) for each in receiver.events] == [{"v": n} for n in range(12_000)]


def test_nothing_to_ship(receiver):
    """A partition without rows needs no connection."""
    assert ship([], "127.0.0.1:1") == 0
    assert ship([numbers(0, 0)], receiver.host) == 0


def test_text_of_json_stays_as_it_is(receiver):
    """Not a byte changes."""
    values = ['{"a":  1}', ' {"b": "é\\n"} ', '{"c": {}}\n']
    assert ship([texts(*values)], receiver.host) == 3
    assert receiver.events == [each.encode() for each in values]


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str
)
def test_text_of_any_type_of_arrow(receiver, type_):
    """Spark may give large types, and batches without rows."""
    for values in ([], ['{"a": 1}']):
        column = pa.array(values, pa.string()).cast(type_)
        assert ship([pa.record_batch([column], names=["value"])], receiver.host) == len(values)
    assert receiver.events == [b'{"a": 1}']


@pytest.mark.parametrize("value", [None, "", "GET /index.html", "[1]", '"text"', "{"])
def test_text_that_is_no_object_is_refused(receiver, value):
    """The text says how to ship plain lines."""
    with pytest.raises(ValueError, match="give the column another name"):
        ship([texts('{"a": 1}', value)], receiver.host)
    assert receiver.events == []


def test_a_slow_receiver_is_waited_for(receiver):
    """Its back-pressure reaches Spark: batches are not read ahead."""
    receiver.hold()
    taken = []

    def batches():
        for number in range(20):
            taken.append(number)
            yield numbers(number * 3000, (number + 1) * 3000)

    def release():
        assert len(taken) <= 6  # two on the way, and those that are handed over
        receiver.background.call(receiver.go_on.set)

    timer = threading.Timer(1.0, release)
    timer.start()
    assert ship(batches(), receiver.host) == 60_000
    timer.join()
    assert len(receiver.events) == 60_000
    assert len(taken) == 20


def test_a_receiver_that_acknowledges_nothing(receiver):
    """The task ends, and says which option to change."""
    receiver.hold()
    with pytest.raises(SinkError, match="timeoutMs"):
        ship([numbers(0, 10)], receiver.host, timeoutMs="300")
    receiver.background.call(receiver.go_on.set)


def test_spark_may_be_slow(receiver):
    """The timeout is for the receiver, and not for the operators before the sink."""

    def slowly():
        yield numbers(0, 1)
        time.sleep(2.5)
        yield numbers(1, 2)

    assert ship(slowly(), receiver.host, timeoutMs="1000") == 2


def test_no_receiver():
    """After some attempts the task fails, with the reason."""
    with pytest.raises(SinkError, match=r"gave up after 2 attempts: .*Connection refused"):
        ship([numbers(0, 1)], "127.0.0.1:1", maxAttempts="2")


def test_several_batches_on_the_way_are_one_failure():
    """They fail for the same reason, and Spark shows one error."""
    with pytest.raises(SinkError, match="of 5 events are not acknowledged: gave up"):
        ship([numbers(0, 5), numbers(5, 10), numbers(10, 15)], "127.0.0.1:1", maxAttempts="3")


def test_events_above_the_limit():
    """An event that no receiver accepts fails the task before anything is sent."""
    with pytest.raises(SinkError, match="above the limit"):
        ship([texts('{"a": "' + "x" * 20_000_000 + '"}')], "127.0.0.1:1")


def test_the_second_host_is_for_failures(receiver):
    """As for other clients of Lumberjack."""
    assert ship([numbers(0, 10)], f"127.0.0.1:1, {receiver.host}") == 10
    hosts = f"lumberjack://{receiver.host},{receiver.host}"
    assert ship([numbers(0, 10)], hosts, loadBalance="true") == 10


def test_an_iterator_that_fails(receiver):
    """The error of Spark's iterator is the error of the task."""

    def failing():
        yield numbers(0, 1)
        raise RuntimeError("upstream")

    with pytest.raises(RuntimeError, match="upstream"):
        ship(failing(), receiver.host)


WRONG = [
    ({}, "hosts is required"),
    ({"hosts": " , "}, "no host"),
    ({"hosts": "tcp://a:1"}, "option hosts"),
    ({"hosts": "a:b:c"}, "option hosts"),
    ({"hosts": "a", "compression": "10"}, "compression"),
    ({"hosts": "a", "window": "0"}, "window"),
    ({"hosts": "a", "windows": "5"}, "did you mean window"),
    ({"hosts": "lumberjack://a", "tls.insecure": "true"}, "lumberjacks"),
]


@pytest.mark.parametrize(("options", "text"), WRONG, ids=[text for _, text in WRONG])
def test_options_are_checked(options, text):
    """A wrong option is an error before the job starts."""
    for make in (lumberjack_writer, lumberjack_stream_writer):
        with pytest.raises(ValueError, match=text):
            make(options, SCHEMA, overwrite=False)


def test_hosts_with_tls():
    """With options of TLS, a host without a scheme is encrypted."""
    options = {"hosts": "a, b:5045", "tls.insecure": "true"}
    writer = lumberjack_stream_writer(options, SCHEMA, overwrite=False)
    assert writer._settings.hosts == ("lumberjacks://a", "lumberjacks://b:5045")


def test_overwriting_is_refused():
    """Events cannot be replaced."""
    with pytest.raises(ValueError, match="cannot overwrite"):
        lumberjack_writer({"hosts": "a"}, SCHEMA, overwrite=True)


def test_a_stream_write(receiver):
    """Commit and abort have nothing to do."""
    writer = lumberjack_stream_writer({"hosts": receiver.host}, SCHEMA, overwrite=False)
    message = pickle.loads(pickle.dumps(writer)).write(iter([numbers(0, 3)]))
    writer.commit([message], 0)
    writer.abort([None, message], 0)
    assert len(receiver.events) == 3
