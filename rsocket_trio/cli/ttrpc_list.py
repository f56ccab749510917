"""``ttrpc list``: print the services and methods of .proto files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsocket_trio.ttrpc.descriptors import kind_of

from .exits import DONE
from .logs import log_to_stderr, logger
from .output import json_line
from .standard_streams import print_bytes
from .ttrpc_schema import load_descriptors

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print a line for each method, in the order of the services' names and of the .proto.

    Raises:
        Failure: The services cannot be loaded.
    """
    log_to_stderr(args)
    methods = [each for service in load_descriptors(args).services() for each in service.methods]
    paths = [f"{each.containing_service.full_name}/{each.name}" for each in methods]
    if not methods:
        logger.warning("there are no methods in these files")
    width = max(map(len, paths), default=0)
    for path, method in zip(paths, methods, strict=True):
        kind = kind_of(method).value
        if args.json:
            fields = {
                "method": path,
                "kind": kind,
                "request": method.input_type.full_name,
                "response": method.output_type.full_name,
            }
            print_bytes(json_line(fields))
        else:
            print_bytes(f"{path:<{width}}  {kind}\n".encode())
    return DONE
