"""``serve --access-log``: a line for each call, written in a thread."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rsocket_trio import AccessLog, Router
from rsocket_trio.private_files import open_private

from .exits import LOCAL_IO, USAGE, Failure
from .log_thread import ThreadedHandler

if TYPE_CHECKING:
    import argparse

__all__ = ["access_log"]


@contextmanager
def access_log(args: argparse.Namespace, target: Any) -> Iterator[AccessLog | None]:
    """Have a target write a line for each call, as the options say; what waits is written at last.

    Raises:
        Failure: The target is no Router, or the file cannot be opened.
    """
    if args.access_log is None:
        if args.access_log_format is not None:
            raise Failure("--access-log-format needs --access-log", USAGE)
        yield None
        return
    if not isinstance(target, Router):
        kind = type(target).__name__
        raise Failure(f"--access-log needs a Router, and the target is a {kind}", USAGE)
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
    target._surround(log)  # noqa: SLF001 - not for applications
    try:
        yield log
    finally:
        handler.flush()
        if stream is not sys.stdout:
            stream.close()
