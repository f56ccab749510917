"""A Spark session for the tests, which starts with the first test that needs it."""

from __future__ import annotations

import pytest

from rsocket_trio.spark.spark_session import start
from tests.ports import held_port


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session with two threads: one for each process of the tests.

    It takes ten seconds and a gigabyte, so tests that use it are marked ``programs``, and there are
    few of them.
    """
    pytest.importorskip("pyspark")
    directory = tmp_path_factory.mktemp("spark")
    config = {
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": directory / "warehouse",
        "spark.local.dir": directory / "local",
        "spark.log.level": "ERROR",
    }
    session = start("tests", config, "local[2]")
    yield session
    session.stop()


@pytest.fixture
def dead_port():
    """A port at which nothing listens, unless the test does."""
    with held_port() as port:
        yield port
