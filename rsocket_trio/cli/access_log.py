"""``--access-log``: a line for each call, written in a thread."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rsocket_trio import AccessLog
from rsocket_trio.private_files import open_private

from .exits import LOCAL_IO, USAGE, Failure
from .log_thread import ThreadedHandler

if TYPE_CHECKING:
    import argparse

__all__ = ["access_log"]


@contextmanager
def access_log(args: argparse.Namespace) -> Iterator[AccessLog | None]:
    """Give the middleware that the options ask for; what waits is written at last.

    Raises:
        Failure: The file cannot be opened.
    """
    if args.access_log is None:
        if args.access_log_format is not None:
            raise Failure("--access-log-format needs --access-log", USAGE)
        yield None
        return
    stream: Any = sys.stdout
    if args.access_log != "-":
        try:
            # Appended to, so that a file may be cut while it is written.
            fd = open_private(args.access_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            text = f"cannot write to {args.access_log}: {error.strerror}"
            raise Failure(text, LOCAL_IO) from error
        stream = open(fd, "a", encoding="utf-8")  # noqa: SIM115 - closed below
    handler = ThreadedHandler(stream)
    log = AccessLog(
        lambda line: handler.emit(logging.makeLogRecord({"msg": line})),
        form=args.access_log_format or "logfmt",
    )
    try:
        yield log
    finally:
        handler.flush()
        if stream is not sys.stdout:
            stream.close()
