"""Services and messages that are known at run time only: `Descriptors`, out of a descriptor set.

protoc writes such a set with ``--descriptor_set_out=FILE --include_imports``. This module needs the
extra ``ttrpc``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from .codec import codec_for
from .comments import comments_of
from .extras import require
from .methods import Method, MethodKind

if TYPE_CHECKING:
    from google.protobuf.descriptor import (
        Descriptor,
        EnumDescriptor,
        MethodDescriptor,
        ServiceDescriptor,
    )
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import Message

__all__ = ["DescriptorError", "Descriptors", "Found", "kind_of"]

Found: TypeAlias = "ServiceDescriptor | MethodDescriptor | Descriptor | EnumDescriptor"
"""What a full name can stand for."""

M = TypeVar("M", bound="Message")


class DescriptorError(ValueError):
    """A descriptor set cannot be used, has no such name, or a message does not fit its type."""


class Descriptors:
    """The services and messages of .proto files, without code that was generated from them.

    Args:
        files: The files of a descriptor set, with all that they import. Files of
            ``google/protobuf`` may be missing.

    Attributes:
        files: The files by name, those that a file imports before it.

    Raises:
        DescriptorError: A file is missing, or is wrong.
        ImportError: The extra ``ttrpc`` is not installed.
    """

    def __init__(self, files: Iterable[FileDescriptorProto]) -> None:
        self._pool = require("google.protobuf.descriptor_pool").DescriptorPool()
        self._json = require("google.protobuf.json_format")
        self._classes = require("google.protobuf.message_factory")
        self.files: dict[str, FileDescriptorProto] = {}
        for file in _sorted({file.name: file for file in files}):
            self.files[file.name] = file
            try:
                self._pool.Add(file)
            except TypeError as error:  # what protobuf raises for a wrong descriptor
                raise DescriptorError(f"{file.name} is wrong: {error}") from error

    @classmethod
    def parse(cls, data: bytes) -> Descriptors:
        """Return what a descriptor set in binary form has.

        Raises:
            DescriptorError: It is none, a file is missing in it, or is wrong.
            ImportError: The extra ``ttrpc`` is not installed.
        """
        kind = require("google.protobuf.descriptor_pb2").FileDescriptorSet
        failure = require("google.protobuf.message").DecodeError
        try:
            files = kind.FromString(data)
        except failure as error:
            raise DescriptorError("this is no descriptor set of protoc") from error
        return cls(files.file)

    def services(self) -> list[ServiceDescriptor]:
        """Return all services, in the order of their names."""
        names = [
            f"{file.package}.{service.name}" if file.package else service.name
            for file in self.files.values()
            for service in file.service
        ]
        return [self._pool.FindServiceByName(name) for name in sorted(names)]

    def names(self) -> list[str]:
        """Return the full names of all services, methods, messages and enums."""
        names: list[str] = []

        def add(prefix: str, inside: FileDescriptorProto | DescriptorProto) -> None:
            enums = inside.enum_type
            names.extend(f"{prefix}{each.name}" for each in enums)
            messages = inside.nested_type if hasattr(inside, "nested_type") else inside.message_type
            for message in messages:
                names.append(f"{prefix}{message.name}")
                add(f"{prefix}{message.name}.", message)

        for file in self.files.values():
            add(f"{file.package}." if file.package else "", file)
        for service in self.services():
            names.append(service.full_name)
            names.extend(f"{service.full_name}/{each.name}" for each in service.methods)
        return sorted(names)

    def find(self, name: str) -> Found:
        """Return what a name stands for: a service, a method, a message or an enum.

        Args:
            name: The full name; that of a method as ``package.Service/Method`` or with a dot.

        Raises:
            DescriptorError: There is no such thing.
        """
        full_name = name.removeprefix("/").replace("/", ".")
        finders: list[Callable[[str], Found]] = [
            self._pool.FindServiceByName,
            self._pool.FindMethodByName,
            self._pool.FindMessageTypeByName,
            self._pool.FindEnumTypeByName,
        ]
        for find in finders:
            try:
                return find(full_name)
            except KeyError:
                continue
        raise DescriptorError(f"there is no {name!r}")

    def comments(self, name: str) -> dict[str, str]:
        """Return the comments of a file by full name; see `rsocket_trio.ttrpc.comments`.

        Args:
            name: The name of the file. There are no comments if the set has none: protoc puts them
                in with ``--include_source_info``.
        """
        return comments_of(self.files[name])

    def method(self, path: str) -> Method[Message, Message]:
        """Return a method whose messages are objects of classes that are made now.

        Args:
            path: ``package.Service/Method``, perhaps with a slash before it.

        Raises:
            DescriptorError: There is no such service, or no such method in it.
        """
        service_name, slash, name = path.removeprefix("/").rpartition("/")
        if not slash:
            raise DescriptorError(f"{path!r} is not SERVICE/METHOD, e.g. package.Service/Method")
        try:
            service: ServiceDescriptor = self._pool.FindServiceByName(service_name)
        except KeyError:
            known = ", ".join(each.full_name for each in self.services()) or "none"
            text = f"there is no service {service_name!r}; there are: {known}"
            raise DescriptorError(text) from None
        if name not in service.methods_by_name:
            known = ", ".join(service.methods_by_name) or "none"
            raise DescriptorError(f"{service_name} has no method {name!r}; it has: {known}")
        found = service.methods_by_name[name]
        return Method(
            service=service.full_name,
            name=found.name,
            kind=kind_of(found),
            request=codec_for(self.message_class(found.input_type)),
            response=codec_for(self.message_class(found.output_type)),
        )

    def message_class(self, message: Descriptor) -> type[Message]:
        """Return the class of a message."""
        made: type[Message] = self._classes.GetMessageClass(message)
        return made

    def read_json(self, text: str | bytes, message_type: type[M]) -> M:
        """Return a message out of JSON text, as protobuf defines it ("ProtoJSON").

        Raises:
            DescriptorError: The text is not JSON, or does not fit the type.
        """
        message = message_type()
        # protobuf has types that are lists or numbers in JSON, such as ListValue. For all others,
        # its parser takes some wrong values, and fails in odd ways for more.
        own_form = message_type.DESCRIPTOR.full_name.startswith("google.protobuf.")
        if not own_form and text.lstrip()[:1] not in {"{", b"{"}:
            raise DescriptorError("it must be an object")
        try:
            self._json.Parse(text, message, descriptor_pool=self._pool)
        # A ValueError is for bytes that are not UTF-8. Before protobuf 6, wrong values of some
        # types are a TypeError or an AttributeError.
        except (self._json.ParseError, ValueError, TypeError, AttributeError) as error:
            text = " ".join(str(error).split())  # some have a line break
            raise DescriptorError(text) from error
        except RecursionError as error:  # from the parser of JSON
            raise DescriptorError("the JSON text is nested too deep") from error
        return message

    def to_json(self, message: Message, *, defaults: bool = False) -> Any:
        """Return a message as a value for JSON: a dict, apart from types such as Timestamp.

        Args:
            message: The message.
            defaults: Also fields with the value that they have by default.

        Raises:
            DescriptorError: A ``google.protobuf.Any`` in it has an unknown type.
        """
        try:
            return self._json.MessageToDict(
                message,
                always_print_fields_with_no_presence=defaults,
                descriptor_pool=self._pool,
            )
        # An AttributeError is for a field named DESCRIPTOR, which hides what protobuf needs.
        except (TypeError, ValueError, AttributeError, self._json.Error) as error:
            raise DescriptorError(f"the message has no JSON form: {error}") from error

    def any_to_json(self, type_url: str, value: bytes) -> dict[str, Any]:
        """Return the content of a ``google.protobuf.Any`` as a value for JSON.

        Bytes of an unknown type, or that do not fit the type, are given as ``value_hex``.
        """
        failure = require("google.protobuf.message").DecodeError
        try:
            message = self._pool.FindMessageTypeByName(type_url.rpartition("/")[2])
            fields = self.to_json(self.message_class(message).FromString(value))
        except (KeyError, failure, DescriptorError):
            return {"@type": type_url, "value_hex": value.hex()}
        return {"@type": type_url, **(fields if isinstance(fields, dict) else {"value": fields})}


def kind_of(method: MethodDescriptor) -> MethodKind:
    """Return how many messages each side of a method sends."""
    if method.client_streaming:
        return MethodKind.BIDI_STREAM if method.server_streaming else MethodKind.CLIENT_STREAM
    return MethodKind.SERVER_STREAM if method.server_streaming else MethodKind.UNARY


def _sorted(files: Mapping[str, FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return files, and those of protobuf itself that they import, each behind its imports.

    Raises:
        DescriptorError: A file is missing, or files import each other.
    """
    known = dict(files)
    waiting = list(known.values())
    while waiting:
        file = waiting.pop()
        for name in file.dependency:
            if name not in known:
                known[name] = _installed(name, file.name)
                waiting.append(known[name])
    graph = {name: list(file.dependency) for name, file in known.items()}
    try:
        return [known[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise DescriptorError(f"files import each other: {', '.join(error.args[1])}") from error


def _installed(name: str, importer: str) -> FileDescriptorProto:
    # Sets without --include_imports do not have the files of protobuf itself.
    text = f"{importer} imports {name}, which the descriptor set does not have"
    missing = DescriptorError(f"{text} (protoc --include_imports adds it)")
    if not name.startswith("google/protobuf/"):
        raise missing
    try:
        module = require(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    except ModuleNotFoundError:
        raise missing from None
    file: FileDescriptorProto = require("google.protobuf.descriptor_pb2").FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file
