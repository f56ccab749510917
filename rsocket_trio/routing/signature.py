"""What a handler takes and returns, read once from its annotations: `read_signature`.

Mistakes in a handler are found here, when it is registered, and not when the first request comes.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncIterable, Callable, Collection
from functools import partial, wraps
from typing import Any, Final, Union

import attrs
import trio

from ..codecs import Codecs
from ..codecs.annotations import ANY, NONE, annotation_name, bounded_members, members_of, with_names
from ..codecs.mismatch import UNAWAITED, Unconvertible, kind_of, unawaited
from ..metadata.mime_types import MIME
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..reactive_streams.interfaces import Publisher
from .converted_streams import READY
from .kinds import Delivery, Kind
from .marks import plain
from .parameters import (
    INJECTED,
    Parameter,
    Source,
    name_of,
    of_variable,
    read_parameter,
    unpacked,
    wrong,
)
from .templates import Template
from .variables import check_variable

__all__ = [
    "Signature",
    "check_conversions",
    "check_taken",
    "check_unheard",
    "hints_of",
    "no_authenticator",
    "read_signature",
]

_UNHEARD: Final = (Interaction.FIRE_AND_FORGET, Interaction.METADATA_PUSH, Delivery.EVENTS)
"""The results of these are not sent."""


@attrs.frozen
class Signature:
    """What is known about a handler.

    Attributes:
        function: The handler.
        interaction: What it answers.
        parameters: Its parameters, in order.
        result: The annotation of its result; of an item, for streams.
        is_generator: It is an async generator function.
        template: The route that it is registered for; ``None``: requests have none.
    """

    function: Callable[..., Any]
    interaction: Kind
    parameters: tuple[Parameter, ...]
    result: Any
    is_generator: bool
    template: Template | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables of its route, in order."""
        return () if self.template is None else self.template.names

    def at(self, template: Template) -> Signature:
        """Return this handler for another route, whose prefix may have variables of its own.

        Raises:
            TypeError: A parameter has the name of a variable, and cannot take it.
        """
        if not template.names:
            return attrs.evolve(self, template=template)
        parameters = [
            of_variable(self.function, self.interaction, each)
            if each.name in template.names
            else each
            for each in self.parameters
        ]
        return attrs.evolve(self, parameters=tuple(parameters), template=template)

    @property
    def takes_body(self) -> bool:
        """Whether the handler reads the data while they arrive."""
        return any(parameter.source is Source.BODY for parameter in self.parameters)

    @property
    def takes_call(self) -> bool:
        """Whether the handler gets the call, or something that only the call knows."""
        wanted = (Source.CALL, Source.PRINCIPAL)
        return any(parameter.source in wanted for parameter in self.parameters)

    @property
    def provided(self) -> tuple[Parameter, ...]:
        """The parameters that receive what is provided."""
        return tuple([each for each in self.parameters if each.source is Source.PROVIDED])

    @property
    def takes_publisher(self) -> bool:
        """Whether the handler gets the items of a channel as a publisher."""
        return any(parameter.published for parameter in self.parameters)

    @property
    def is_answered(self) -> bool:
        """Whether the requester gets its results."""
        return self.interaction not in _UNHEARD

    @property
    def written(self) -> Any:
        """The annotation of the results that are converted; ``None`` if all are payloads."""
        members = _bounded(self.result)
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


