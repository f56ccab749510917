"""A method with all that a connection needs to run its handler: `ServedMethod`, `Methods`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from ..methods import Method, MethodKind
from .interceptors import ServerInterceptor, around_reply, around_stream
from .service import BoundMethod, Handler, Service

__all__ = ["Methods", "ServedMethod", "ServiceMethods"]


@attrs.frozen(eq=False)
class ServedMethod:
    """A method on a connection.

    Attributes:
        path: ``/package.Service/Method``, for the log.
        kind: How many messages each side sends.
        is_unary: Whether each side sends one.
        sends_stream: Whether the client sends any number.
        receives_stream: Whether the server sends any number.
        method: The method as handlers and interceptors see it.
        start: Calls the handler with the request and the `Call`.
        wants_call: Whether it looks at the `Call`.
        decode: Reads a request.
        encode: Makes the bytes of an answer.
    """

    path: str
    kind: MethodKind
    is_unary: bool
    sends_stream: bool
    receives_stream: bool
    method: Method[Any, Any]
    start: Handler
    wants_call: bool
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]

    @classmethod
    def of(cls, bound: BoundMethod, interceptors: Sequence[ServerInterceptor] = ()) -> ServedMethod:
        """Return the method with the interceptors around its handler."""
        method = bound.method
        kind = method.kind
        handler = bound.handler
        start = handler
        if interceptors:
            if kind.receives_stream:
                start = _swapped(around_stream(interceptors, _swapped(handler)))
            else:
                start = _swapped(around_reply(interceptors, _swapped(handler)))
        return cls(
            path=method.path,
            kind=kind,
            is_unary=kind is MethodKind.UNARY,
            sends_stream=kind.sends_stream,
            receives_stream=kind.receives_stream,
            method=method,
            start=start,
            wants_call=bound.takes_call or bool(interceptors),
            decode=method.request.decode,
            encode=method.response.encode,
        )


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the function with its arguments in the other order.

    Interceptors get the `Call` first, and handlers the request.
    """
    return lambda first, second: function(second, first)


class Methods(Protocol):
    """The methods that are served on a connection."""

    @property
    def unary(self) -> Mapping[bytes, ServedMethod]:
        """Unary methods whatever the flags of a request, by the first bytes of its body.

        They are those of its service and its name. It need not have all methods.
        """

    def has_service(self, service: str) -> bool:
        """Whether there is a service of this name."""

    def find(self, service: str, method: str, flags: int) -> ServedMethod | None:
        """Return a method; the flags of the request help if one name has several kinds."""


class ServiceMethods:
    """The methods of some services."""

    def __init__(
        self, services: Mapping[str, Service], interceptors: Sequence[ServerInterceptor]
    ) -> None:
        self._services = {
            name: {key: ServedMethod.of(each, interceptors) for key, each in one.methods.items()}
            for name, one in services.items()
        }
        self.unary: Mapping[bytes, ServedMethod] = {
            served.method.head: served
            for methods in self._services.values()
            for served in methods.values()
            if served.is_unary
        }

    def has_service(self, service: str) -> bool:
        """Whether there is a service of this name."""
        return service in self._services

    def find(self, service: str, method: str, flags: int) -> ServedMethod | None:
        """Return the method, or ``None``."""
        methods = self._services.get(service)
        return None if methods is None else methods.get(method)
