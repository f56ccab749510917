"""A method with all that a connection needs to run its handler: `ServedMethod`, `Methods`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...errors import fresh_copy
from ...interactions.isolation import outcome_of
from ...routing import call as routing
from ...routing.middleware import Blocks
from ...routing.owned_items import OwnedItems
from ...routing.parameters import Route
from ...routing.traffic import Traffic, is_measured
from ..codec import BYTES
from ..errors import Internal, Unimplemented
from ..methods import INTERACTIONS, Method, MethodKind
from ..wire.frames import REMOTE_CLOSED, REMOTE_OPEN
from .service import BoundMethod, Handler, Service

if TYPE_CHECKING:
    from ...protocol.interaction import Interaction
    from .call import Middleware

__all__ = ["Methods", "ServedMethod", "ServiceMethods", "no_method", "unreadable"]

_LONGEST_NAME: Final = 256
"""Characters of a name of the peer that are kept and sent back."""


class ServedMethod:
    """A method on a connection.

    Attributes:
        method: The method as handlers and middleware see it.
        path: ``/package.Service/Method``, for the log.
        kind: How many messages each side sends.
        is_unary: Whether each side sends one.
        sends_stream: Whether the client sends any number.
        receives_stream: Whether the server sends any number.
        interaction: What RSocket calls it.
        route: Its route, for middleware.
        handler: The name of its handler; ``None`` if there is none.
        start: Calls the handler with the request and the `Call`.
        wants_call: Whether somebody looks at the `Call`.
        decode: Reads a request.
        encode: Makes the bytes of an answer.
    """

    __slots__ = (
        "decode",
        "encode",
        "handler",
        "interaction",
        "is_unary",
        "kind",
        "method",
        "path",
        "receives_stream",
        "route",
        "sends_stream",
        "start",
        "wants_call",
    )

    def __init__(
        self,
        method: Method[Any, Any],
        start: Handler,
        *,
        wants_call: bool,
        decode: Callable[[bytes], Any],
        encode: Callable[[Any], bytes],
        interaction: Interaction | None = None,
        handler: str | None = None,
    ) -> None:
        kind = method.kind
        self.method = method
        self.path = method.path
        self.kind = kind
        self.is_unary = kind is MethodKind.UNARY
        self.sends_stream = kind.sends_stream
        self.receives_stream = kind.receives_stream
        self.interaction = INTERACTIONS[kind] if interaction is None else interaction
        route = f"{method.service}/{method.name}"
        self.route = Route(route, template=None if handler is None else route)
        self.handler = handler
        self.start = start
        self.wants_call = wants_call
        self.decode = decode
        self.encode = encode

    @classmethod
    def of(cls, bound: BoundMethod, middleware: Sequence[Middleware] = ()) -> ServedMethod:
        """Return the method with the middleware around its handler."""
        method = bound.method
        encode = _EncodedOnce(method.response.encode) if is_measured(middleware) else None
        return cls(
            method,
            _within(middleware, method, bound.handler, encode) if middleware else bound.handler,
            wants_call=bound.takes_call or bool(middleware),
            # Middleware sees a request that cannot be read, so it is read inside of that.
            decode=BYTES.decode if middleware else method.request.decode,
            encode=encode or method.response.encode,
            handler=bound.name,
        )


class _EncodedOnce:
    """Encodes messages, each once also where its size is counted before it is sent."""

    __slots__ = ("_body", "_encode", "_message")

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        self._encode = encode
        self._message: Any = self
        self._body = b""

    def count(self, message: Any, traffic: Traffic) -> None:
        """Count a message; one that cannot be encoded is an error where it is sent."""
        with suppress(Exception):
            self._body = self._encode(message)
            self._message = message
            traffic.size_out += len(self._body)

    def __call__(self, message: Any) -> bytes:
        if message is not self._message:
            return self._encode(message)
        body, self._body, self._message = self._body, b"", self
        return body


def _within(
    middleware: Sequence[Any],
    method: Method[Any, Any],
    handler: Handler,
    encode: _EncodedOnce | None = None,
) -> Handler:
    """Return a handler, with middleware around all of its life.

    Args:
        middleware: The middleware.
        method: The method.
        handler: Its handler.
        encode: Encodes its answers, if what the call carries is counted.
    """

    def start(request: Any, call: Any) -> Any:
        if not method.kind.sends_stream:
            if call.traffic is not None:
                call.traffic.received(len(request))
            try:
                request = method.request.decode(request)
            except BaseException as error:  # a codec may raise anything
                raise unreadable(method, request) from outcome_of(error)
        return handler(request, call)

    def items(request: Any, call: Any) -> AsyncIterable[Any]:
        sent = None
        if encode is not None:
            traffic = call.traffic = Traffic()
            sent = partial(encode.count, traffic=traffic)
        around = Blocks(call, middleware)
        return OwnedItems(around, lambda call: start(request, call), _counted, sent)

    async def answer(request: Any, call: Any) -> Any:
        if encode is not None:
            call.traffic = Traffic()
        async with Blocks(call, middleware):
            reply = await start(request, call)
            if encode is not None:
                encode.count(reply, call.traffic)
            return reply
        raise AssertionError("middleware cannot absorb the error of a call")

    return items if method.kind.receives_stream else answer


def _counted(call: routing.Call, items: int) -> None:
    call.items = items


def unreadable(method: Method[Any, Any], payload: bytes) -> Internal:
    """Return the answer to a request that the codec of its method cannot read."""
    return Internal(
        f"ttrpc: error unmarshalling payload: {len(payload)} bytes are no {method.request.name}"
    )


def no_method(methods: Methods, service: str, method: str) -> Unimplemented:
    """Return the answer to a call of a method that is not served."""
    known = methods.has_service(service)
    name = method if known else service
    return Unimplemented(f"{'method' if known else 'service'} {name[:_LONGEST_NAME]}")


class Methods(Protocol):
    """The methods that are served on a connection."""

    @property
    def unary(self) -> Mapping[bytes, ServedMethod]:
        """Unary methods whatever the flags of a request, by the first bytes of its body.

        They are those of its service and its name. It need not have all methods.
        """

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        """See `rsocket_trio.Responder.connection_block`."""

    def has_service(self, service: str) -> bool:
        """Whether there is a service of this name."""

    def find(self, service: str, method: str, flags: int) -> ServedMethod | None:
        """Return a method; the flags of the request help if one name has several kinds."""


class ServiceMethods:
    """The methods of some services.

    Args:
        services: The services, by name.
        middleware: Around each call; it sees calls of methods that are not there, too.
    """

    def __init__(
        self, services: Mapping[str, Service], middleware: Sequence[Middleware] = ()
    ) -> None:
        self._middleware = middleware
        self._services = {
            name: {key: ServedMethod.of(each, middleware) for key, each in one.methods.items()}
            for name, one in services.items()
        }
        self.unary: Mapping[bytes, ServedMethod] = {
            served.method.head: served
            for methods in self._services.values()
            for served in methods.values()
            if served.is_unary
        }

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        """Services have no block around a connection."""
        return None

    def has_service(self, service: str) -> bool:
        """Whether there is a service of this name."""
        return service in self._services

    def find(self, service: str, method: str, flags: int) -> ServedMethod | None:
        """Return the method, or ``None``.

        With middleware, one that is not there is a method whose handler says so.
        """
        served = self._services.get(service, {}).get(method)
        if served is None and self._middleware:
            return self._absent(service, method, flags)
        return served

    def _absent(self, service: str, name: str, flags: int) -> ServedMethod:
        refusal = no_method(self, service, name)

        def refuse(_request: Any, _call: Any) -> Awaitable[Any]:
            raise fresh_copy(refusal)  # once raised it has frames, which have the request

        kind = MethodKind.UNARY
        if flags & (REMOTE_OPEN | REMOTE_CLOSED):
            kind = MethodKind.BIDI_STREAM if flags & REMOTE_OPEN else MethodKind.SERVER_STREAM
        method = Method(service[:_LONGEST_NAME], name[:_LONGEST_NAME], kind, BYTES, BYTES)
        encode = _EncodedOnce(BYTES.encode) if is_measured(self._middleware) else None
        start = _within(self._middleware, method, refuse, encode)
        return ServedMethod(
            method, start, wants_call=True, decode=BYTES.decode, encode=BYTES.encode
        )
