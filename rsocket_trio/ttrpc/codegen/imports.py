"""The imports of message modules in a generated module."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from .docstrings import literal
from .names import is_importable, pb2_module, stub_module

__all__ = ["MessageModule", "import_lines", "message_modules"]


@attrs.frozen
class MessageModule:
    """A module of protoc with message classes, as a generated module imports it.

    Attributes:
        module: Its name, beginning with dots if the import is relative.
        alias: Its name in the generated module.
    """

    module: str
    alias: str

    @property
    def has_statement(self) -> bool:
        """Whether an ``import`` statement can name it."""
        return is_importable(self.module.lstrip("."))


def message_modules(proto: str, used: Iterable[str], *, relative: bool) -> dict[str, MessageModule]:
    """Return the message modules that the module of a .proto file imports, by .proto file.

    Args:
        proto: The file for which a module is generated.
        used: The files whose messages it uses.
        relative: Import relatively, except ``google/``: its modules are installed packages.
    """
    names = {each: pb2_module(each) for each in sorted(set(used))}
    last = [name.rpartition(".")[2] for name in names.values()]
    taken: set[str] = set()
    modules: dict[str, MessageModule] = {}
    for each, name in names.items():
        short = name.rpartition(".")[2]
        alias = _identifier(short if last.count(short) == 1 else name)
        while alias in taken:
            alias += "_"
        taken.add(alias)
        if relative and not each.startswith("google/"):
            name = _relative(name, stub_module(proto))
        modules[each] = MessageModule(name, alias)
    return modules


def import_lines(modules: Iterable[MessageModule]) -> list[str]:
    """Return the statements that import message modules, in their order."""
    return [_statement(each) for each in modules]


def _statement(each: MessageModule) -> str:
    if not each.has_statement:
        where = ", __package__" if each.module.startswith(".") else ""
        return f"{each.alias} = import_module({literal(each.module)}{where})"
    package, dot, name = _split(each.module)
    rename = f" as {each.alias}" if each.alias != name else ""
    return f"from {package} import {name}{rename}" if dot else f"import {name}{rename}"


def _split(module: str) -> tuple[str, str, str]:
    package, dot, name = module.rpartition(".")
    # The package of ".x_pb2" is ".", that of "..a.x_pb2" is "..a".
    return (package if package.strip(".") else f"{package}{dot}"), dot, name


def _relative(module: str, to: str) -> str:
    target, here = module.split("."), to.split(".")[:-1]
    common = 0
    while common < min(len(here), len(target) - 1) and here[common] == target[common]:
        common += 1
    return "." * (len(here) - common + 1) + ".".join(target[common:])


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    # Python changes names in classes that begin with two underscores.
    return f"m{text}" if text[0].isdigit() or text.startswith("__") else text
