"""Import the packages of the extra ``ttrpc``, with an error that says how to install them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["require"]


def require(name: str) -> ModuleType:
    """Import and return a module of protobuf.

    Args:
        name: The name of the module, e.g. ``google.protobuf.json_format``.

    Raises:
        ImportError: protobuf is not installed.
    """
    try:
        import_module("google.protobuf")
    except ModuleNotFoundError as error:
        # A module that is missing inside the package is another problem.
        if error.name not in {"google", "google.protobuf"}:
            raise
        raise ImportError(
            "messages of protobuf need the package protobuf, which is not installed:"
            " pip install 'rsocket-trio[ttrpc]'",
            name="google.protobuf",
        ) from error
    return import_module(name)
