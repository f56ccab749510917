"""The kind of a method and its messages, from the annotations of a handler: `read_handler`.

    async def echo(request: Ping) -> Pong                                   unary
    async def ticks(request: Every) -> AsyncIterator[Tick]: yield ...       server stream
    async def total(parts: ReceiveChannel[Part]) -> Sum                     client stream
    async def chat(lines: ReceiveChannel[Line]) -> AsyncIterator[Line]      both

One more parameter with the annotation `Call` receives the facts about the call.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
)
from typing import Any, Final

import attrs
import trio

from ...reactive_streams.interfaces import Publisher
from ...routing import call as routing
from ..codec import EMPTY, MessageCodec, codec_for
from ..inbox import MessageStream
from ..methods import MethodKind
from .call import Call

__all__ = ["HandlerSignature", "name_of", "read_handler", "takes_call"]

_INCOMING: Final = (trio.abc.ReceiveChannel, AsyncIterable, AsyncIterator, MessageStream)
_OUTGOING: Final = (
    AsyncIterable, AsyncIterator, AsyncGenerator, trio.abc.ReceiveChannel, Publisher
)  # fmt: skip


@attrs.frozen(kw_only=True)
class HandlerSignature:
    """What the annotations of a handler say.

    Attributes:
        kind: The kind of the method.
        request: The codec of the client's messages.
        response: The codec of the server's messages.
        message: The name of the parameter for the request; ``None`` if it takes none.
        call: The name of the parameter for the `Call`; ``None`` if it takes none.
        positional: Whether these two can be given by position, the request first.
    """

    kind: MethodKind
    request: MessageCodec[Any]
    response: MessageCodec[Any]
    message: str | None
    call: str | None
    positional: bool


def read_handler(function: Callable[..., Any]) -> HandlerSignature:
    """Read the annotations of a handler.

    Raises:
        TypeError: They are missing, or do not fit a method; the text says which one and why.
    """
    name = name_of(function)
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:  # evaluating annotations runs code of the application
        raise TypeError(f"the annotations of {name} cannot be read: {error}") from error
    message: str | None = None
    call: str | None = None
    positional = True
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise TypeError(f"{name} must not take {parameter}: a handler has a request and a Call")
        if hints.get(parameter.name) in (Call, routing.Call):
            call = parameter.name
            positional &= parameter.kind is not parameter.KEYWORD_ONLY
        elif message is None:
            message = parameter.name
            positional &= parameter.kind is not parameter.KEYWORD_ONLY and call is None
        elif parameter.default is parameter.empty:
            raise TypeError(
                f"{name} takes {parameter.name!r} besides {message!r}: a handler takes one "
                "request, and one Call with that annotation"
            )
    if "return" not in hints:
        raise TypeError(f"{name} needs an annotation of its result, e.g. -> bytes")
    sends, request = False, EMPTY
    if message is not None:
        if message not in hints:
            raise TypeError(f"{name} needs an annotation of {message!r}, e.g. {message}: bytes")
        sends, request = _read(hints[message], _INCOMING, f"{message!r} of {name}")
    receives, response = _result(function, hints["return"], name)
    kind = {
        (False, False): MethodKind.UNARY,
        (False, True): MethodKind.SERVER_STREAM,
        (True, False): MethodKind.CLIENT_STREAM,
        (True, True): MethodKind.BIDI_STREAM,
    }[sends, receives]
    return HandlerSignature(
        kind=kind,
        request=request,
        response=response,
        message=message,
        call=call,
        positional=positional,
    )


def takes_call(function: Callable[..., Any]) -> bool:
    """Whether a function takes a second positional argument."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    return True


def _read(annotation: Any, streams: tuple[type, ...], what: str) -> tuple[bool, MessageCodec[Any]]:
    """Return whether an annotation is a stream, and the codec of its messages."""
    is_stream = typing.get_origin(annotation) in streams
    if annotation in streams:
        raise TypeError(f"{what} needs the type of its messages, e.g. {annotation.__name__}[bytes]")
    try:
        return is_stream, codec_for(typing.get_args(annotation)[0] if is_stream else annotation)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None


def _result(
    function: Callable[..., Any], annotation: Any, name: str
) -> tuple[bool, MessageCodec[Any]]:
    what = f"the result of {name}"
    if not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function):
        if typing.get_origin(annotation) in {Awaitable, Coroutine}:
            annotation = typing.get_args(annotation)[-1]
        elif typing.get_origin(annotation) not in _OUTGOING:
            raise TypeError(f"{name} must be an async function")
    is_stream, codec = _read(annotation, _OUTGOING, what)
    if inspect.isasyncgenfunction(function) and not is_stream:
        raise TypeError(f"{name} is a generator, so it needs the annotation AsyncIterator[...]")
    return is_stream, codec


def name_of(function: object) -> str:
    """Return the name of a function, for the texts of errors."""
    module = getattr(function, "__module__", "")
    return f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"
