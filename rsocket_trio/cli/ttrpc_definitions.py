"""Services, methods, messages and enums as text like that of a .proto file, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
)

from rsocket_trio.escapes import escaped
from rsocket_trio.ttrpc.descriptors import Descriptors, kind_of

if TYPE_CHECKING:
    from rsocket_trio.ttrpc.descriptors import Found

__all__ = ["definition_text", "definition_value"]

_INDENT: Final = "  "


def definition_text(found: Found, descriptors: Descriptors) -> str:
    """Return a definition as text, with its comments; types have their full names."""
    file = descriptors.files[_file_of(found)]
    explicit = not file.syntax or file.syntax == "proto2"
    return "\n".join(_Text(descriptors.comments(file.name), explicit).lines(found))


def definition_value(found: Found) -> dict[str, Any]:
    """Return a definition as a value for JSON."""
    match found:
        case ServiceDescriptor():
            return {
                "service": found.full_name,
                "methods": [_method(each) for each in found.methods],
            }
        case MethodDescriptor():
            return _method(found)
        case Descriptor():
            return _message(_proto(found), found.full_name)
        case _:
            return _enum(_proto_of_enum(found), found.full_name)


def _file_of(found: Found) -> str:
    holder = found.containing_service if isinstance(found, MethodDescriptor) else found
    name: str = holder.file.name
    return name


def _proto(message: Descriptor) -> DescriptorProto:
    proto = DescriptorProto()
    message.CopyToProto(proto)
    return proto


def _proto_of_enum(enum: EnumDescriptor) -> EnumDescriptorProto:
    proto = EnumDescriptorProto()
    enum.CopyToProto(proto)
    return proto


def _method(method: MethodDescriptor) -> dict[str, Any]:
    return {
        "method": f"{method.containing_service.full_name}/{method.name}",
        "kind": kind_of(method).value,
        "request": method.input_type.full_name,
        "response": method.output_type.full_name,
    }


def _message(message: DescriptorProto, full_name: str) -> dict[str, Any]:
    fields = []
    for field in message.field:
        value: dict[str, Any] = {
            "name": field.name,
            "json_name": field.json_name,
            "number": field.number,
            "type": _type(field, message),
        }
        if _is_repeated(field) and not _entry(field, message):
            value["repeated"] = True
        if field.HasField("oneof_index") and not field.proto3_optional:
            value["oneof"] = message.oneof_decl[field.oneof_index].name
        fields.append(value)
    return {"message": full_name, "fields": fields}


def _enum(enum: EnumDescriptorProto, full_name: str) -> dict[str, Any]:
    return {"enum": full_name, "values": {each.name: each.number for each in enum.value}}


def _is_repeated(field: FieldDescriptorProto) -> bool:
    return field.label == FieldDescriptorProto.LABEL_REPEATED


def _entry(field: FieldDescriptorProto, message: DescriptorProto) -> DescriptorProto | None:
    """Return the entries of a map, which are a message inside its message."""
    name = field.type_name.rpartition(".")[2]
    for nested in message.nested_type:
        if nested.options.map_entry and nested.name == name and _is_repeated(field):
            return nested
    return None


def _type(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    entry = _entry(field, message)
    if entry is not None:
        key, value = entry.field
        return f"map<{_type(key, entry)}, {_type(value, entry)}>"
    if field.type_name:
        return field.type_name.removeprefix(".")
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


class _Text:
    """The lines of definitions.

    Args:
        comments: The comments by full name.
        explicit: Whether each field has a label, as in proto2.
    """

    def __init__(self, comments: dict[str, str], explicit: bool) -> None:
        self._comments = comments
        self._explicit = explicit

    def lines(self, found: Found) -> Iterator[str]:
        match found:
            case ServiceDescriptor():
                methods = [line for each in found.methods for line in self.lines(each)]
                yield from self._block(f"service {found.full_name}", found.full_name, methods)
            case MethodDescriptor():
                yield from self._comment(f"{found.containing_service.full_name}.{found.name}")
                request = f"{'stream ' * found.client_streaming}{found.input_type.full_name}"
                response = f"{'stream ' * found.server_streaming}{found.output_type.full_name}"
                yield f"rpc {found.name}({request}) returns ({response});"
            case Descriptor():
                yield from self._message(_proto(found), found.full_name, found.full_name)
            case _:
                yield from self._enum(_proto_of_enum(found), found.full_name, found.full_name)

    def _message(self, message: DescriptorProto, name: str, full_name: str) -> Iterator[str]:
        inner: list[str] = []
        for enum in message.enum_type:
            inner += self._enum(enum, enum.name, f"{full_name}.{enum.name}")
        for nested in message.nested_type:
            if not nested.options.map_entry:
                inner += self._message(nested, nested.name, f"{full_name}.{nested.name}")
        done: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                inner += self._field(field, message, full_name)
            elif field.oneof_index not in done:
                done.add(field.oneof_index)
                among = [
                    line
                    for each in message.field
                    if each.HasField("oneof_index") and each.oneof_index == field.oneof_index
                    for line in self._field(each, message, full_name, label=False)
                ]
                oneof = message.oneof_decl[field.oneof_index].name
                inner += self._block(f"oneof {oneof}", "", among)
        yield from self._block(f"message {name}", full_name, inner)

    def _field(
        self,
        field: FieldDescriptorProto,
        message: DescriptorProto,
        full_name: str,
        *,
        label: bool = True,
    ) -> Iterator[str]:
        yield from self._comment(f"{full_name}.{field.name}")
        words = [_type(field, message), field.name]
        if _entry(field, message) is None and label:
            if _is_repeated(field):
                words.insert(0, "repeated")
            elif field.proto3_optional:
                words.insert(0, "optional")
            elif self._explicit:
                name = FieldDescriptorProto.Label.Name(field.label)
                words.insert(0, name.removeprefix("LABEL_").lower())
        yield f"{' '.join(words)} = {field.number};"

    def _enum(self, enum: EnumDescriptorProto, name: str, full_name: str) -> Iterator[str]:
        inner: list[str] = []
        for value in enum.value:
            inner += self._comment(f"{full_name}.{value.name}")
            inner.append(f"{value.name} = {value.number};")
        yield from self._block(f"enum {name}", full_name, inner)

    def _block(self, head: str, full_name: str, inner: Iterable[str]) -> Iterator[str]:
        yield from self._comment(full_name)
        lines = [f"{_INDENT}{line}" for line in inner]
        if lines:
            yield f"{head} {{"
            yield from lines
            yield "}"
        else:
            yield f"{head} {{}}"

    def _comment(self, full_name: str) -> Iterator[str]:
        text = self._comments.get(full_name, "").strip("\n")
        for line in text.split("\n") if text else ():
            yield f"//{escaped(line.rstrip())}"
