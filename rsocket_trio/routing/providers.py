"""Where objects come from that handlers need: `Provider`, and the ones of a router: `Providers`.

A provider is read once, when it is registered. `rsocket_trio.routing.plans` finds out which of them
a handler needs, and `rsocket_trio.routing.supplies` calls them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from enum import Enum, IntEnum
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import attrs

from ..codecs.annotations import NONE, annotation_name
from ..codecs.mismatch import kind_of
from ..metadata.builder import Metadata
from ..requester import Requester
from ..responder import Setup
from ..sockets.peer import Peer
from ..stopping import Stopping
from ..transports.base import TransportInfo
from .call import Call
from .guards import Guard
from .marks import Principal, Provided, marked, plain
from .parameters import EMPTY, FACTS, Route, check_mark, name_of, unpacked
from .signature import hints_of

__all__ = [
    "SPANS",
    "Form",
    "Held",
    "Need",
    "Provider",
    "Providers",
    "Scope",
    "Source",
    "Span",
    "hook_needs",
    "read_block",
    "read_provider",
]

T = TypeVar("T")

Scope: TypeAlias = Literal["application", "connection", "request"]
"""How long an object is used: while the router is served, by one connection, or by one request."""

Held: TypeAlias = Literal["call", "start"]
"""How long a stream holds an object: to its end, or until its function has returned it."""

Source: TypeAlias = (
    T
    | Callable[..., T]
    | Callable[..., Awaitable[T]]
    | Callable[..., AsyncIterator[T]]
    | Callable[..., AbstractAsyncContextManager[T]]
)
"""An object, a function that returns it, or an async context manager function that gives it."""


class Form(Enum):
    """What a provider is."""

    VALUE = "an object"
    RESULT = "a function"
    AWAITED = "an async function"
    BLOCK = "an async context manager function"


class Span(IntEnum):
    """How long an object is used; the longest is the first."""

    APPLICATION = 0
    CONNECTION = 1
    CALL = 2
    START = 3


SPANS: Final[dict[str, Span]] = {
    "application": Span.APPLICATION,
    "connection": Span.CONNECTION,
    "request": Span.CALL,
}

_SPANS_OF_FACTS: Final[dict[object, Span]] = {
    Call: Span.CALL,
    Metadata: Span.CALL,
    Route: Span.CALL,
    Setup: Span.CONNECTION,
    Requester: Span.CONNECTION,
    TransportInfo: Span.CONNECTION,
    Stopping: Span.CONNECTION,
    Peer: Span.CONNECTION,
}


@attrs.frozen
class Need:
    """One parameter of a provider.

    Attributes:
        name: Its name.
        mark: `Provided` or `Principal`; ``None`` for a fact about the request or the connection.
        annotation: Its type.
        by_keyword: It is keyword-only.
    """

    name: str
    mark: type | None
    annotation: Any
    by_keyword: bool

    @property
    def span(self) -> Span:
        """How long a fact is true. A principal is one of the connection, and of each request."""
        return _SPANS_OF_FACTS.get(self.annotation, Span.CONNECTION)


@attrs.frozen(eq=False)
class Provider:
    """Where the objects of one type come from.

    Attributes:
        key: The type; `EMPTY` for a block that gives nothing.
        source: The object, or the function.
        form: What it is.
        scope: How long its object is used.
        held: How long a stream holds it; ``None`` if that was not said.
        needs: The parameters of the function.
        is_always: It is entered even if nothing needs it.
    """

    key: Any
    source: Any
    form: Form
    scope: Scope
    held: Held | None = None
    needs: tuple[Need, ...] = ()
    is_always: bool = False

    @property
    def name(self) -> str:
        """What texts call it."""
        if self.form is Form.VALUE:
            return f"the object of {annotation_name(self.key)}"
        return f"the provider {name_of(self.source)}"


@attrs.frozen(eq=False)
class Providers:
    """The providers of one router.

    Attributes:
        guard: The guard of the router.
        by_key: Its providers.
        overrides: What tests have put in their place, the last one of a key last.
        always: The blocks that are entered even if nothing needs them.
    """

    guard: Guard
    by_key: dict[Any, Provider] = attrs.field(factory=dict)
    overrides: dict[Any, list[Provider]] = attrs.field(factory=dict)
    always: list[Provider] = attrs.field(factory=list)

    def needs(self, key: object) -> bool:
        """Whether one of the providers needs objects of a type."""
        every = [*self.by_key.values(), *self.always]
        return any(n.mark is Provided and n.annotation == key for p in every for n in p.needs)

    def add(self, provider: Provider) -> None:
        """Add a provider.

        Raises:
            ValueError: There is one for this type.
        """
        there = self.by_key.get(provider.key)
        if there is not None:
            raise ValueError(
                f"{annotation_name(provider.key)} is provided by this router already: by "
                f"{there.name}"
            )
        if provider.key is not EMPTY:
            self.by_key[provider.key] = provider
        if provider.is_always:
            self.always.append(provider)


def read_provider(
    key: Any,
    source: Any,
    scope: Scope | None = None,
    held: Held | None = None,
    *,
    is_any: bool = False,
) -> Provider:
    """Read a provider.

    Args:
        key: The type of its objects.
        source: The object, or the function.
        scope: See `Router.provide`.
        held: See `Router.provide`.
        is_any: An object may be of any class.

    Raises:
        TypeError: It can never be used. The text says what to change.
        ValueError: There is no such scope, or no such time to hold it.
    """
    _check_key(key)
    if scope is not None and scope not in get_args(Scope):
        raise ValueError(f"scope= is one of {', '.join(map(repr, get_args(Scope)))}, not {scope!r}")
    if held is not None and held not in get_args(Held):
        raise ValueError(f"held= is 'call' or 'start', not {held!r}")
    form = _form_of(key, source)
    if form is Form.VALUE:
        if scope is not None or held is not None:
            raise TypeError(
                f"{annotation_name(key)}: an object needs neither scope= nor held=; only what a "
                "function makes has them"
            )
        expected = _runtime_class(key)
        if not is_any and expected is not None and not isinstance(source, expected):
            raise TypeError(
                f"{annotation_name(key)} is provided with {kind_of(source)}, which is neither one "
                "nor a function"
            )
        return Provider(key, source, form, "application")
    scope = "request" if scope is None else scope
    if held is not None and (form is not Form.BLOCK or scope != "request"):
        raise TypeError(
            f"the provider {name_of(source)}: held= is for async context manager functions with "
            "the scope 'request'"
        )
    return Provider(key, source, form, scope, held, _needs(source))


def read_block(function: Any, scope: Scope, what: str) -> Provider:
    """Read an async context manager function that is always entered.

    Args:
        function: The function. The annotation of what it yields is the type that it provides.
        scope: When it is entered.
        what: What texts call it.

    Raises:
        TypeError: It is no such function. The text says what to change.
    """
    if not callable(function):
        raise TypeError(f"{what} takes an async context manager function, not {kind_of(function)}")
    if _form_of(None, function) is not Form.BLOCK:
        raise TypeError(
            f"{name_of(function)} has no `yield`: {what} takes an async generator function that "
            "yields once, or a function with @asynccontextmanager"
        )
    inner, _ = unpacked(function)
    given = hints_of(inspect.unwrap(inner)).get("return", EMPTY)
    key: Any = EMPTY
    if given is not EMPTY:
        key = plain(next(iter(typing.get_args(plain(given))), EMPTY))
    if key in (None, NONE, Any, object):
        key = EMPTY
    return Provider(key, function, Form.BLOCK, scope, needs=_needs(function), is_always=True)


def _check_key(key: Any) -> None:
    """Refuse what cannot be the type of a provided object.

    Raises:
        TypeError: It is refused.
    """
    if not isinstance(key, Hashable) or isinstance(key, str) or plain(key) is not key:
        raise TypeError(f"a type is provided, such as a class, not {key!r}")
    if key in (None, NONE, Any, object, EMPTY):
        raise TypeError(f"{key!r} says nothing about an object: provide a class of your own")
    if inspect.isroutine(key):
        raise TypeError(
            f"provide(type, source): the type comes first, not the function {name_of(key)}"
        )


def _runtime_class(key: Any) -> type | None:
    """Return the class that objects of a type have, as far as Python can check it."""
    origin = typing.get_origin(key) or key
    if isinstance(origin, typing.NewType):
        return _runtime_class(origin.__supertype__)
    if not isinstance(origin, type):
        return None
    is_protocol = getattr(origin, "_is_protocol", False)
    return None if is_protocol else origin


def _form_of(key: Any, source: Any) -> Form:
    """Return what a source is.

    Raises:
        TypeError: It is a generator function that is not async.
    """
    expected = _runtime_class(key)
    if not callable(source) or (expected is not None and isinstance(source, expected)):
        return Form.VALUE
    inner, _ = unpacked(source)
    innermost = inspect.unwrap(inner)
    if inspect.isasyncgenfunction(innermost):
        return Form.BLOCK
    if inspect.isgeneratorfunction(innermost):
        raise TypeError(f"the provider {name_of(source)} is not async: write `async def`")
    if inspect.iscoroutinefunction(inner):
        return Form.AWAITED
    if not isinstance(inner, type):
        given = getattr(innermost, "__annotations__", {}).get("return")
        given = hints_of(innermost)["return"] if isinstance(given, str) else given
        given = typing.get_origin(plain(given)) or plain(given)
        if isinstance(given, type) and issubclass(given, AbstractAsyncContextManager):
            return Form.BLOCK
    return Form.RESULT


def _needs(function: Any) -> tuple[Need, ...]:
    """Read the parameters of a provider.

    Raises:
        TypeError: One of them cannot be filled.
    """
    inner, bound = unpacked(function)
    annotated = getattr(inner, "__init__") if isinstance(inner, type) else inner  # noqa: B009
    hints = hints_of(annotated) if inspect.isroutine(annotated) and _is_python(annotated) else {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a class written in C
        return ()
    needs: list[Need] = []
    for parameter in parameters:
        if parameter.name in bound or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            continue
        need = _need(function, parameter, hints.get(parameter.name, EMPTY))
        if need is not None:
            needs.append(need)
    return tuple(needs)


def hook_needs(function: Any, given: int) -> tuple[Need, ...]:
    """Read the parameters of a hook of a router that are marked as `Provided`.

    Args:
        function: The hook; ``None`` is none.
        given: How many arguments it is called with. Annotations of these are not looked at.

    Raises:
        TypeError: An annotation cannot be evaluated.
    """
    if function is None:
        return ()
    try:
        more = [*inspect.signature(function).parameters.values()][given:]
    except (TypeError, ValueError):  # of a class written in C
        return ()
    inner, _ = unpacked(function)
    hints = hints_of(inner) if more and inspect.isroutine(inner) and _is_python(inner) else {}
    needs = [(each.name, marked(hints.get(each.name, EMPTY), Provided)) for each in more]
    return tuple([Need(name, Provided, wanted, True) for name, wanted in needs if wanted])


def _is_python(function: Any) -> bool:
    return hasattr(inspect.unwrap(function), "__globals__")


def _need(function: Any, parameter: inspect.Parameter, annotation: Any) -> Need | None:
    """Return a parameter; ``None`` if its default is used.

    Raises:
        TypeError: It cannot be filled.
    """

    def refused(reason: str) -> TypeError:
        return TypeError(f"{name_of(function)} cannot be called: {reason}")

    name, by_keyword = parameter.name, parameter.kind is parameter.KEYWORD_ONLY
    if annotation is EMPTY:
        if parameter.default is not EMPTY:
            return None
        raise refused(f"its parameter {name!r} has no annotation: annotate what it receives")
    check_mark(refused, name, annotation)
    for mark in (Provided, Principal):
        wanted = marked(annotation, mark)
        if wanted is not None:
            return Need(name, mark, wanted, by_keyword)
    wanted = plain(annotation)
    if wanted in _SPANS_OF_FACTS or wanted in FACTS:
        return Need(name, None, wanted, by_keyword)
    if parameter.default is not EMPTY:
        return None
    known = ", ".join(annotation_name(each) for each in _SPANS_OF_FACTS)
    raise refused(
        f"its parameter {name!r} is {annotation_name(wanted)}: write "
        f"`Annotated[{annotation_name(wanted)}, Provided]` for what a router provides; besides, "
        f"there are {known} and `Annotated[T, Principal]`"
    )
