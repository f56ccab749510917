"""A standalone cluster of Spark, from PySpark's own classes: `Cluster`."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pyspark

from rsocket_trio.spark.java import find_java

from . import process_table
from .programs import Program, until

HOME = Path(pyspark.__file__).parent
HERE = "127.0.0.1"


def spark_environment(**more: str) -> dict[str, str]:
    """The environment of Spark's scripts."""
    return {
        "JAVA_HOME": str(find_java(lasting=True).home),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": HERE,
        "SPARK_NO_DAEMONIZE": "1",
        **more,
    }


class Cluster:
    """A master and two workers with one core each.

    Args:
        scene: What ends them.
        environ: The environment of the workers and their executors.
    """

    def __init__(self, scene: Any, **environ: str) -> None:
        self._environ = spark_environment(**environ)
        self._scene = scene
        self.master = self._start("master", "master.Master", "--port", "0")
        self.uri = self._found(self.master, r"Starting Spark master at (spark://\S+)")
        self.workers = [
            self._start(f"worker-{number}", "worker.Worker", "--cores", "1", "--memory", "600m",
                        "--work-dir", str(scene.directory / f"work-{number}"), self.uri)
            for number in range(2)
        ]  # fmt: skip
        for worker in self.workers:
            self._found(worker, r"(Successfully registered) with master")

    def _start(self, name: str, of: str, *options: str) -> Program:
        command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{of}"]
        command += ["--host", HERE, "--webui-port", "0", *options]
        program: Program = self._scene.program(name, command, environ=self._environ)
        return program

    @staticmethod
    def _found(program: Program, pattern: str) -> str:
        found = until(
            lambda: re.search(pattern, program.errors),
            f"{program.name} logs {pattern}",
            details=lambda: program.errors[-4000:],
        )
        return found[1]

    def executors(self) -> list[int]:
        """The JVMs of the executors."""
        return [pid for worker in self.workers for pid in process_table.executors(worker.session)]

    def kill_executor(self) -> None:
        """Kill one of them; its worker starts another one."""
        os.kill(self.executors()[0], signal.SIGKILL)
