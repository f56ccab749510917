"""What a router answers, for people and tools: `RouteDescription`, and its own `introspection`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from ..codecs import DEFAULT_CODECS, Codecs
from ..codecs.annotations import annotation_name
from ..interactions.payload_body import PayloadBody
from .converted_streams import READY
from .declarations import request_stream
from .layers import Layer
from .parameters import ARGUMENTS, EMPTY, Source, name_of

if TYPE_CHECKING:
    from .registered import Registered

__all__ = [
    "ArgumentDescription",
    "Introspection",
    "RouteDescription",
    "TypeDescription",
    "described",
]

_TAKEN: Final = (*ARGUMENTS, Source.BODY, Source.PAYLOAD, Source.EVENTS)


@attrs.frozen
class TypeDescription:
    """A type, as its name and as the JSON that is read or written.

    Attributes:
        name: Its name, without modules.
        schema: Its JSON Schema (draft 2020-12); ``None`` if msgspec has none that is true of it:
            classes with converters, names that `Codecs` changes, payloads as they are.
    """

    name: str
    schema: dict[str, object] | None = None


@attrs.frozen
class ArgumentDescription:
    """What a requester gives.

    Attributes:
        name: The name of the parameter.
        source: ``variable`` of the route, ``data``, ``channel`` (the items of one), ``events``, or
            ``payload`` and ``body``, which are payloads as they are.
        type: Its type; of an item, for ``channel`` and ``events``.
        required: There is no default.
    """

    name: str
    source: str
    type: TypeDescription
    required: bool


@attrs.frozen
class RouteDescription:
    """One handler of a router.

    Attributes:
        interaction: The name of the interaction, or ``events``.
        route: The route with its variables; ``None`` for requests without one.
        handler: The handler's name, with its module.
        doc: Its docstring, or that of its declaration; empty if there is none.
        arguments: What a requester gives.
        result: What it gets, or each item; ``None`` if nothing is answered.
        middleware: The names of the middleware around it, the outermost first.
        guards: The names of the functions that may refuse its requests or connections.
        errors: The names of the errors that its `declaration` has, with their codes.
        idempotent: Whether its declaration says that a request may be handled twice.
    """

    interaction: str
    route: str | None
    handler: str
    doc: str = ""
    arguments: tuple[ArgumentDescription, ...] = ()
    result: TypeDescription | None = None
    middleware: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    errors: dict[str, int] = attrs.Factory(dict)
    idempotent: bool = False


def described(registered: Registered, outermost: Layer) -> RouteDescription:
    """Describe a handler of a router, whose own layer is the outermost one."""
    signature = registered.signature
    codecs = registered.settings.codecs or DEFAULT_CODECS
    layers = (outermost, *registered.layers)
    return RouteDescription(
        interaction=signature.interaction,
        route=registered.route,
        handler=signature.name,
        doc=registered.doc,
        arguments=tuple(
            [
                ArgumentDescription(
                    each.name,
                    each.source.value,
                    _type(each.annotation, codecs),
                    each.default is EMPTY,
                )
                for each in signature.parameters
                if each.source in _TAKEN
            ]
        ),
        result=_type(signature.result, codecs) if signature.is_answered else None,
        middleware=tuple([name_of(each) for layer in layers for each in layer.middleware]),
        guards=tuple([name for layer in layers for name in _guards(layer)]),
        errors={kind.__name__: code for code, kind in registered.errors.items()},
        idempotent=registered.idempotent,
    )


def _type(annotation: Any, codecs: Codecs) -> TypeDescription:
    ready = annotation in (*READY, PayloadBody)
    return TypeDescription(
        annotation_name(annotation), None if ready else codecs.schema(annotation)
    )


def _guards(layer: Layer) -> Iterable[str]:
    guard = layer.guard
    hooks = (guard.authenticate, guard.on_setup, guard.on_resume)
    return [name_of(each) for each in hooks if each is not None]


class Introspection(Protocol):
    """What `Router.introspection` serves, for `Caller.of`."""

    @request_stream("describe")
    def describe(self) -> AsyncIterator[RouteDescription]:
        """Give a description of each handler."""
