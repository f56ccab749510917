"""A collector in the process of a query: one runs it, the others are its clients."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import trio
from pyspark.sql.types import LongType, StructType

from rsocket_trio import lumberjack
from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.spool_source.embedded import Embedded, socket_uri
from rsocket_trio.spark.trio_thread import TrioThread
from rsocket_trio.spool import NotASpool, describe_spool, open_spool
from rsocket_trio.uri import parse_uri
from tests.ports import held_port
from tests.spark.engine import Checkpoint, Query, read_batch

NUMBERS = StructType().add("n", LongType())


@pytest.fixture(autouse=True)
def runtime_directory(monkeypatch):
    """The sockets of these tests, on a path that is short enough."""
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


@pytest.fixture
def port():
    with held_port() as port:
        yield port


@pytest.fixture
def options(tmp_path, port):
    return {
        "listen": f"lumberjack://127.0.0.1:{port}",
        "spool": str(tmp_path / "spool"),
        "pollTimeoutMs": "100",
        "collectorTimeoutMs": "20000",
    }


@pytest.fixture
def sender(port):
    thread = TrioThread("sender")

    async def send(numbers):
        uri = f"lumberjack://127.0.0.1:{port}"
        async with lumberjack.connect(uri) as shipper:
            await shipper.send([{"n": n} for n in numbers])

    yield lambda *numbers: thread.run(send, numbers, timeout=30)
    thread.close()


def numbers(checkpoint):
    return [row["n"] for row in checkpoint.rows]


def process_until(query, checkpoint, count):
    while len(numbers(checkpoint)) < count:
        query.trigger()


def test_events_of_a_sender_become_rows(options, sender):
    checkpoint = Checkpoint()
    query = Query(LumberjackDataSource, options, checkpoint, schema=NUMBERS)
    query.trigger()
    sender(1, 2, 3)
    process_until(query, checkpoint, 3)
    assert numbers(checkpoint) == [1, 2, 3]
    query.reader.stop()


def test_a_restart_on_the_same_port(options, sender):
    """The old query may still end when the new one starts."""
    checkpoint = Checkpoint()
    query = Query(LumberjackDataSource, options, checkpoint, schema=NUMBERS)
    query.trigger()
    sender(1)
    process_until(query, checkpoint, 1)
    again = Query(LumberjackDataSource, options, checkpoint, schema=NUMBERS)
    again.trigger()
    query.reader.stop()
    sender(2)
    process_until(again, checkpoint, 2)
    assert numbers(checkpoint) == [1, 2]
    again.reader.stop()


def test_two_reads_of_one_spool(options, sender):
    """As ``df.union(df)`` has them. The second one takes over when the first one goes."""
    one, two = Checkpoint(), Checkpoint()
    left = Query(LumberjackDataSource, options, one, schema=NUMBERS)
    right = Query(LumberjackDataSource, options, two, schema=NUMBERS)
    left.trigger()
    right.trigger()
    sender(1, 2)
    process_until(left, one, 2)
    process_until(right, two, 2)
    left.reader.stop()
    sender(3)
    process_until(right, two, 3)
    assert numbers(two) == [1, 2, 3]
    right.reader.stop()


def test_a_port_that_another_program_has(options, port):
    options["collectorTimeoutMs"] = "300"
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # beside the one that holds it
        taken.bind(("127.0.0.1", port))
        taken.listen()
        query = Query(LumberjackDataSource, options, Checkpoint(), schema=NUMBERS)
        with pytest.raises(OSError, match="in use"):
            query.trigger()
    query.reader.stop()


def test_a_spool_that_another_program_has(options, tmp_path):
    """It does not answer on our socket; the error names the process and the way out."""
    options["collectorTimeoutMs"] = "300"
    thread = TrioThread("another program")

    async def hold(*, task_status):
        async with open_spool(options["spool"]):
            task_status.started()
            await trio.sleep_forever()

    thread.serve(hold)
    query = Query(LumberjackDataSource, options, Checkpoint(), schema=NUMBERS)
    with pytest.raises(Exception, match=rf"open for writing in process {os.getpid()}.*collectors"):
        query.trigger()
    query.reader.stop()
    thread.close()


def test_a_stream_of_a_spool_that_is_not_there(options, tmp_path):
    """A misspelt name would make an empty spool, and a query that waits for ever."""
    del options["listen"]
    query = Query(LumberjackDataSource, options, Checkpoint(), schema=NUMBERS)
    with pytest.raises(NotASpool, match=r"no such directory.*whether the name is right.*listen"):
        query.trigger()
    assert not (tmp_path / "spool").exists()
    query.reader.stop()


def test_a_stream_of_the_spool_of_a_collector_that_has_ended(options, sender):
    """Events are read without receiving others."""
    first = Query(LumberjackDataSource, options, Checkpoint(), schema=NUMBERS)
    first.trigger()
    sender(1, 2)
    first.reader.stop()
    del options["listen"]
    checkpoint = Checkpoint()
    query = Query(LumberjackDataSource, options | {"consumer": "two"}, checkpoint, schema=NUMBERS)
    process_until(query, checkpoint, 2)
    assert numbers(checkpoint) == [1, 2]
    query.reader.stop()


def test_a_batch_reads_the_directory(options, sender):
    """It needs no collector."""
    checkpoint = Checkpoint()
    query = Query(LumberjackDataSource, options, checkpoint, schema=NUMBERS)
    query.trigger()
    sender(1, 2, 3)
    query.reader.stop()
    only = {"spool": options["spool"]}
    rows = read_batch(LumberjackDataSource, only, schema=NUMBERS)
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert describe_spool(options["spool"]).head == 3


def test_the_path_of_the_socket(runtime_directory, tmp_path, monkeypatch):
    """It is the same in all processes, short, and in a directory of this user alone."""
    deep = tmp_path / ("d" * 200) / "spool"
    path = parse_uri(socket_uri(str(deep))).path
    assert path == parse_uri(socket_uri(f"{deep}/../spool")).path
    assert path != parse_uri(socket_uri(str(tmp_path))).path
    own = runtime_directory / "rsocket-trio"
    assert path.startswith(str(own))
    assert len(path) - len(str(runtime_directory)) < 60
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(runtime_directory))
    assert f"{runtime_directory}/rsocket-trio-{os.getuid()}" in socket_uri(str(deep))
    long = tmp_path / ("d" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert f"{runtime_directory}/rsocket-trio-{os.getuid()}" in socket_uri(str(deep))


def test_the_directory_of_the_sockets_is_not_private(runtime_directory):
    """Another user could put a socket there."""
    own = runtime_directory / "rsocket-trio"
    own.mkdir()
    own.chmod(0o755)
    with pytest.raises(PermissionError, match="belong to this user alone"):
        socket_uri("spool")
    own.rmdir()
    own.symlink_to(runtime_directory)
    with pytest.raises(PermissionError, match="belong to this user alone"):
        socket_uri("spool")


SIGTERM = """
import os, signal, sys, time
from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.spool_source.stream_reader import LumberjackStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
source = LumberjackDataSource(options)
reader = source.streamReader(source.schema())
try:
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    print("ready", flush=True)
    while True:
        end = reader.latestOffset(end, ReadAllAvailable())
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    reader.stop()
    print("stopped", flush=True)
"""


@pytest.mark.programs
def test_sigterm_ends_the_process_in_order(options, port):
    """Spark sends it twice; the second one does not interrupt the end."""
    given = [text for pair in options.items() for text in pair]
    with subprocess.Popen(
        [sys.executable, "-c", SIGTERM, *given], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(30) == 128 + 15
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


async def test_taking_over_is_quick(tmp_path, port):
    """The next reader opens the spool when the first one has gone."""

    def embedded():
        return Embedded(
            str(tmp_path / "spool"),
            [f"lumberjack://127.0.0.1:{port}"],
            max_size=2**30,
            timeout=5,
        )

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as first:
            await first.start(embedded().serve)
            await nursery.start(embedded().serve)
            first.cancel_scope.cancel()
        with trio.fail_after(20):
            async with lumberjack.connect(f"lumberjack://127.0.0.1:{port}") as shipper:
                await shipper.send([{"n": 1}])
        nursery.cancel_scope.cancel()
    assert describe_spool(tmp_path / "spool").head == 1
