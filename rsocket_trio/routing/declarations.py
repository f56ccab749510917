"""Handlers that both ends share: `request_response` and its siblings mark, `declared_in` reads.

A mark says the interaction and the route of a function or a method. `Router.add` serves what is
marked, and `Caller.of` and `Caller.call` send requests to it, so the two ends cannot differ.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import update_wrapper
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

import attrs

from ..codecs.annotations import annotation_name
from ..codecs.mismatch import kind_of
from ..errors import FIRST_CUSTOM_CODE, LAST_CUSTOM_CODE, CustomError
from ..field_checks import FLAG, argument
from ..protocol.interaction import Interaction
from ..reactive_streams.interfaces import Publisher
from .parameters import ARGUMENTS, EMPTY, Parameter, Source, name_of
from .signature import Signature, check_taken, read_signature
from .templates import Template, check_prefix

if TYPE_CHECKING:
    from .caller import ItemStream

__all__ = [
    "Declared",
    "DeclaredStream",
    "Errors",
    "MarkStream",
    "declaration",
    "declared_in",
    "fire_and_forget",
    "implemented",
    "request_channel",
    "request_response",
    "request_stream",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Coroutine[object, Never, object]])

_MARK: Final = "__rsocket_trio_mark__"
_PREFIX: Final = "__rsocket_trio_prefix__"
_ERRORS: Final = "__rsocket_trio_errors__"
_NOBODY: Final = object()
"""What a method is bound to that is only read."""


Errors: TypeAlias = Mapping[int, type[CustomError]]
"""Classes of errors, by their codes."""


@attrs.frozen
class _Mark:
    interaction: Interaction
    route: str | None
    idempotent: bool = False


class DeclaredStream(Generic[P, T_co]):
    """A function that is marked as a stream or a channel.

    Type checkers see what the caller gets: the method of ``caller.of(Chat)`` returns a context
    manager for an `ItemStream`. Called itself, with the object in front if it is a method, it
    returns what the function returns: ``Chat.messages(chat, "lobby")``.
    """

    def __init__(self, function: Callable[P, object]) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterable[T_co]:
        """Call the function, as a test of it does."""
        return cast("AsyncIterable[T_co]", self.function(*args, **kwargs))

    @overload
    def __get__(self, instance: None, owner: type) -> DeclaredStream[P, T_co]: ...
    @overload
    def __get__(
        self: DeclaredStream[Concatenate[S, Q], T_co], instance: S, owner: type
    ) -> Callable[Q, AbstractAsyncContextManager[ItemStream[T_co]]]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """Return itself for a class. The object of a class has no stream without a caller."""
        return self if instance is None else self._refuse

    def _refuse(self, *_args: object, **_options: object) -> Any:
        name = self.function.__qualname__
        raise TypeError(
            f"{name} is a stream, which `caller.of({name.rpartition('.')[0]})` opens; to call the "
            f"function itself, write {name}(the object, ...)"
        )


class MarkStream(Protocol):
    """What `request_stream` and `request_channel` return: the decorator."""

    @overload
    def __call__(
        self,
        function: Callable[P, Coroutine[Any, Any, AsyncIterable[T] | Publisher[T]]],
        /,
    ) -> DeclaredStream[P, T]: ...
    @overload
    def __call__(
        self, function: Callable[P, AsyncIterable[T] | Publisher[T]], /
    ) -> DeclaredStream[P, T]: ...


def request_response(route: str | None = None, *, idempotent: bool = False) -> Callable[[F], F]:
    """Mark an async function, or a method, that returns one result.

    It stays as it is. `Router.add` serves it, and `Caller` calls it.

    Args:
        route: Its route, as for `Router.request_response`; by default its name. In a class, the
            prefix of the class comes before it.
        idempotent: A request may be handled twice, so a client with ``reconnect=`` may repeat it:
            see `Requester.request_response`.

    Raises:
        TypeError: It is not an async function; or the route is no text.
        ValueError: It cannot be a route.
    """
    return _marking(Interaction.REQUEST_RESPONSE, route, idempotent=idempotent)


def fire_and_forget(route: str | None = None) -> Callable[[F], F]:
    """Mark an async function, or a method, whose result or failure is not sent.

    Args:
        route: As for `request_response`.

    Raises:
        TypeError: As for `request_response`.
        ValueError: As for `request_response`.
    """
    return _marking(Interaction.FIRE_AND_FORGET, route)


def request_stream(route: str | None = None, *, idempotent: bool = False) -> MarkStream:
    """Mark an async generator, or an async function that returns an async iterable.

    The result is a `DeclaredStream`. In a protocol it may be a ``def``, as it has no ``yield``.

    Args:
        route: As for `request_response`.
        idempotent: As for `request_response`, before the first item.

    Raises:
        TypeError: As for `request_response`.
        ValueError: As for `request_response`.
    """
    return _marking_stream(Interaction.REQUEST_STREAM, route, idempotent=idempotent)


def request_channel(route: str | None = None) -> MarkStream:
    """Mark like `request_stream`; a parameter ``AsyncIterable[T]`` receives the caller's items.

    Args:
        route: As for `request_response`.

    Raises:
        TypeError: As for `request_response`.
        ValueError: As for `request_response`.
    """
    return _marking_stream(Interaction.REQUEST_CHANNEL, route)


def _marking(
    interaction: Interaction, route: str | None, *, idempotent: bool = False
) -> Callable[[F], F]:
    mark = _mark(interaction, route, idempotent=idempotent)

    def decorate(function: F) -> F:
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"{name_of(function)} is no async function: write `async def`")
        setattr(function, _MARK, mark)
        return function

    return decorate


def _marking_stream(
    interaction: Interaction, route: str | None, *, idempotent: bool = False
) -> MarkStream:
    mark = _mark(interaction, route, idempotent=idempotent)

    def decorate(function: Callable[..., Any]) -> DeclaredStream[..., Any]:
        if not inspect.isfunction(function):
            raise TypeError(f"{kind_of(function)} is no function, so it cannot be marked")
        stream: DeclaredStream[..., Any] = DeclaredStream(function)
        setattr(stream, _MARK, mark)
        return stream

    marking: Any = decorate  # the overloads say more than its annotations can
    return cast(MarkStream, marking)


def _mark(interaction: Interaction, route: object, *, idempotent: bool) -> _Mark:
    if route is not None:
        if not isinstance(route, str):
            raise TypeError(
                f"write @{interaction.value}() or @{interaction.value}('route'), not {route!r}"
            )
        Template.parse(route)
    argument("idempotent", idempotent, FLAG)
    return _Mark(interaction, route, idempotent)


def declaration(*, prefix: str = "", errors: Iterable[type[CustomError]] = ()) -> Callable[[C], C]:
    """Say what the marked methods of a class share: ``@declaration(prefix="chat.")``.

    Args:
        prefix: Put before the routes of its methods, as by `Router`. Its variables are taken by
            the parameters of these names, in every method.
        errors: The classes of errors that its methods answer with, each with a ``default_code`` of
            its own. Callers get these classes back: an error with the code of one is made by
            calling it as a `StreamError` is called. Other errors are what they are without this.

    Raises:
        TypeError: The prefix is no text; or a class of errors is no subclass of `CustomError`.
        ValueError: The prefix cannot begin a route; or a code is none of an application, or not of
            one class.
    """
    check_prefix(prefix)
    kinds = _by_code(errors)

    def decorate(cls: C) -> C:
        setattr(cls, _PREFIX, prefix)
        setattr(cls, _ERRORS, kinds)
        return cls

    return decorate


def _by_code(errors: Iterable[object]) -> Errors:
    kinds: dict[int, type[CustomError]] = {}
    for kind in errors:
        if not isinstance(kind, type) or not issubclass(kind, CustomError):
            name = getattr(kind, "__name__", kind_of(kind))
            raise TypeError(f"errors= takes subclasses of CustomError, not {name}")
        code = kind.default_code
        if not FIRST_CUSTOM_CODE <= code <= LAST_CUSTOM_CODE:
            raise ValueError(f"{kind.__name__}.default_code must be 0x301 or more, not {code:#x}")
        other = kinds.setdefault(code, kind)
        if other is not kind:
            raise ValueError(f"{other.__name__} and {kind.__name__} have one code, {code:#x}")
    return kinds


@attrs.frozen
class Declared:
    """A marked function, or a marked method of a class.

    Attributes:
        name: Its name.
        interaction: Its interaction.
        route: Its route, with the prefix of its class.
        function: The function; a method is not bound.
        idempotent: Whether a request may be handled twice.
        cls: The class that declares the method; ``None`` for a function.
        errors: The classes of errors that it answers with, by their codes.
    """

    name: str
    interaction: Interaction
    route: str
    function: Callable[..., Any]
    idempotent: bool
    cls: type | None = None
    errors: Errors = attrs.field(factory=dict, eq=False)

    def signature(self, prefix: str = "") -> Signature:
        """Read what callers give and get, under a prefix.

        Raises:
            TypeError: It cannot be a handler; the text says what to change.
            ValueError: Prefix and route are no route.
        """
        function = self.function if self.cls is None else MethodType(self.function, _NOBODY)
        template = Template.parse(prefix + self.route)
        signature = read_signature(function, self.interaction, template=template, is_called=False)
        check_taken(signature, template.names)
        return signature


def declared_in(shared: object) -> dict[str, Declared]:
    """Return what is marked: the methods of a class by their names, or one function.

    A method that a subclass defines again stays what the base class has declared.

    Raises:
        TypeError: Nothing is marked; or a mark is where it has no effect.
    """
    if not isinstance(shared, type):
        mark = _mark_of(shared)
        if mark is None:
            raise TypeError(f"{_shown(shared)} is not marked: put @request_response() before it")
        function: Any = _function_of(shared)
        name = function.__name__
        route = name if mark.route is None else mark.route
        return {name: Declared(name, mark.interaction, route, function, mark.idempotent)}
    prefix = getattr(shared, _PREFIX, "")
    errors = getattr(shared, _ERRORS, {})
    found: dict[str, Declared] = {}
    for cls in reversed(shared.__mro__):
        for name, member in vars(cls).items():
            mark = _mark_of(member)
            if mark is None:
                continue
            where = f"{cls.__qualname__}.{name}"
            if isinstance(member, staticmethod | classmethod):
                raise TypeError(f"{where} is marked, but it is no method of an object")
            known = found.get(name)
            if known is None:
                route = prefix + (name if mark.route is None else mark.route)
                function = _function_of(member)
                found[name] = Declared(
                    name, mark.interaction, route, function, mark.idempotent, cls, errors
                )
            elif mark.interaction is not known.interaction or (
                mark.route is not None and prefix + mark.route != known.route
            ):
                base = known.cls
                raise TypeError(
                    f"{where} is marked otherwise than in {base.__qualname__ if base else ''}: "
                    f"write @{known.interaction.value}()"
                )
    if not found:
        raise TypeError(f"no method of {shared.__qualname__} is marked, e.g. by request_response")
    return found


def _mark_of(member: Any) -> _Mark | None:
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    mark = getattr(member, _MARK, None)
    return mark if isinstance(mark, _Mark) else None


def _function_of(member: Any) -> Any:
    return member.function if isinstance(member, DeclaredStream) else member


def _shown(shared: object) -> str:
    return name_of(shared) if callable(shared) else kind_of(shared)


def implemented(served: object, as_: type | None) -> Iterator[tuple[Declared, Callable[..., Any]]]:
    """Yield what is declared, with the functions of an object that do it.

    Args:
        served: The object; or one marked function.
        as_: The class that declares; by default that of the object.

    Raises:
        TypeError: A method is missing, or does not fit its declaration.
    """
    if isinstance(served, type):
        raise TypeError(f"add takes an object, and {served.__qualname__} is a class")
    if as_ is None and _mark_of(served) is not None:
        for each in declared_in(served).values():
            yield each, each.function
        return
    if as_ is not None and not isinstance(as_, type):
        raise TypeError(f"as_= takes a class, not {kind_of(as_)}")
    for each in declared_in(type(served) if as_ is None else as_).values():
        function = _method(served, each)
        if getattr(function, "__func__", None) is not each.function:
            template = Template.parse(each.route)
            given = read_signature(function, each.interaction, template=template)
            _check_fits(given, each)
        yield each, function


def _method(served: object, declared: Declared) -> Callable[..., Any]:
    """Return the method of an object that does what is declared.

    Raises:
        TypeError: There is none.
    """
    cls, name = type(served), declared.name
    owner = next((each for each in cls.__mro__ if name in vars(each)), None)
    if owner is None:
        raise TypeError(f"{cls.__qualname__} has no method {name!r}, which is declared")
    if getattr(owner, "_is_protocol", False):
        raise TypeError(f"{cls.__qualname__}.{name} is declared, and has to be written")
    member = vars(owner)[name]
    if isinstance(member, DeclaredStream):
        return MethodType(member.function, served)
    method: Callable[..., Any] = getattr(served, name)
    return method


def _check_fits(given: Signature, declared: Declared) -> None:
    """Refuse a method that takes or returns something else than is declared.

    Raises:
        TypeError: It does.
    """
    wanted = declared.signature()
    taken = {each.name: each for each in given.parameters if each.source in ARGUMENTS}
    asked = {each.name: each for each in wanted.parameters if each.source in ARGUMENTS}
    fault: str | None = None
    for name, parameter in asked.items():
        fault = fault or _difference(taken.get(name), parameter)
    for name, parameter in taken.items():
        if name not in asked and parameter.default is EMPTY:
            fault = fault or f"callers do not give {name!r}"
    if Any not in (given.result, wanted.result) and given.result != wanted.result:
        names = annotation_name(wanted.result), annotation_name(given.result)
        fault = fault or f"it returns {names[1]}, and not {names[0]}"
    if fault is not None:
        raise TypeError(f"{given.name} does not fit {wanted.name}: {fault}")


def _difference(taken: Parameter | None, asked: Parameter) -> str | None:
    if taken is None:
        return f"it has no parameter {asked.name!r}"
    if taken.source is not asked.source or (
        Any not in (taken.annotation, asked.annotation) and taken.annotation != asked.annotation
    ):
        return (
            f"its parameter {asked.name!r} is {annotation_name(taken.annotation)}, and not "
            f"{annotation_name(asked.annotation)}"
        )
    if asked.source is Source.DATA and asked.default is not EMPTY and taken.default is EMPTY:
        return f"its parameter {asked.name!r} needs a default, as callers may leave it out"
    return None