def read_signature(
    function: Callable[..., Any],
    interaction: Kind,
    thread: bool | trio.CapacityLimiter = False,
    template: Template | None = None,
    *,
    is_called: bool = True,
) -> Signature:
    """Read what a handler takes and returns.

    Args:
        function: The handler.
        interaction: What it answers.
        thread: It is not async, and runs in a worker thread.
        template: The route that it is registered for.
        is_called: False for one that is only read, such as a method of a protocol.

    Raises:
        TypeError: It cannot be a handler of that interaction; the text says what to change.
    """
    inner, bound = unpacked(function)
    if is_called:
        _check_kind(inner, interaction, thread)
    hints = hints_of(inner)
    variables = () if template is None else template.names
    parameters = tuple(
        [
            read_parameter(function, interaction, parameter, hints, variables)
            for parameter in _parameters(function, interaction)
            if parameter.name not in bound
        ]
    )
    for source in (Source.DATA, Source.CHANNEL, Source.EVENTS):
        names = [parameter.name for parameter in parameters if parameter.source is source]
        if len(names) > 1:
            raise wrong(
                function,
                interaction,
                f"it may have one {source.value} parameter, but it has {' and '.join(names)}"
                + (
                    ": a variable of the route stands in it in braces, also in Router(prefix=)"
                    if source is Source.DATA
                    else ""
                ),
            )
    names = [p.name for p in parameters if p.source in (Source.DATA, Source.PAYLOAD)]
    if names and any(parameter.source is Source.BODY for parameter in parameters):
        reason = f"PayloadBody reads the data while they arrive, so {names[0]!r} cannot get them"
        raise wrong(function, interaction, reason)
    if interaction is Interaction.REQUEST_CHANNEL and not any(
        parameter.source is Source.CHANNEL for parameter in parameters
    ):
        raise wrong(
            function,
            interaction,
            "a parameter annotated ReceiveChannel[T], AsyncIterable[T] or Publisher[T] is missing: "
            "it receives the items of the requester",
        )
    if interaction is Delivery.EVENTS and not any(
        parameter.source in (Source.BATCH, Source.EVENTS) for parameter in parameters
    ):
        reason = "no parameter receives the events: annotate one `list[T]`, T being the type of one"
        raise wrong(function, interaction, f"{reason} event, or annotate one `Batch`")
    return Signature(
        function=function if thread is False else _in_thread(function, thread),
        interaction=interaction,
        parameters=parameters,
        result=_result(function, interaction, hints),
        is_generator=inspect.isasyncgenfunction(inner),
        template=template,
    )


def _parameters(function: Callable[..., Any], interaction: Kind) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError as error:  # of a partial
        raise wrong(function, interaction, "it cannot take the arguments of partial()") from error


def _in_thread(
    function: Callable[..., Any], thread: bool | trio.CapacityLimiter
) -> Callable[..., Any]:
    """Return an async function that runs another one in a worker thread."""
    limiter = None if isinstance(thread, bool) else thread
    inner, _ = unpacked(function)

    @wraps(inner)  # its name is for people
    async def run(*arguments: Any, **keywords: Any) -> Any:
        call = partial(function, *arguments, **keywords)
        return await trio.to_thread.run_sync(call, limiter=limiter)

    return run


