"""What a handler takes and returns, read once from its annotations: `read_signature`.

Mistakes in a handler are found here, when it is registered, and not when the first request comes.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable
from enum import Enum
from functools import partial
from typing import Any, Final, Union

import attrs
import trio

from ..codecs import Codecs
from ..codecs.annotations import ANY, NONE, annotation_name, members_of, with_names
from ..codecs.mismatch import Unconvertible, kind_of
from ..interactions.payload_body import PayloadBody
from ..metadata.builder import Metadata
from ..metadata.composite import CompositeMetadata
from ..metadata.tracing_zipkin import ZipkinTrace
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..requester import Requester
from ..responder import Setup
from ..transports.base import TransportInfo
from .converted_streams import READY
from .principal import Principal, marked, marks_a_part, plain

__all__ = [
    "Parameter",
    "Route",
    "Signature",
    "Source",
    "check_conversions",
    "name_of",
    "read_signature",
]

EMPTY: Final = inspect.Parameter.empty
_CHANNELS: Final = (trio.abc.ReceiveChannel, AsyncIterable, AsyncIterator)


_UNHEARD: Final = (Interaction.FIRE_AND_FORGET, Interaction.METADATA_PUSH)
"""The results of these are not sent."""


@attrs.frozen
class Route:
    """The route of a request; a parameter of a handler with this annotation receives it.

    Attributes:
        name: The first routing tag, which chose the handler; empty for a request without one.
        tags: The other tags, in order.
    """

    name: str = ""
    tags: tuple[str, ...] = ()


class Source(Enum):
    """Where the value of a parameter comes from."""

    DATA = "data"
    CHANNEL = "channel"
    PAYLOAD = "payload"
    BODY = "body"
    COMPOSITE = "composite metadata"
    METADATA = "metadata"
    TRACE = "trace"
    PRINCIPAL = "principal"
    REQUESTER = "requester"
    SETUP = "setup"
    TRANSPORT = "transport"
    ROUTE = "route"


_INJECTED: Final[dict[object, Source]] = {
    Payload: Source.PAYLOAD,
    PayloadBody: Source.BODY,
    CompositeMetadata: Source.COMPOSITE,
    Metadata: Source.METADATA,
    ZipkinTrace: Source.TRACE,
    ZipkinTrace | None: Source.TRACE,
    Requester: Source.REQUESTER,
    Setup: Source.SETUP,
    TransportInfo: Source.TRANSPORT,
    Route: Source.ROUTE,
}


@attrs.frozen
class Parameter:
    """One parameter of a handler.

    Attributes:
        name: Its name.
        source: Where its value comes from.
        annotation: The type that data, or the items of a channel, are converted to.
        default: The value for empty data; `EMPTY` if there is none.
        by_keyword: It is keyword-only.
    """

    name: str
    source: Source
    annotation: Any
    default: Any = EMPTY
    by_keyword: bool = False


@attrs.frozen
class Signature:
    """What is known about a handler.

    Attributes:
        function: The handler.
        interaction: The interaction that it answers.
        parameters: Its parameters, in order.
        result: The annotation of its result; of an item, for streams.
        is_generator: It is an async generator function.
    """

    function: Callable[..., Any]
    interaction: Interaction
    parameters: tuple[Parameter, ...]
    result: Any
    is_generator: bool

    @property
    def takes_body(self) -> bool:
        """Whether the handler reads the data while they arrive."""
        return any(parameter.source is Source.BODY for parameter in self.parameters)

    @property
    def is_answered(self) -> bool:
        """Whether the requester gets its results."""
        return self.interaction not in _UNHEARD

    @property
    def written(self) -> Any:
        """The annotation of the results that are converted; ``None`` if all are payloads."""
        members = _members(self.result)
        converted = [member for member in members if member not in READY]
        if len(converted) == len(members):
            return self.result
        return Union[tuple(converted)] if converted else None  # noqa: UP007 - of a tuple

    @property
    def is_converted(self) -> bool:
        """Whether all its results are converted: there are no payloads, bytes or None."""
        other = (*READY, *ANY, None, NONE, bytes)
        return not any(member in other for member in _members(self.result))

    @property
    def name(self) -> str:
        """The name of the handler with its module, for people."""
        return name_of(self.function)


def read_signature(function: Callable[..., Any], interaction: Interaction) -> Signature:
    """Read what a handler takes and returns.

    Raises:
        TypeError: It cannot be a handler of that interaction; the text says what to change.
    """
    inner, bound = _unpacked(function)
    _check_kind(inner, interaction)
    hints = _hints(inner)
    parameters = tuple(
        [
            _parameter(function, interaction, parameter, hints)
            for parameter in _parameters(function, interaction)
            if parameter.name not in bound
        ]
    )
    for source in (Source.DATA, Source.CHANNEL):
        names = [parameter.name for parameter in parameters if parameter.source is source]
        if len(names) > 1:
            raise _wrong(
                function,
                interaction,
                f"it may have one {source.value} parameter, but it has {' and '.join(names)}",
            )
    names = [p.name for p in parameters if p.source in (Source.DATA, Source.PAYLOAD)]
    if names and any(parameter.source is Source.BODY for parameter in parameters):
        reason = f"PayloadBody reads the data while they arrive, so {names[0]!r} cannot get them"
        raise _wrong(function, interaction, reason)
    if interaction is Interaction.REQUEST_CHANNEL and not any(
        parameter.source is Source.CHANNEL for parameter in parameters
    ):
        raise _wrong(
            function,
            interaction,
            "a parameter annotated ReceiveChannel[T] or AsyncIterable[T] is missing: it receives "
            "the items of the requester",
        )
    return Signature(
        function=function,
        interaction=interaction,
        parameters=parameters,
        result=_result(function, interaction, hints),
        is_generator=inspect.isasyncgenfunction(inner),
    )


def _parameters(function: Callable[..., Any], interaction: Interaction) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError as error:  # of a partial
        raise _wrong(function, interaction, "it cannot take the arguments of partial()") from error


def name_of(function: object) -> str:
    """Return the name of a function with its module, for people."""
    inner, _ = _unpacked(function)
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"


def _unpacked(function: Any) -> tuple[Any, frozenset[str]]:
    """Return the function with the annotations, and the names of parameters that are bound.

    That is the function of a `functools.partial`, and the ``__call__`` of an object.
    """
    bound: frozenset[str] = frozenset()
    while isinstance(function, partial):
        bound |= frozenset(function.keywords)
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = getattr(function, "__call__", function)  # noqa: B004 - it is what is called
    return function, bound


def _wrong(function: object, interaction: Interaction, reason: str) -> TypeError:
    return TypeError(f"{name_of(function)} cannot be a {interaction.value} handler: {reason}")


def _check_kind(function: Callable[..., Any], interaction: Interaction) -> None:
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        reason = "it is neither a function, nor a method, nor an object that can be called"
        raise _wrong(function, interaction, reason)
    if inspect.iscoroutinefunction(function):
        return
    if not inspect.isasyncgenfunction(function):
        reason = "it is not async: write `async def`"
        if _is_async(inspect.unwrap(function)):
            reason = (
                "a decorator of it returns a function that is not async: write `async def` there"
            )
        raise _wrong(function, interaction, reason)
    if not interaction.is_stream:
        reason = "it yields, but its answer is not a stream: `return` the result"
        raise _wrong(function, interaction, reason)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{name_of(function)} is annotated with {error.name!r}, which cannot be resolved at "
            "run time: import it outside `if TYPE_CHECKING`, and define it at the top of a module"
        ) from error
    except Exception as error:  # an annotation as text may be any expression
        raise TypeError(
            f"an annotation of {name_of(function)} cannot be evaluated: {kind_of(error)}: {error}"
        ) from error
    names = inspect.unwrap(function).__globals__
    return {name: with_names(hint, names) for name, hint in hints.items()}


def _parameter(
    function: object,
    interaction: Interaction,
    parameter: inspect.Parameter,
    hints: dict[str, Any],
) -> Parameter:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise _wrong(
            function,
            interaction,
            f"its parameter {name!r} takes any number of arguments: name each of them",
        )
    if name not in hints:
        reason = f"its parameter {name!r} has no annotation: annotate what it receives"
        raise _wrong(function, interaction, reason)
    annotation = plain(hints[name])
    if not isinstance(annotation, Hashable):
        reason = f"its parameter {name!r} is annotated with a {kind_of(annotation)}, not a type"
        raise _wrong(function, interaction, reason)
    if annotation is Principal:
        reason = f"its parameter {name!r}: write `Annotated[T, Principal]`, T being the type"
        raise _wrong(function, interaction, f"{reason} of what authenticate= returns")
    source = Source.DATA
    principal = marked(hints[name])
    if principal is not None:
        source, annotation = Source.PRINCIPAL, principal
    elif marks_a_part(annotation):
        reason = f"only a part of its parameter {name!r} is marked as Principal, and the peer would"
        reason += " fill it: write `Annotated[T, Principal]`, or `Annotated[T | None, Principal]`"
        raise _wrong(function, interaction, reason)
    elif typing.get_origin(annotation) in _CHANNELS or annotation in _CHANNELS:
        source = Source.CHANNEL
        annotation = next(iter(typing.get_args(annotation)), Any)
    elif annotation in _INJECTED:
        source = _INJECTED[annotation]
    if source is Source.CHANNEL and interaction is not Interaction.REQUEST_CHANNEL:
        raise _wrong(
            function,
            interaction,
            f"its parameter {name!r} is a channel, which only request_channel has",
        )
    if source is Source.BODY and interaction is Interaction.REQUEST_CHANNEL:
        raise _wrong(
            function,
            interaction,
            f"its parameter {name!r} is a PayloadBody, and a channel has many payloads",
        )
    if interaction is Interaction.METADATA_PUSH and (
        source in (Source.PAYLOAD, Source.BODY, Source.ROUTE)
        or (source is Source.DATA and annotation is not bytes)
    ):
        reason = f"there are no data for {name!r}: annotate it bytes or CompositeMetadata"
        raise _wrong(function, interaction, reason)
    return Parameter(
        name, source, annotation, parameter.default, parameter.kind is parameter.KEYWORD_ONLY
    )


def _result(function: object, interaction: Interaction, hints: dict[str, Any]) -> Any:
    if interaction in _UNHEARD:
        return Any
    if "return" not in hints:
        reason = "its result needs an annotation to be converted: write `-> T`, or `-> Any`"
        if interaction.is_stream:
            reason = "its result has no annotation: write `-> AsyncIterator[T]`"
        raise _wrong(function, interaction, reason)
    annotation = plain(hints["return"])
    if not interaction.is_stream or annotation is Any:
        return annotation
    origin = typing.get_origin(annotation) or annotation
    if not (isinstance(origin, type) and issubclass(origin, AsyncIterable)):
        reason = "its answer is a stream: annotate its result AsyncIterator[T]"
        raise _wrong(function, interaction, f"{reason} (or AsyncIterable[T], ReceiveChannel[T])")
    return next(iter(typing.get_args(annotation)), Any)


def check_conversions(signature: Signature, codecs: Codecs) -> None:
    """Find out whether a handler's data and results can be converted.

    Raises:
        TypeError: They cannot be converted in any MIME type.
    """
    function, interaction = signature.function, signature.interaction
    for parameter in signature.parameters:
        annotation = parameter.annotation
        if parameter.source not in (Source.DATA, Source.CHANNEL) or annotation is Payload:
            continue
        for member in _members(annotation):
            if member in _INJECTED:
                reason = f"write `{annotation_name(member)}`, which every request has"
                reason = (
                    f"its parameter {parameter.name!r} is {annotation_name(annotation)}: {reason}"
                )
                raise _wrong(function, interaction, reason)
        try:
            codecs.check_decode(annotation)
        except TypeError as error:
            reason = f"its parameter {parameter.name!r} cannot be read"
            raise _wrong(
                function, interaction, _explained(reason, parameter.name, error)
            ) from error
    if interaction in _UNHEARD:
        return
    try:
        for member in _members(signature.result):
            if member not in (*READY, None, NONE):
                codecs.check_encode(member)
    except TypeError as error:
        reason = "its result cannot be written"
        raise _wrong(function, interaction, _explained(reason, "result", error)) from error


def _members(annotation: Any) -> tuple[Any, ...]:
    try:
        return members_of(annotation)
    except Unconvertible:
        return (annotation,)


def _explained(reason: str, root: str, error: TypeError) -> str:
    return f"{reason}: {error.at(root) if isinstance(error, Unconvertible) else error}"
