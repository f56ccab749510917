"""A set of methods with their handlers: `Service`, `ServiceBase`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeVar, overload

import attrs

from ...overrides import check_overrides
from ..methods import Method
from .signature import HandlerSignature, name_of, read_handler, takes_call

__all__ = [
    "BoundMethod",
    "Handler",
    "Service",
    "ServiceBase",
    "as_services",
]

F = TypeVar("F", bound=Callable[..., Any])

Handler = Callable[[Any, Any], Any]
"""Called with the request (or the stream of requests) and the `Call`, or ``None`` in its place."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@attrs.frozen(eq=False)
class BoundMethod:
    """A method and its handler.

    Attributes:
        method: The method.
        handler: Called with the request and the facts.
        takes_call: Whether the handler looks at the facts; else it gets ``None``, which saves the
            making of a `Call`.
        name: The name of the application's function, with its module.
    """

    method: Method[Any, Any]
    handler: Handler
    takes_call: bool
    name: str


class Service:
    """A set of methods under one name.

    Handlers are registered with `method`, or with `add` if there are no annotations.

    Args:
        name: The full name, e.g. ``package.Service``.

    Attributes:
        name: The full name.
        methods: The methods, by name.
    """

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a service, e.g. package.Service")
        self.name = name
        self.methods: dict[str, BoundMethod] = {}

    @overload
    def method(self, name: F) -> F: ...

    @overload
    def method(self, name: str | None = None) -> Callable[[F], F]: ...

    def method(self, name: F | str | None = None) -> F | Callable[[F], F]:
        """Register an async function or an async generator as the handler of a method.

        The kind of the method and the types of its messages come from the annotations. The
        request is ``A``, or ``ReceiveChannel[A]`` for a stream of them; the result is ``B``, or
        ``AsyncIterator[B]`` for a stream. A parameter with the annotation `Call` receives the facts
        about the call.

        Args:
            name: The name of the method; by default that of the function.

        Raises:
            TypeError: The annotations do not fit a method.
            ValueError: The method has a handler already.
        """
        if name is not None and not isinstance(name, str):
            return self._register(name, name.__name__)

        def register(function: F) -> F:
            return self._register(function, name or function.__name__)

        return register

    def _register(self, function: F, name: str) -> F:
        signature = read_handler(function)
        method = Method(self.name, name, signature.kind, signature.request, signature.response)
        handler = _called(function, signature)
        self._insert(BoundMethod(method, handler, signature.call is not None, name_of(function)))
        return function

    def add(self, method: Method[Any, Any], function: Callable[..., Any]) -> None:
        """Register the handler of a method that is described already.

        Args:
            method: The method; its service must be this one.
            function: Called with the request, or the stream of requests; and with the `Call`, if
                it takes a second argument.

        Raises:
            TypeError: The function does not fit the method.
            ValueError: The method has a handler already, or belongs to another service.
        """
        if not isinstance(method, Method):
            raise TypeError(f"add needs a Method, not {type(method).__name__}")
        if method.service != self.name:
            raise ValueError(f"{method.path} does not belong to the service {self.name}")
        _check_answers(method, function)
        wants = takes_call(function)
        handler: Handler = function if wants else lambda request, _call: function(request)
        self._insert(BoundMethod(method, handler, wants, name_of(function)))

    def _insert(self, bound: BoundMethod) -> None:
        name = bound.method.name
        if "." in name or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a method")
        if name in self.methods:
            raise ValueError(f"{bound.method.path} has a handler already")
        self.methods[name] = bound


def _check_answers(method: Method[Any, Any], function: Callable[..., Any]) -> None:
    """Raise a `TypeError` if a function that yields has a method with one answer."""
    if inspect.isasyncgenfunction(function) and not method.kind.receives_stream:
        raise TypeError(
            f"{name_of(function)} yields, but {method.path} has one answer: return it in place of "
            "yield"
        )


def _called(function: Callable[..., Any], signature: HandlerSignature) -> Handler:
    """Return a handler that calls a function with the parameters it takes."""
    message, call = signature.message, signature.call
    if signature.positional and message is not None:
        return (lambda request, _call: function(request)) if call is None else function
    if message is None:
        if call is None:
            return lambda _request, _call: function()
        return lambda _request, facts: function(**{call: facts})
    if call is None:
        return lambda request, _call: function(**{message: request})
    return lambda request, facts: function(**{message: request, call: facts})


class ServiceBase:
    """The base of generated classes: subclass one of these, and override its methods.

    A method that is not overridden answers UNIMPLEMENTED. An object of the subclass can be served
    like a `Service`; with several generated bases it is as many services.
    """

    __ttrpc_service__: ClassVar[str] = ""
    __ttrpc_methods__: ClassVar[Mapping[str, tuple[str, Method[Any, Any]]]] = {}


def as_services(given: object) -> dict[str, Service]:
    """Return the services of what was given to ``serve``, by name.

    Args:
        given: A `Service`, an object of a `ServiceBase`, or some of them.

    Raises:
        TypeError: It is something else.
        ValueError: Two services have the same name, or there is none.
    """
    each: Iterable[object]
    if isinstance(given, Service | ServiceBase):
        each = (given,)
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        each = given
    else:
        each = (given,)
    services: dict[str, Service] = {}
    for one in each:
        if isinstance(one, type):
            name = one.__name__
            raise TypeError(f"serve needs an object, not the class {name}: write {name}(...)")
        for service in _of_bases(one) if isinstance(one, ServiceBase) else [one]:
            if not isinstance(service, Service):
                raise TypeError(
                    "serve needs a Service, an object of a generated base class, a Router, or a "
                    f"list of services, not {type(one).__name__}"
                )
            if service.name in services:
                raise ValueError(f"there are two services with the name {service.name}")
            services[service.name] = service
    if not services:
        raise ValueError("serve needs a service at least")
    return services


def _of_bases(one: ServiceBase) -> list[Service]:
    """Return the services of all generated classes that an object's class has as bases."""
    cls = type(one)
    generated = [
        each
        for each in cls.__mro__
        if issubclass(each, ServiceBase) and "__ttrpc_service__" in vars(each)
    ][:-1]  # The last one is ServiceBase itself.
    services = []
    serves: dict[str, Method[Any, Any]] = {}
    hooks = {attribute for base in generated for attribute, _ in base.__ttrpc_methods__.values()}
    check_overrides(one, hooks, *generated)
    for base in generated:
        service = Service(base.__ttrpc_service__)
        for attribute, method in base.__ttrpc_methods__.values():
            if attribute in serves:
                raise TypeError(
                    f"{cls.__name__}.{attribute} would serve {serves[attribute].path} and"
                    f" {method.path}: serve two objects, one for each service"
                )
            serves[attribute] = method
            service.add(method, getattr(one, attribute))
        services.append(service)
    return services