def _check_kind(
    function: Callable[..., Any], interaction: Kind, thread: bool | trio.CapacityLimiter
) -> None:
    if not isinstance(thread, bool | trio.CapacityLimiter):
        raise TypeError(f"thread is True or a trio.CapacityLimiter, not {kind_of(thread)}")
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        reason = "it is neither a function, nor a method, nor an object that can be called"
        raise wrong(function, interaction, reason)
    if thread is not False:
        if _is_async(inspect.unwrap(function)):
            raise wrong(function, interaction, "it is async, so it needs no thread")
        if interaction.is_stream or inspect.isgeneratorfunction(function):
            reason = "a stream does not run in a thread: write `async def`, and call "
            reason += "trio.to_thread.run_sync there for what blocks"
            raise wrong(function, interaction, reason)
        return
    if inspect.iscoroutinefunction(function):
        return
    if not inspect.isasyncgenfunction(function):
        reason = "it is not async: write `async def`"
        if not interaction.is_stream:
            reason += ", or let it run in a worker thread with thread=True"
        if _is_async(inspect.unwrap(function)):
            reason = (
                "a decorator of it returns a function that is not async: write `async def` there"
            )
        raise wrong(function, interaction, reason)
    if not interaction.is_stream:
        reason = "it yields, but its answer is not a stream: `return` the result"
        raise wrong(function, interaction, reason)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, resolved.

    Raises:
        TypeError: One of them cannot be.
    """
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


def _result(function: object, interaction: Kind, hints: dict[str, Any]) -> Any:
    if interaction in _UNHEARD:
        return Any
    if "return" not in hints:
        reason = "its result needs an annotation to be converted: write `-> T`, or `-> Any`"
        if interaction.is_stream:
            reason = "its result has no annotation: write `-> AsyncIterator[T]`"
        raise wrong(function, interaction, reason)
    annotation = plain(hints["return"])
    if not interaction.is_stream or annotation is Any:
        return annotation
    origin = typing.get_origin(annotation) or annotation
    if not (isinstance(origin, type) and issubclass(origin, AsyncIterable | Publisher)):
        reason = "its answer is a stream: annotate its result AsyncIterator[T]"
        others = "(or AsyncIterable[T], ReceiveChannel[T], Publisher[T])"
        raise wrong(function, interaction, f"{reason} {others}")
    return next(iter(typing.get_args(annotation)), Any)


def check_taken(signature: Signature, names: Collection[str]) -> None:
    """Refuse a handler that does not take the variables of its route.

    Raises:
        TypeError: No parameter has the name of one.
    """
    taken = {each.name for each in signature.parameters if each.source is Source.VARIABLE}
    for name in names:
        if name not in taken:
            reason = f"no parameter takes the variable {{{name}}} of its route: add `{name}: str`"
            raise wrong(signature.function, signature.interaction, f"{reason} (or int, UUID, ...)")


def no_authenticator(signature: Signature, parameter: Parameter) -> TypeError:
    """Return the error for a handler that takes the principal, where nobody is asked for one."""
    return TypeError(
        f"{signature.name} takes the principal as {parameter.name!r}, but its Router has no "
        "authenticator: give it authenticate="
    )


def check_unheard(signature: Signature | None, result: object) -> None:
    """Refuse a coroutine in place of a result: it would not run, and nothing would say so.

    Raises:
        TypeError: It is one.
    """
    if result is not None and isinstance(result, UNAWAITED) and signature is not None:
        raise TypeError(f"{signature.name} returned {unawaited(result)}")


def check_conversions(signature: Signature, codecs: Codecs) -> None:
    """Find out whether a handler's data and results can be converted.

    Raises:
        TypeError: They cannot be converted in any MIME type.
    """
    function, interaction = signature.function, signature.interaction
    for parameter in signature.parameters:
        annotation = parameter.annotation
        if parameter.source is Source.VARIABLE:
            try:
                check_variable(annotation, codecs)
            except TypeError as error:
                reason = f"its parameter {parameter.name!r} cannot take a variable of the route"
                raise wrong(
                    function, interaction, _explained(reason, parameter.name, error)
                ) from error
            continue
        events = parameter.source is Source.EVENTS
        converted = events or parameter.source in (Source.DATA, Source.CHANNEL)
        if not converted or annotation is Payload:
            continue
        for member in _members(annotation):
            if member in INJECTED:
                reason = f"write `{annotation_name(member)}`, which every request has"
                reason = (
                    f"its parameter {parameter.name!r} is {annotation_name(annotation)}: {reason}"
                )
                raise wrong(function, interaction, reason)
        try:
            codecs.check_decode(annotation, MIME.JSON if events else None)
        except TypeError as error:
            reason = f"its parameter {parameter.name!r} cannot be read"
            raise wrong(
                function,
                interaction,
                _explained(reason, f"{parameter.name}[]" if events else parameter.name, error),
            ) from error
    if interaction in _UNHEARD:
        return
    try:
        for member in _bounded(signature.result):
            if member not in (*READY, None, NONE):
                codecs.check_encode(member)
    except TypeError as error:
        reason = "its result cannot be written"
        raise wrong(function, interaction, _explained(reason, "result", error)) from error


def _members(annotation: Any) -> tuple[Any, ...]:
    try:
        return members_of(annotation)
    except Unconvertible:
        return (annotation,)


def _bounded(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union with their bounds; for another type, that type alone."""
    try:
        members = bounded_members(annotation)
    except Unconvertible:
        return (annotation,)
    return tuple(
        [typing.Annotated[(each, *bounds)] if bounds else each for each, bounds in members]
    )


def _explained(reason: str, root: str, error: TypeError) -> str:
    return f"{reason}: {error.at(root) if isinstance(error, Unconvertible) else error}"
