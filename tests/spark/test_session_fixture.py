"""The session of the tests works, and its processes are those that the tests need."""

from __future__ import annotations

import sys


def test_workers_have_this_python_and_this_package(spark):
    """Spark would take any ``python3`` for its workers."""

    def facts(_):
        import sys

        import rsocket_trio

        return [(sys.executable, rsocket_trio.__file__)]

    import rsocket_trio

    found = spark.sparkContext.parallelize([1], 1).mapPartitions(facts).collect()
    assert found == [(sys.executable, rsocket_trio.__file__)]
