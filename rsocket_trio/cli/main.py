"""The entry point: parse the arguments, run one command, return its exit status.

The grammar names the module of each command. It is imported only when the command runs, so
``decode`` does not load sockets and WebSockets.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsocket_trio.escapes import escaped
from rsocket_trio.log_text import safe_traceback

from .exits import BROKEN_PIPE, USAGE, Failure
from .grammar import build_parser
from .logs import flush_log
from .standard_streams import discard_output, flush_output, occupy_closed

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments without the program name; by default those of the process.

    Returns:
        The exit status, one of `rsocket_trio.cli.exits`.
    """
    occupy_closed()
    try:
        status = _run(argv)
    except BrokenPipeError:
        discard_output()
        return BROKEN_PIPE
    finally:
        flush_log()
    return status


def _run(argv: Sequence[str] | None) -> int:
    parser = build_parser()
    verbose = False
    try:
        try:
            args = parser.parse_args(argv)
            args.argv = sys.argv[1:] if argv is None else list(argv)
        except SystemExit as done:  # argparse raises it after --help, --version and wrong usage
            status = done.code if isinstance(done.code, int) else USAGE
        else:
            verbose = getattr(args, "verbose", False)
            status = _command(args)
        flush_output()
    except Failure as failure:
        flush_log()
        if verbose and failure.__cause__ is not None:
            print(safe_traceback(failure.__cause__)[0], file=sys.stderr)
        # The message may have a text of the peer, which must not control the terminal.
        print(f"{parser.prog}: error: {escaped(failure.message)}", file=sys.stderr)
        _flush_or_discard()
        return failure.status
    return status


def _flush_or_discard() -> None:
    # The command has failed already: do not report a second error.
    try:
        flush_output()
    except Failure:
        discard_output()


def _command(args: argparse.Namespace) -> int:
    module = importlib.import_module(f"{__package__}.{args.module}")
    status: int
    if getattr(args, "wiretap", False) or getattr(args, "wiretap_file", None) is not None:
        # Importing it takes time, which commands that nobody listens in on do not need.
        from .wiretap import tapped

        with tapped(args):
            status = module.run(args)
    else:
        status = module.run(args)
    return status
