"""``ttrpc describe``: print a service, a method, a message or an enum."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from rsocket_trio.ttrpc.descriptors import DescriptorError

from .exits import DONE, USAGE, Failure
from .logs import log_to_stderr
from .output import json_line
from .standard_streams import print_bytes
from .ttrpc_schema import load_descriptors

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_CLOSE: Final = 0.8
"""How close they are at least; names of one package always have much in common."""

_MOST_CLOSE: Final = 3
"""The most names that are proposed for a wrong one."""


def run(args: argparse.Namespace) -> int:
    """Print what the name stands for, as in a .proto file or as JSON.

    Raises:
        Failure: The services cannot be loaded, or there is no such name.
    """
    log_to_stderr(args)
    descriptors = load_descriptors(args)
    try:
        found = descriptors.find(args.name)
    except DescriptorError as error:
        close = get_close_matches(args.name, descriptors.names(), _MOST_CLOSE, _CLOSE)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        names = ", ".join(each.full_name for each in descriptors.services()) or "none"
        raise Failure(f"{error}; {hint}services: {names}", USAGE) from error
    # It needs protobuf, which is installed if there are descriptors.
    from .ttrpc_definitions import definition_text, definition_value

    if args.json:
        print_bytes(json_line(definition_value(found)))
    else:
        print_bytes(f"{definition_text(found, descriptors)}\n".encode())
    return DONE
