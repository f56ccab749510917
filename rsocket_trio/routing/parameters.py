"""The parameters of handlers, and where their values come from: `read_parameter`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from enum import Enum
from functools import partial
from typing import Any, Final

import attrs
import trio

from ..codecs.annotations import annotation_name
from ..codecs.mismatch import kind_of
from ..codecs.registry import allows_none
from ..interactions.payload_body import PayloadBody
from ..metadata.builder import Metadata
from ..metadata.composite import CompositeMetadata
from ..metadata.tracing_zipkin import ZipkinTrace
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..reactive_streams.interfaces import Publisher
from ..requester import Requester
from ..responder import Setup
from ..sockets.peer import Peer
from ..stopping import Stopping
from ..transports.base import TransportInfo
from .call import Call
from .kinds import Delivery, EventBatch, Kind
from .marks import MARKS, Principal, marked, marks_a_part, plain

__all__ = [
    "ARGUMENTS",
    "EMPTY",
    "FACTS",
    "INJECTED",
    "Parameter",
    "Route",
    "Source",
    "check_mark",
    "fact_of",
    "injected",
    "name_of",
    "of_variable",
    "read_parameter",
    "register_fact",
    "unpacked",
    "wrong",
]

EMPTY: Final = inspect.Parameter.empty
_CHANNELS: Final = (trio.abc.ReceiveChannel, AsyncIterable, AsyncIterator, Publisher)
_LISTS: Final = (list, Sequence, Collection, Iterable)
"""Annotations that a list of events fits."""


@attrs.frozen
class Route:
    """The route of a request; a parameter of a handler with this annotation receives it.

    Attributes:
        name: The first routing tag, which chose the handler; empty for a request without one.
        tags: The other tags, in order.
        template: The route as the handler is registered, such as ``"chat.{room}"``; ``None`` if
            there is no handler. Count and log by it: a peer can send any number of names.
        variables: The texts of the variables in it, as the peer sent them.
    """

    name: str = ""
    tags: tuple[str, ...] = ()
    template: str | None = attrs.field(default=None, eq=False)
    variables: Mapping[str, str] = attrs.field(factory=dict, eq=False)


class Source(Enum):
    """Where the value of a parameter comes from."""

    DATA = "data"
    VARIABLE = "variable"
    CHANNEL = "channel"
    PAYLOAD = "payload"
    BODY = "body"
    COMPOSITE = "composite metadata"
    METADATA = "metadata"
    TRACE = "trace"
    PRINCIPAL = "principal"
    PROVIDED = "provided object"
    REQUESTER = "requester"
    SETUP = "setup"
    TRANSPORT = "transport"
    ROUTE = "route"
    STOPPING = "stopping"
    PEER = "peer"
    CALL = "call"
    FACT = "fact"
    BATCH = "batch"
    EVENTS = "events"


ARGUMENTS: Final = (Source.DATA, Source.VARIABLE, Source.CHANNEL)
"""What the requester gives. All else is filled in where the handler is."""

INJECTED: Final[dict[object, Source]] = {
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
    Stopping: Source.STOPPING,
    Peer: Source.PEER,
    Call: Source.CALL,
}

FACTS: Final[dict[object, str]] = {}
"""Types whose objects a wire puts into `TransportInfo.extra`, and the keys there."""


def register_fact(annotation: type, key: str) -> None:
    """Give handlers what a wire knows about a connection, by a parameter of this type.

    Args:
        annotation: The type. With ``| None`` a handler works over other wires too.
        key: Where `TransportInfo.extra` has the object.
    """
    FACTS[annotation] = FACTS[annotation | None] = key


def fact_of(transport: TransportInfo, annotation: Any, taker: str, name: str) -> object:
    """Return what a wire knows about a connection, for a parameter.

    Raises:
        TypeError: This wire knows no such thing.
    """
    fact = transport.extra.get(FACTS[annotation])
    if fact is None and not allows_none(annotation):
        raise TypeError(
            f"{taker} takes a {annotation_name(annotation)} as {name!r}, and "
            f"{transport.scheme}:// connections have none"
        )
    return fact


class _Injected:
    """The type of `injected`."""

    def __repr__(self) -> str:
        return "injected"


injected: Final[Any] = _Injected()
"""The default of a parameter that the server fills, such as ``peer: Requester = injected``.

