"""A data pipeline without a broker: log files and telemetry through collectors into Spark, and out.

    log files --Lumberjack--> collector --+                       +--> Parquet
                                          +--> Spark, 4 queries --+
    telemetry ----RSocket---> collector --+                       +--RSocket--> alerts server
                                                                                 |         |
                                                              request_stream alerts      a page

    python examples/log_pipeline.py --output build/pipeline

It takes about a minute. At the end it prints tables, proves their counts against the log files,
and writes a picture. It needs ``pip install 'rsocket-trio[spark]'``, and Linux. The exit status is
0 if everything worked. Otherwise it is 1, and standard error says which part failed.

The parts are in the folder pipeline, and run as processes of their own.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import trio
from demo_processes import Failed
from pipeline.parts import supervised
from pipeline.run import Options, Run

EPILOG: Final = """\
It reads services.log, an invented hour of six services that it writes itself, /var/log/dpkg.log, if
this machine has one, and figures about this machine. For log files of your own, begin with
docs/howto/spark-tutorial.md: its program is short, and its schema is easy to change.

examples:
  python examples/log_pipeline.py
  python examples/log_pipeline.py --output build/pipeline --linger 600

exit status: 0 if all counts are right; otherwise 1, and standard error says which part failed
"""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def main(options: Options) -> int:
    """Run the pipeline. Return the exit status: that of shells if a signal stops it."""
    stopped: list[int] = []

    async def until_stopped(scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(*SIGNALS) as signals:
            async for number in signals:
                stopped.append(128 + number)
                scope.cancel()

    directory = make_directory(options.output)
    failed = True
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_stopped, nursery.cancel_scope)
            with trio.move_on_after(options.limit) as limit:
                async with supervised(directory) as parts:
                    await Run(options, directory, parts).pipeline()
            if limit.cancelled_caught:
                raise Failed(
                    f"not finished after {options.limit:g} s (--limit)\n"
                    f"  the logs of its parts: {directory}"
                )
            nursery.cancel_scope.cancel()
        failed = False
    finally:
        clear(directory, keep_logs=failed and not stopped)
    return stopped[0] if stopped else 0


def make_directory(output: Path) -> Path:
    """Make a directory for the files of a run."""
    output.mkdir(parents=True, exist_ok=True)
    return Path(mkdtemp(prefix="run-", dir=output)).resolve()


def clear(directory: Path, *, keep_logs: bool) -> None:
    """Remove the files of a run. After a failure its logs stay."""
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not keep_logs or path.suffix != ".log":
            path.unlink()
    if not keep_logs:
        directory.rmdir()


def parsed() -> Options:
    parser = argparse.ArgumentParser(
        description="Ship log files and telemetry through collectors into Spark, and watch alerts.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("build/pipeline"),
        help="directory for the picture and the tables (default %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        metavar="SECONDS",
        type=float,
        default=15.0,
        help="the invented hour is written in this time (default %(default)s)",
    )
    parser.add_argument(
        "--limit",
        metavar="SECONDS",
        type=float,
        default=180.0,
        help="a run that takes longer is stopped, with status 1 (default %(default)s)",
    )
    parser.add_argument(
        "--linger",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="the page stays for this time at the end (default %(default)s)",
    )
    parser.add_argument(
        "--modules",
        metavar="DIR",
        type=Path,
        help="directory with the modules of the page, if npm has not installed them in"
        " examples/pipeline/page",
    )
    return Options(**vars(parser.parse_args()))


def run() -> int | str:
    status: int | str = 0
    try:
        status = trio.run(main, parsed())
    except* (Failed, OSError) as failed:
        status = f"log_pipeline: {first(failed)}"
    return status


def first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure of a part. A part that fails takes others with it."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting:
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting = [*error.exceptions, *waiting]
        else:
            found.append(error)
    return next((error for error in found if isinstance(error, Failed)), found[0])


if __name__ == "__main__":
    try:
        sys.exit(run())
    except KeyboardInterrupt:  # before the signals are received
        sys.exit(130)
