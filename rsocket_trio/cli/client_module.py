"""``client``: write a Python module for clients of a router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .exits import DONE
from .logs import log_to_stderr
from .standard_streams import print_bytes
from .target import load_object, router_in

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print the module.

    Raises:
        Failure: The target cannot be loaded, or is no Router.
    """
    log_to_stderr(args)
    print_bytes(load_object(args.target, router_in).client_module(args.name).encode())
    return DONE
