"""Import the packages of the extra ``spark``, with an error that says how to install them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

__all__ = ["OLDEST_PYSPARK", "require"]

OLDEST_PYSPARK: Final = (4, 2)
"""Sources in Python can limit a batch from this version on."""


def require(name: str) -> ModuleType:
    """Import and return a module of the extra ``spark``.

    Args:
        name: The name of the module, e.g. ``pyspark.sql``.

    Raises:
        ImportError: The package is not installed, or too old.
    """
    package = name.partition(".")[0]
    try:
        found = import_module(package)
    except ModuleNotFoundError as error:
        # A module that is missing inside the package is another problem.
        if error.name != package:
            raise
        raise ImportError(
            f"rsocket_trio.spark needs {package}, which is not installed:"
            " pip install 'rsocket-trio[spark]'",
            name=package,
        ) from error
    if package == "pyspark":
        _check_version(found.__version__)
    return import_module(name)


def _check_version(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_PYSPARK:
        oldest = ".".join(map(str, OLDEST_PYSPARK))
        raise ImportError(
            f"rsocket_trio.spark needs PySpark {oldest} or newer, and this is {version}:"
            " pip install --upgrade 'rsocket-trio[spark]'",
            name="pyspark",
        )