So type checkers do not ask callers for it. A call of the function itself has to give it."""


@attrs.frozen
class Parameter:
    """One parameter of a handler.

    Attributes:
        name: Its name.
        source: Where its value comes from.
        annotation: The type that data, the items of a channel, or each event are converted to.
        default: The value for empty data; `EMPTY` if there is none.
        by_keyword: It is keyword-only.
        published: The items of a channel are given as a publisher.
    """

    name: str
    source: Source
    annotation: Any
    default: Any = EMPTY
    by_keyword: bool = False
    published: bool = False


def name_of(function: object) -> str:
    """Return the name of a function with its module, for people."""
    inner, _ = unpacked(function)
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"


def unpacked(function: Any) -> tuple[Any, frozenset[str]]:
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


def wrong(function: object, interaction: Kind, reason: str) -> TypeError:
    """Return the error for a function that cannot be a handler."""
    article = "an" if interaction is Delivery.EVENTS else "a"
    kind = f"{article} {interaction.value} handler"
    return TypeError(f"{name_of(function)} cannot be {kind}: {reason}")


def read_parameter(
    function: object,
    interaction: Kind,
    parameter: inspect.Parameter,
    hints: dict[str, Any],
    variables: Collection[str] = (),
) -> Parameter:
    """Read one parameter of a handler.

    Args:
        function: The handler.
        interaction: What it answers.
        parameter: The parameter.
        hints: The annotations of the handler, resolved.
        variables: The names of the variables of its route.

    Raises:
        TypeError: A handler cannot have this parameter; the text says what to change.
    """
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise wrong(
            function,
            interaction,
            f"its parameter {name!r} takes any number of arguments: name each of them",
        )
    if name not in hints:
        reason = f"its parameter {name!r} has no annotation: annotate what it receives"
        raise wrong(function, interaction, reason)
    annotation = plain(hints[name])
    if not isinstance(annotation, Hashable):
        reason = f"its parameter {name!r} is annotated with a {kind_of(annotation)}, not a type"
        raise wrong(function, interaction, reason)
    check_mark(partial(wrong, function, interaction), name, hints[name])
    source = Source.DATA
    published = False
    principal, provided = (marked(hints[name], mark) for mark in MARKS)
    if principal is not None:
        source, annotation = Source.PRINCIPAL, principal
    elif provided is not None:
        source, annotation = Source.PROVIDED, provided
    elif interaction is Delivery.EVENTS:
        source, annotation = _of_events(function, name, annotation)
    elif typing.get_origin(annotation) in _CHANNELS or annotation in _CHANNELS:
        source = Source.CHANNEL
        published = (typing.get_origin(annotation) or annotation) is Publisher
        annotation = next(iter(typing.get_args(annotation)), Any)
    elif annotation in INJECTED:
        source = INJECTED[annotation]
    elif annotation in FACTS:
        source = Source.FACT
    if source is Source.CHANNEL and interaction is not Interaction.REQUEST_CHANNEL:
        raise wrong(
            function,
            interaction,
            f"its parameter {name!r} is a channel, which only request_channel has",
        )
    if source is Source.BODY and interaction is Interaction.REQUEST_CHANNEL:
        raise wrong(
            function,
            interaction,
            f"its parameter {name!r} is a PayloadBody, and a channel has many payloads",
        )
    if interaction is Interaction.METADATA_PUSH and (
        source in (Source.PAYLOAD, Source.BODY, Source.ROUTE)
        or (source is Source.DATA and annotation is not bytes)
    ):
        reason = f"there are no data for {name!r}: annotate it bytes or CompositeMetadata"
        raise wrong(function, interaction, reason)
    if parameter.default is injected and source in ARGUMENTS:
        reason = f"its parameter {name!r} is not filled by the server, so it cannot be injected"
        raise wrong(function, interaction, reason)
    by_keyword = parameter.kind is parameter.KEYWORD_ONLY
    read = Parameter(name, source, annotation, parameter.default, by_keyword, published)
    return of_variable(function, interaction, read) if name in variables else read


def check_mark(refused: Callable[[str], TypeError], name: str, annotation: Any) -> None:
    """Refuse a parameter of which only a part is marked, or that is annotated with the mark.

    Args:
        refused: Makes the error from the reason.
        name: The name of the parameter.
        annotation: Its annotation.

    Raises:
        TypeError: It is refused.
    """
    is_marked = any(marked(annotation, mark) is not None for mark in MARKS)
    for mark in MARKS:
        wanted = f"Annotated[T, {mark.__name__}]"
        if plain(annotation) is mark:
            what = "what authenticate= returns" if mark is Principal else "what is provided"
            raise refused(f"its parameter {name!r}: write `{wanted}`, T being the type of {what}")
        if not is_marked and marks_a_part(plain(annotation), mark):
            raise refused(
                f"only a part of its parameter {name!r} is marked as {mark.__name__}, and the peer "
                f"would fill it: write `{wanted}`, or `Annotated[T | None, {mark.__name__}]`"
            )


def of_variable(function: object, interaction: Kind, parameter: Parameter) -> Parameter:
    """Return a parameter that takes the variable of its name, which the route has.

    Raises:
        TypeError: It takes something else.
    """
    if parameter.source is Source.VARIABLE:
        return parameter
    if parameter.source is not Source.DATA:
        raise wrong(
            function,
            interaction,
            f"its parameter {parameter.name!r} receives the {parameter.source.value}, and the "
            f"route has a variable {{{parameter.name}}}: give one of them another name",
        )
    return attrs.evolve(parameter, source=Source.VARIABLE)


def _of_events(function: object, name: str, annotation: Any) -> tuple[Source, Any]:
    """Return where a parameter of an events handler gets its value from, and its type."""
    if isinstance(annotation, type) and issubclass(annotation, EventBatch):
        return Source.BATCH, annotation
    if annotation in (TransportInfo, Stopping, Call):
        return INJECTED[annotation], annotation
    if annotation in _LISTS or typing.get_origin(annotation) in _LISTS:
        return Source.EVENTS, next(iter(typing.get_args(annotation)), Any)
    reason = "write `list[T]` to receive the events, T being the type of one event"
    if annotation in INJECTED:
        reason = "which a sender of events does not have"
    raise wrong(
        function,
        Delivery.EVENTS,
        f"its parameter {name!r} is {annotation_name(annotation)}: {reason}",
    )
