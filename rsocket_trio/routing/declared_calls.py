"""From the arguments of a call to the request for a declared handler: `Endpoint`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from ..codecs import CodecError, Codecs
from ..codecs.compiling import Kept
from ..codecs.registry import explain
from .converted_streams import READY
from .declarations import Declared, declared_in
from .parameters import ARGUMENTS, EMPTY, Source, wrong
from .signature import Signature
from .templates import VARIABLE
from .variables import variable_writer

__all__ = ["NOTHING", "Endpoint", "Typed", "endpoints_of", "not_callable"]

NOTHING: Final[Any] = object()
"""The data of a request that has none."""


class Endpoint:
    """A declared handler, as a caller with certain codecs sees it.

    Attributes:
        interaction: Its interaction.
        annotation: The type of its data, or of the items that it takes.
        result: The type of its result, or of its items.
        errors: The classes of errors that it answers with, by their codes.
        idempotent: Whether a request may be handled twice.
    """

    def __init__(self, declared: Declared, prefix: str, codecs: Codecs) -> None:
        signature = declared.signature(prefix)
        self.interaction = declared.interaction
        self.errors = declared.errors
        self.idempotent = declared.idempotent
        self.result = signature.result
        self._name = declared.name
        parameters = [each for each in signature.parameters if each.source in ARGUMENTS]
        data = [each for each in parameters if each.source is not Source.VARIABLE]
        self.annotation: Any = data[0].annotation if data else Any
        self._data = data[0].name if data else None
        _check_conversions(signature, self.annotation, codecs)
        self._names = tuple([each.name for each in parameters if not each.by_keyword])
        self._only_positions = len(self._names) == len(parameters)
        self._signature = _python_signature(signature, {each.name for each in parameters})
        self._defaults = {
            each.name: each.default
            for each in parameters
            if each.source is Source.VARIABLE and each.default is not EMPTY
        }
        writers = {
            each.name: variable_writer(each.annotation, codecs)
            for each in parameters
            if each.source is Source.VARIABLE
        }
        text = prefix + declared.route
        self._route = text
        *pieces, self._end = VARIABLE.split(text)
        self._pieces = [
            (literal, name.removesuffix("..."), writers[name.removesuffix("...")], name[-1] == ".")
            for literal, name in zip(pieces[::2], pieces[1::2], strict=True)
        ]

    def filled(self, args: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[str, Any]:
        """Return the route, and the data or the items, for the arguments of a call.

        Raises:
            CodecError: A variable cannot be written.
            TypeError: The arguments are not those that are declared.
            ValueError: A variable is not one segment of a route.
        """
        if self._only_positions and not options and len(args) == len(self._names):
            given: Mapping[str, Any] = dict(zip(self._names, args, strict=True))
        else:
            try:
                given = self._signature.bind(*args, **options).arguments
            except TypeError as error:
                raise TypeError(f"{self._name}: {error}") from None
        value = NOTHING if self._data is None else given.get(self._data, NOTHING)
        if not self._pieces:
            return self._route, value
        route = ""
        for literal, name, write, takes_rest in self._pieces:
            try:
                text = write(given[name] if name in given else self._defaults[name])
            except CodecError as error:
                raise CodecError(f"{self._name}: {explain(error, name)}") from error.__cause__
            if not text or (not takes_rest and ("." in text or "/" in text)):
                reason = "may not be empty" + ("" if takes_rest else ", nor have a dot or a slash")
                raise ValueError(f"{self._name}: {name!r} is a part of the route, so it {reason}")
            route += literal + text
        return route + self._end, value


def not_callable(signature: Signature) -> str | None:
    """Return why a `Caller` cannot call a handler, if it cannot."""
    sources = {each.source: each for each in signature.parameters}
    raw = sources.get(Source.BODY)
    if Source.DATA not in sources:
        raw = raw or sources.get(Source.PAYLOAD)
    channel = sources.get(Source.CHANNEL)
    if raw is not None or (channel is not None and channel.annotation in READY):
        return "it takes payloads, which go out by the Requester"
    if signature.result in READY:
        return "it returns payloads, which the Requester receives"
    if channel is not None and Source.DATA in sources:
        return f"{sources[Source.DATA].name!r} would be the first item of its channel"
    return None


def _check_conversions(signature: Signature, annotation: Any, codecs: Codecs) -> None:
    """Refuse a handler that takes or returns what the arguments and results of calls cannot be.

    Raises:
        TypeError: It is one.
    """
    reason = not_callable(signature)
    if reason is not None:
        raise wrong(signature.function, signature.interaction, f"a Caller cannot call it: {reason}")
    try:
        codecs.check_encode(annotation)
        if signature.is_answered:
            codecs.check_decode(signature.result)
    except TypeError as error:
        reason = f"a Caller cannot call it: {error}"
        raise wrong(signature.function, signature.interaction, reason) from error


def _python_signature(signature: Signature, names: set[str]) -> inspect.Signature:
    whole = inspect.signature(signature.function)
    return whole.replace(
        parameters=[each for each in whole.parameters.values() if each.name in names],
        return_annotation=EMPTY,
    )


def _endpoints(key: tuple[Any, str, Codecs]) -> dict[str, Endpoint]:
    shared, prefix, codecs = key
    declared = declared_in(shared)
    return {name: Endpoint(each, prefix, codecs) for name, each in declared.items()}


_KEPT: Final = Kept(_endpoints)


def endpoints_of(shared: object, prefix: str, codecs: Codecs) -> dict[str, Endpoint]:
    """Return the endpoints of a class or a function, by their names.

    Raises:
        TypeError: It declares nothing, or what cannot be called or converted.
        ValueError: The prefix and a route are no route.
    """
    return _KEPT.of((shared, prefix, codecs))


@attrs.frozen(slots=False, repr=False)
class Typed:
    """What `Caller.of` returns: an object whose methods send requests.

    Type checkers take it for an object of the class that declares the methods.
    """

    _declaration: type
    _endpoints: dict[str, Endpoint]
    _send: Callable[[Endpoint, tuple[Any, ...], dict[str, Any]], Any]

    def __getattr__(self, name: str) -> Any:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            raise AttributeError(f"{self._declaration.__qualname__} declares no {name!r}")
        send = self._send

        def call(*args: Any, **options: Any) -> Any:
            return send(endpoint, args, options)

        self.__dict__[name] = call  # the next time it is found at once
        return call

    def __repr__(self) -> str:
        return f"<caller of {self._declaration.__qualname__}>"
