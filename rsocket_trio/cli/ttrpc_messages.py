"""The messages of ``ttrpc call`` and ``ttrpc stream``: from arguments, and to lines of output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rsocket_trio.ttrpc import Method, MethodKind
from rsocket_trio.ttrpc.descriptors import DescriptorError, Descriptors

from .exits import PEER_ERROR, USAGE, Failure
from .output import json_line
from .ttrpc_schema import has_schema, load_descriptors

if TYPE_CHECKING:
    import argparse

__all__ = ["Messages", "messages_of"]


class Messages(ABC):
    """How the messages of a method are read and printed.

    Attributes:
        method: The method.
    """

    method: Method[Any, Any]

    @abstractmethod
    def read(self, data: bytes) -> Any:
        """Return the message that a text stands for.

        Raises:
            Failure: It is none of this method.
        """

    @abstractmethod
    def line(self, message: Any) -> bytes:
        """Return a message as a line, with its end.

        Raises:
            Failure: It cannot be printed.
        """

    def detail(self, type_url: str, value: bytes) -> dict[str, Any]:
        """Return a detail of an error as a value for JSON."""
        return {"@type": type_url, "value_hex": value.hex()}


class _JsonMessages(Messages):
    """JSON, with the types of a descriptor set."""

    def __init__(self, descriptors: Descriptors, method: Method[Any, Any], defaults: bool) -> None:
        self.method = method
        self._descriptors = descriptors
        self._defaults = defaults

    def read(self, data: bytes) -> Any:
        message_type: type[Any] = self.method.request.message_type or object
        try:
            return self._descriptors.read_json(data.strip() or b"{}", message_type)
        except DescriptorError as error:
            text = f"a request must be {self.method.request.name} as JSON: {error}"
            raise Failure(text, USAGE) from error

    def line(self, message: Any) -> bytes:
        try:
            return json_line(self._descriptors.to_json(message, defaults=self._defaults))
        except DescriptorError as error:
            raise Failure(f"{error}; --hex prints the bytes", PEER_ERROR) from error

    def detail(self, type_url: str, value: bytes) -> dict[str, Any]:
        return self._descriptors.any_to_json(type_url, value)


class _HexMessages(Messages):
    """Bytes in hexadecimal."""

    def __init__(self, service: str, name: str, kind: MethodKind) -> None:
        self.method = Method.raw(service, name, kind)

    def read(self, data: bytes) -> bytes:
        try:
            return bytes.fromhex(data.decode())
        except ValueError as error:
            raise Failure(
                "a request is not hexadecimal: it must be pairs of digits", USAGE
            ) from error

    def line(self, message: bytes) -> bytes:
        return f"{message.hex()}\n".encode()


def messages_of(args: argparse.Namespace, *, streaming: bool) -> Messages:
    """Return the method that the arguments name, with its messages.

    Args:
        args: The arguments.
        streaming: Whether it has to be a method with a stream.

    Raises:
        Failure: There is no such method, its kind is the wrong one, or its types are not known.
    """
    if has_schema(args):
        descriptors = load_descriptors(args)
        try:
            method = descriptors.method(args.method)
        except DescriptorError as error:
            raise Failure(str(error), USAGE) from error
        if getattr(args, "kind", None) not in {None, method.kind.value}:
            raise Failure(f"--kind {args.kind}: {args.method} is {method.kind.value}", USAGE)
        _check_kind(method.kind, args.method, streaming)
        if args.hex:
            return _HexMessages(method.service, method.name, method.kind)
        return _JsonMessages(descriptors, method, args.defaults)
    if not args.hex:
        text = "the types of messages are not known: use --proto FILE or --descriptor-set FILE,"
        raise Failure(f"{text} or --hex for bytes", USAGE)
    service, slash, name = args.method.removeprefix("/").rpartition("/")
    if not slash:
        raise Failure(f"{args.method!r} is not SERVICE/METHOD, e.g. package.Service/Method", USAGE)
    if not streaming:
        return _HexMessages(service, name, MethodKind.UNARY)
    if args.kind is None:
        raise Failure("--hex without --proto or --descriptor-set needs --kind", USAGE)
    return _HexMessages(service, name, MethodKind(args.kind))


def _check_kind(kind: MethodKind, method: str, streaming: bool) -> None:
    if streaming and kind is MethodKind.UNARY:
        raise Failure(f"{method} has no stream: use rsocket-trio ttrpc call", USAGE)
    if not streaming and kind is not MethodKind.UNARY:
        raise Failure(f"{method} is {kind.value}: use rsocket-trio ttrpc stream", USAGE)
