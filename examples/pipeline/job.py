"""The Spark program of the pipeline: it starts the queries, and writes what they have found.

    python examples/pipeline/job.py SETTINGS FINDINGS

SETTINGS is a file with the addresses and the directory (`Settings`) as JSON. The program prints
``ready`` when all queries run. Then it prints ``read N`` for N lines, and waits for ``finish`` on
standard input: it goes on until all lines of the collector have gone through all queries, writes
FINDINGS, and ends. The end of standard input stops it at once.
"""

from __future__ import annotations

import json
import os
import select
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

sys.path.append(str(Path(__file__).parents[1]))

from pipeline.findings import findings
from pipeline.queries import Queries, QueryFailed, Settings
from rsocket_trio.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG: Final = {
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    # One task per stage: the tables are small, and each task has its cost. More for more lines.
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles less, and starts faster. This is for a program that runs for a minute."""


def run(spark: SparkSession, settings: Settings, found: Path) -> None:
    queries = Queries(spark, settings)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.5)[0]:
        print("read", queries.lines_read(), flush=True)
    if sys.stdin.readline() != "finish\n":
        return  # the program that has started this one is gone
    queries.finish()
    queries.stop()
    tables = findings(spark, Path(settings.directory))
    found.write_text(json.dumps(tables, default=str))


def main() -> int | str:
    settings = Settings(**json.loads(Path(sys.argv[1]).read_text()))
    local = Path(settings.directory, "spark")
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED)
    spark = session("log pipeline", config=CONFIG | {"spark.local.dir": str(local)})
    try:
        run(spark, settings, Path(sys.argv[2]))
    except QueryFailed as failed:
        return str(failed)
    except PySparkException as error:
        traceback.print_exc()
        return str(error).splitlines()[0]
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
