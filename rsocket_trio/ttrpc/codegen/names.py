"""Names that Python accepts, for the names of a .proto file."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

__all__ = [
    "IllegalName",
    "check_names",
    "is_importable",
    "module_path",
    "pb2_module",
    "python_names",
    "snake_case",
    "stub_module",
]


_IDENTIFIER: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


class IllegalName(ValueError):
    """A name in a request is none that a .proto file can have."""


def check_names(files: Iterable[FileDescriptorProto]) -> None:
    """Check the names that become code. protoc makes no others, but others may make requests.

    Raises:
        IllegalName: One is no identifier, or the name of a file cannot be printed.
    """

    def check(what: str, name: str) -> None:
        if not _IDENTIFIER.fullmatch(name):
            raise IllegalName(f"the name of a {what} is no identifier: {name!r}")

    def check_messages(messages: Sequence[DescriptorProto]) -> None:
        for message in messages:
            check("message", message.name)
            check_messages(message.nested_type)

    for file in files:
        if not file.name.isprintable():
            raise IllegalName(f"the name of a file cannot be printed: {file.name!r}")
        for part in file.package.split(".") if file.package else []:
            check("package", part)
        check_messages(file.message_type)
        for service in file.service:
            check("service", service.name)
            for method in service.method:
                check("method", method.name)


def snake_case(name: str) -> str:
    """Return a name of a method in the style of Python: ``GetHTTPInfo`` is ``get_http_info``."""
    words = re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return words.lower()


def python_names(names: Iterable[str], reserved: Collection[str]) -> dict[str, str]:
    """Return the Python name of each method of a service.

    Each is different from the others, from keywords and from the ``reserved`` names. None begins
    with an underscore: Python gives such names a meaning.
    """
    found: dict[str, str] = {}
    taken = set(reserved)
    for name in names:
        python = snake_case(name).lstrip("_")
        if not python or python[0].isdigit():
            python = f"rpc_{python}"
        while python in taken or keyword.iskeyword(python):
            python += "_"
        taken.add(python)
        found[name] = python
    return found


def pb2_module(proto: str) -> str:
    """Return the name of the module in which protoc puts the messages of a .proto file."""
    return f"{_module(proto)}_pb2"


def stub_module(proto: str) -> str:
    """Return the name of the module that this plugin writes for a .proto file."""
    return f"{_module(proto)}_ttrpc"


def module_path(module: str, suffix: str) -> str:
    """Return the path of a module, with ``/``, relative to the output directory."""
    return module.replace(".", "/") + suffix


def is_importable(module: str) -> bool:
    """Return whether an ``import`` statement can name a module.

    protoc makes modules such as ``v1.import.x_pb2`` too, which have a keyword in their name.
    """
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in module.split("."))


def _module(proto: str) -> str:
    # The rules of protoc itself (its compiler/python/helpers.cc).
    stem = proto.removesuffix(".protodevel") if proto.endswith(".protodevel") else proto
    return stem.removesuffix(".proto").replace("-", "_").replace("/", ".")
