"""Spark Connect: the client is a program without a JVM, and the server has this package."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.programs import ROOT

from .agents import sent
from .arrived import assert_each_line_once, file_sink
from .cluster import HOME, spark_environment
from .programs import until
from .scene import lumberjack

pytestmark = [pytest.mark.bad_days, pytest.mark.programs]

COUNT = 3000

PACKAGES = Path(sys.prefix) / "connect"
"""What a client needs beside PySpark: ``make bad-days`` installs it."""

CLIENT = """
import json
import sys

from pyspark.sql import SparkSession

remote, source, sink, checkpoint, trigger = sys.argv[1:]
source = json.loads(source)
spark = SparkSession.builder.remote(remote).getOrCreate()
events = spark.readStream.format(source["format"]).options(**source["options"]).load()
writer = events.writeStream.trigger(**json.loads(trigger)).format("json")
query = writer.option("checkpointLocation", checkpoint).option("path", sink).start()
print("started", flush=True)
query.awaitTermination()
"""


class Connect:
    """A server, which can be killed and started again on the same port, and its clients."""

    def __init__(self, scene, port):
        self.scene = scene
        self.port = port
        self.start()

    def start(self):
        command = [
            str(HOME / "bin/spark-submit"), "--master", "local[2,4]", "--driver-memory", "512m",
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
            "--conf", f"spark.connect.grpc.binding.port={self.port}",
            "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
            "--conf", "spark.ui.enabled=false",
            "--conf", f"spark.local.dir={self.scene.directory / 'local'}",
            "--conf", f"spark.sql.warehouse.dir={self.scene.directory / 'warehouse'}",
        ]  # fmt: skip
        environ = spark_environment(PYSPARK_PYTHON=sys.executable)
        self.server = self.scene.program("server", command, environ=environ)
        until(
            lambda: "Spark Connect server started" in self.server.errors,
            "the server starts",
            details=lambda: self.server.errors[-4000:],
        )

    def client(self, source, trigger):
        """Start a query, which has the session of its client."""
        scene = self.scene
        script = scene.directory / "client.py"
        script.write_text(CLIENT)
        remote = f"sc://127.0.0.1:{self.port}"
        command = [sys.executable, str(script), remote, json.dumps(source)]
        command += [str(scene.sink), str(scene.checkpoint), json.dumps(trigger)]
        # Without Java: it must not start a Spark of its own.
        paths = os.pathsep.join([ROOT, str(PACKAGES)])
        client = scene.program(
            "client", command, environ={"PYTHONPATH": paths, "JAVA_HOME": "/none", "PATH": "/bin"}
        )
        assert client.line("that the query runs") == "started"
        return client


def test_a_client_and_then_the_server_are_killed(scene, port):
    """A query outlives its client; after a restart of the server another client goes on."""
    if not PACKAGES.is_dir():
        pytest.skip("no packages for Spark Connect: `make bad-days` installs them")
    collector, first = scene.filled("a", COUNT)
    source = lumberjack(collector, maxRowsPerTrigger=1000)
    connect = Connect(scene, port)
    client = connect.client(source, {"processingTime": "0 seconds"})
    client.kill()
    until(
        lambda: len(file_sink(scene.sink)) == COUNT,
        "the query of the client that was killed goes on",
        details=lambda: connect.server.errors[-4000:],
    )
    second = scene.ship("b", collector, COUNT)
    connect.server.close()
    connect.start()
    assert connect.client(source, {"availableNow": True}).ended() == 0
    assert_each_line_once(file_sink(scene.sink), sent(first, second))
