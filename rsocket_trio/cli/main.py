"""The entry point: parse, run one command, turn its end into an exit status.

A command is the module that the grammar names for it; it is imported only when it is run, so that
``decode`` does not pay for sockets and WebSockets.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .exits import BROKEN_PIPE, INTERRUPTED, USAGE, Failure
from .grammar import build_parser

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments without the name of the program; those of the process by default.

    Returns:
        The exit status, one of `rsocket_trio.cli.exits`.
    """
    try:
        status = _run(argv)
        # Here and not at interpreter exit, where a reader that has gone would be a traceback.
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseExceptionGroup as group:
        # Ctrl-C before our own handler was in place reaches trio's nurseries, which group it.
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        return INTERRUPTED
    return status


def _run(argv: Sequence[str] | None) -> int:
    parser = build_parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as done:  # argparse ends so after --help, --version and wrong usage
        return done.code if isinstance(done.code, int) else USAGE
    try:
        return _command(args)
    except Failure as failure:
        if getattr(args, "verbose", False) and failure.__cause__ is not None:
            traceback.print_exception(failure.__cause__)
        print(f"{parser.prog}: error: {failure.message}", file=sys.stderr)
        return failure.status


def _command(args: argparse.Namespace) -> int:
    module = importlib.import_module(f"{__package__}.{args.module}")
    status: int = module.run(args)
    return status


def _discard_output() -> None:
    # What is still buffered goes nowhere, without a complaint when the interpreter flushes it.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
