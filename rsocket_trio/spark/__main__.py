"""``python -m rsocket_trio.spark``: print the directory of a Java runtime, for ``JAVA_HOME``.

`session` finds Java by itself. The programs ``spark-submit`` and ``pyspark`` do not: they start the
Java in ``JAVA_HOME``, or the one on the path.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from .java import JavaNotFound, find_java

_EPILOG: Final = """\
example:
  export JAVA_HOME=$(python -m rsocket_trio.spark)
  spark-submit program.py

exit status: 0; or 1 if there is no Java that Spark can use
"""


def main() -> int:
    """Print the directory, or the reason why there is none. Return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m rsocket_trio.spark",
        description="Print the directory of a Java runtime that Spark can use, for JAVA_HOME.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args()
    try:
        java = find_java(lasting=True)
    except JavaNotFound as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{java.home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
