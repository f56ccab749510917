"""What is generated for a .proto file: its services and methods, with their names and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from rsocket_trio.ttrpc.comments import comments_of

from .imports import MessageModule, message_modules
from .names import is_importable, python_names, stub_module
from .options import Options

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        FileDescriptorProto,
        MethodDescriptorProto,
        ServiceDescriptorProto,
    )

__all__ = ["FileModel", "MessageType", "MethodModel", "ServiceModel", "file_model", "message_files"]

_OWN_NAMES: Final = frozenset({"ttrpc"})
"""Names that the bodies of generated classes use, besides the message modules. A method of such a
name would hide them."""


@attrs.frozen
class MessageType:
    """A message class, as generated code names it.

    Attributes:
        module: The module it is in.
        path: The names of the classes around it, and its own.
    """

    module: MessageModule
    path: tuple[str, ...]

    @property
    def is_nameable(self) -> bool:
        """Whether a type annotation can name it: neither keywords nor modules out of reach."""
        names = ".".join(self.path)
        return self.module.has_statement and is_importable(names) and ".__" not in f".{names}"

    @property
    def expression(self) -> str:
        """The code that has the class as its value."""
        code = self.module.alias
        for name in self.path:
            plain = is_importable(name) and not name.startswith("__")
            code = f"{code}.{name}" if plain else f'getattr({code}, "{name}")'
        return code


@attrs.frozen
class MethodModel:
    """A method of a service.

    Attributes:
        name: Its name in the .proto.
        python: Its name in Python. The name of its constant is the same in capital letters.
        sends_stream: Whether the client sends a stream.
        receives_stream: Whether the client receives a stream.
        request: The class of the requests.
        response: The class of the responses.
        comment: The comment in the .proto.
        deprecated: Whether it has the option ``deprecated``.
    """

    name: str
    python: str
    sends_stream: bool
    receives_stream: bool
    request: MessageType
    response: MessageType
    comment: str
    deprecated: bool

    @property
    def constant(self) -> str:
        """The name of the constant with the `Method`."""
        return self.python.upper()

    @property
    def kind(self) -> str:
        """The name of the `MethodKind`."""
        if self.sends_stream:
            return "BIDI_STREAM" if self.receives_stream else "CLIENT_STREAM"
        return "SERVER_STREAM" if self.receives_stream else "UNARY"


@attrs.frozen
class ServiceModel:
    """A service.

    Attributes:
        name: What the names of the generated classes begin with: its name in the .proto.
        full_name: Its name on the wire, with the package.
        methods: Its methods, in the order of the .proto.
        comment: The comment in the .proto.
        deprecated: Whether it has the option ``deprecated``.
    """

    name: str
    full_name: str
    methods: tuple[MethodModel, ...]
    comment: str
    deprecated: bool


@attrs.frozen
class FileModel:
    """A .proto file that has services.

    Attributes:
        proto: Its path, as protoc gives it.
        module: The name of the module that is generated.
        runtime: The module with the runtime.
        imports: The message modules, in the order of their imports.
        services: Its services, in the order of the .proto.
    """

    proto: str
    module: str
    runtime: str
    imports: tuple[MessageModule, ...]
    services: tuple[ServiceModel, ...]

    @property
    def methods(self) -> Iterator[MethodModel]:
        """The methods of all services."""
        for service in self.services:
            yield from service.methods


def message_files(
    files: Sequence[FileDescriptorProto],
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return file and path of each message of some files, by full name with a dot before it."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}

    def add(messages: Sequence[DescriptorProto], prefix: str, around: tuple[str, ...]) -> None:
        for message in messages:
            path = (*around, message.name)
            found[f"{prefix}.{message.name}"] = (file.name, path)
            add(message.nested_type, f"{prefix}.{message.name}", path)

    for file in files:
        add(file.message_type, f".{file.package}" if file.package else "", ())
    return found


def file_model(
    file: FileDescriptorProto,
    messages: Mapping[str, tuple[str, tuple[str, ...]]],
    options: Options,
) -> FileModel:
    """Return what is generated for a file.

    Args:
        file: The file.
        messages: What `message_files` returned for it and all files that it imports.
        options: The options of the plugin.

    Raises:
        KeyError: There is no such message. protoc has checked this before.
    """
    methods = [method for service in file.service for method in service.method]
    names = {name for each in methods for name in (each.input_type, each.output_type)}
    used = {messages[name][0] for name in names}
    modules = message_modules(file.name, used, relative=options.relative_imports)
    types = {name: MessageType(modules[messages[name][0]], messages[name][1]) for name in names}
    reserved = _OWN_NAMES | {each.alias for each in modules.values()}
    comments = comments_of(file)
    scope = f"{file.package}." if file.package else ""

    def service(proto: ServiceDescriptorProto) -> ServiceModel:
        full_name = f"{scope}{proto.name}"
        python = python_names([each.name for each in proto.method], reserved)
        return ServiceModel(
            # Python changes names in classes that begin with two underscores.
            name=f"Service{proto.name}" if proto.name.startswith("__") else proto.name,
            full_name=full_name,
            methods=tuple(method(each, python[each.name], full_name) for each in proto.method),
            comment=comments.get(full_name, ""),
            deprecated=proto.options.deprecated,
        )

    def method(proto: MethodDescriptorProto, python: str, service: str) -> MethodModel:
        return MethodModel(
            name=proto.name,
            python=python,
            sends_stream=proto.client_streaming,
            receives_stream=proto.server_streaming,
            request=types[proto.input_type],
            response=types[proto.output_type],
            comment=comments.get(f"{service}.{proto.name}", ""),
            deprecated=proto.options.deprecated,
        )

    return FileModel(
        proto=file.name,
        module=stub_module(file.name),
        runtime=options.runtime,
        imports=tuple(modules.values()),
        services=tuple(map(service, file.service)),
    )
