"""The comments of a .proto file, by the names of what they explain: `comments_of`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FileDescriptorProto,
    )

__all__ = ["comments_of"]

_Path: TypeAlias = tuple[int, ...]


def comments_of(file: FileDescriptorProto) -> dict[str, str]:
    """Return the comments of a file by full name: of services, methods, messages, fields, enums.

    The value of an enum has the name of the enum before its own. Texts are as protoc gives them:
    lines without the marks of comments, with the space behind the marks.
    """
    # A place in a file is a path of field numbers and indexes, as descriptor.proto explains.
    texts = {
        tuple(place.path): place.leading_comments or place.trailing_comments
        for place in file.source_code_info.location
    }
    return {name: texts[path] for path, name in _names(file) if texts.get(path)}


def _names(file: FileDescriptorProto) -> Iterator[tuple[_Path, str]]:
    scope = f"{file.package}." if file.package else ""
    yield from _of_messages(file.message_type, (4,), scope)
    yield from _of_enums(file.enum_type, (5,), scope)
    for number, service in enumerate(file.service):
        yield (6, number), f"{scope}{service.name}"
        for n, method in enumerate(service.method):
            yield (6, number, 2, n), f"{scope}{service.name}.{method.name}"


def _of_messages(
    messages: Sequence[DescriptorProto], path: _Path, scope: str
) -> Iterator[tuple[_Path, str]]:
    for number, message in enumerate(messages):
        here, name = (*path, number), f"{scope}{message.name}"
        yield here, name
        for n, field in enumerate(message.field):
            yield (*here, 2, n), f"{name}.{field.name}"
        yield from _of_messages(message.nested_type, (*here, 3), f"{name}.")
        yield from _of_enums(message.enum_type, (*here, 4), f"{name}.")


def _of_enums(
    enums: Sequence[EnumDescriptorProto], path: _Path, scope: str
) -> Iterator[tuple[_Path, str]]:
    for number, enum in enumerate(enums):
        here, name = (*path, number), f"{scope}{enum.name}"
        yield here, name
        for n, value in enumerate(enum.value):
            yield (*here, 2, n), f"{name}.{value.name}"
