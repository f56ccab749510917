"""Names of a package that are imported when they are used first: `lazily`."""

from __future__ import annotations

import importlib
from threading import RLock

TYPE_CHECKING = False  # `typing` takes long to import: see `rsocket_trio/__init__.py`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["homes_of", "lazily"]

_importing = RLock()
"""Two threads that use their first names at once would import the same modules in different orders.
Python ends such a deadlock by an ImportError, or by a module that is not complete."""


def homes_of(modules: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name.

    Args:
        modules: For each module the names that it has, with spaces between them.
    """
    return {name: home for home, names in modules.items() for name in names.split()}


def lazily(
    namespace: dict[str, Any], homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package.

    The modules themselves are attributes too, without an import of their own, as type checkers
    believe.

    Args:
        namespace: ``globals()`` of the package.
        homes: The module of each name, relative to the package.
    """
    package: str = namespace["__name__"]
    modules = frozenset(home.partition(".")[0] for home in homes.values())

    def get(name: str) -> object:
        if name in homes:
            with _importing:
                found: object = getattr(importlib.import_module(f".{homes[name]}", package), name)
            namespace[name] = found
            return found
        if name in modules:
            with _importing:
                return importlib.import_module(f".{name}", package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*namespace, *namespace["__all__"], *modules})

    return get, names
