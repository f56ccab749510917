"""``completion``: print what a shell needs to complete commands and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exits import DONE, USAGE, Failure
from .grammar import build_parser, subcommands
from .standard_streams import print_bytes

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print the completion for a shell, which is made from the parser of the command line.

    Raises:
        Failure: The extra ``completion`` is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        text = "this needs another package: pip install 'rsocket-trio[completion]'"
        raise Failure(text, USAGE) from error
    parser = build_parser()
    _complete_names(parser, {"FILE": shtab.FILE, "TARGET": shtab.FILE, "DIR": shtab.DIRECTORY})
    print_bytes(shtab.complete(parser, args.shell).encode() + b"\n")
    return DONE


def _complete_names(parser: argparse.ArgumentParser, names: dict[str, object]) -> None:
    """Mark the arguments that are names of files and directories."""
    for action in parser._actions:  # noqa: SLF001  argparse has no public way
        found = names.get(str(action.metavar).partition(".")[0].partition("|")[0])
        if found is not None:
            action.complete = found  # type: ignore[attr-defined]  # where shtab looks for it
    for command in subcommands(parser).values():
        _complete_names(command, names)
