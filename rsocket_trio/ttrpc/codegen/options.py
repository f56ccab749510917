"""The options of the plugin: ``--trio-ttrpc_opt=NAME=VALUE``."""

from __future__ import annotations

from typing import Final

import attrs

from .names import is_importable

__all__ = ["OptionError", "Options", "parse_options"]

_RUNTIME: Final = "rsocket_trio.ttrpc"


class OptionError(ValueError):
    """An option is unknown, or its value is wrong."""


@attrs.frozen
class Options:
    """What the plugin does differently.

    Attributes:
        runtime: The module that the generated code uses, in place of ``rsocket_trio.ttrpc``.
        relative_imports: Import the message modules relative to the generated module, except
            those of ``google/``: for output in a package that is not the root of the imports.
    """

    runtime: str = _RUNTIME
    relative_imports: bool = False


def parse_options(parameter: str) -> Options:
    """Return the options in the parameter of a request: ``NAME=VALUE`` with commas between.

    Raises:
        OptionError: There is an unknown option, or a wrong value.
    """
    runtime, relative = _RUNTIME, False
    for part in filter(None, parameter.split(",")):
        name, equals, value = part.strip().partition("=")
        match name:
            case "runtime":
                if not is_importable(value):
                    raise OptionError(f"runtime={value} is not the name of a module")
                runtime = value
            case "relative_imports":
                relative = _flag(name, value if equals else "true")
            case _:
                raise OptionError(
                    f"unknown option {name!r}; there are runtime=MODULE and relative_imports"
                )
    return Options(runtime=runtime, relative_imports=relative)


def _flag(name: str, value: str) -> bool:
    if value not in {"true", "false"}:
        raise OptionError(f"{name}={value} is neither true nor false")
    return value == "true"
