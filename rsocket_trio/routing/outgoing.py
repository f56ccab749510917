"""Code of the application around the requests that it makes: `OutgoingCall`, `Outgoing`.

It is run by the same `Blocks` as that around handlers, in the task of the caller: entered before a
request leaves, and left with its answer; for a stream or a channel, at the end of its block.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from ..connection.patient_requests import Request
from ..field_checks import argument, instance_of
from ..metadata.builder import Metadata
from ..protocol.interaction import Interaction
from ..sealed import maker
from .call import AnyCall
from .middleware import Around, Blocks, check_middleware
from .parameters import Route

if TYPE_CHECKING:
    from ..interactions.demand import PayloadStream
    from ..interactions.payload_body import PayloadBody
    from ..interactions.sending import AnyItems
    from ..payload import Payload
    from ..requester import Requester, Surroundings
    from ..transports.base import TransportInfo

__all__ = ["Outgoing", "OutgoingCall", "OutgoingMiddleware", "around_requests", "surrounded"]

T = TypeVar("T")
_NONE: Final = Metadata()


class OutgoingCall(AnyCall, given="middleware around requests is given one"):
    """One request to the peer, of any interaction, from before it leaves to its end.

    Attributes:
        requester: Sends the request.
    """

    __slots__ = ("_request", "requester")

    def __init__(self, requester: Requester, request: Request) -> None:
        super().__init__()
        self.requester = requester
        self._request = request

    def __repr__(self) -> str:
        return f"<OutgoingCall {self.interaction.value} {self.template}>"

    @property
    def interaction(self) -> Interaction:
        """The interaction."""
        return self._request.interaction

    @property
    def route(self) -> Route:
        """The route that the caller gave; without a name if there is none.

        A route in the metadata of a payload, which are bytes, is not known here.
        """
        return Route(self.template)

    @property
    def template(self) -> str:
        """The route that the caller gave; empty if there is none."""
        return self._request.route or ""

    @property
    def metadata(self) -> Metadata:
        """The metadata that are sent besides the route; `attrs.evolve` makes changed ones to set.

        Those in a payload, which are bytes, are sent too, and are not among these.
        """
        return self._request.metadata or _NONE

    @metadata.setter
    def metadata(self, metadata: Metadata) -> None:
        argument("metadata", metadata, instance_of(Metadata))
        self._request.metadata = None if metadata == _NONE else metadata

    @property
    def transport(self) -> TransportInfo:
        """Facts about the connection."""
        return self.requester.transport


OutgoingMiddleware: TypeAlias = Around[OutgoingCall]
"""As `Middleware`, around a request of ours."""

_new_call: Final = maker(OutgoingCall)


class Outgoing:
    """The middleware around the requests of one requester.

    Args:
        requester: Sends the requests.
        middleware: The middleware, the outermost first.
        inner: What is around each request within the middleware.
    """

    def __init__(
        self,
        requester: Requester,
        middleware: tuple[OutgoingMiddleware, ...],
        inner: Surroundings | None = None,
    ) -> None:
        self._requester = requester
        self._middleware: tuple[Any, ...] = middleware
        self._inner = inner

    async def answer(self, request: Request, send: Callable[[Metadata | None], Awaitable[T]]) -> T:
        """Send a request and wait for what ``send`` waits for, within the blocks.

        Args:
            request: The request.
            send: Sends it, with the metadata as the blocks have changed them.

        Raises:
            Exception: The error of the request, or that of a block.

        Checkpoint: as ``send`` and the blocks do.
        If cancelled: as ``send`` and the blocks do.
        """
        inner = self._inner
        async with Blocks(_new_call(self._requester, request), self._middleware):
            if inner is None:
                return await send(request.metadata)
            return await inner.answer(request, send)
        # A block may absorb the error of a request that has no answer.
        assert request.interaction is Interaction.FIRE_AND_FORGET
        return cast("T", None)

    @asynccontextmanager
    async def opened(
        self,
        request: Request,
        open_: Callable[[Metadata | None], AbstractAsyncContextManager[T]],
    ) -> AsyncIterator[T]:
        """Open a stream within the blocks, which are left after it.

        The arguments are those of `answer`.
        """
        call = _new_call(self._requester, request)
        inner = self._inner

        def opened() -> AbstractAsyncContextManager[T]:
            return open_(request.metadata) if inner is None else inner.opened(request, open_)

        async with Blocks(call, self._middleware), opened() as stream:
            try:
                yield stream
            finally:
                call.items = _received(stream)


def _received(stream: Any) -> int:
    """Return the number of items that a stream has got; 0 for something else."""
    counted: Callable[[], Any] | None = getattr(stream, "statistics", None)
    return 0 if counted is None else int(counted().received)


def around_requests(
    middleware: Iterable[OutgoingMiddleware],
) -> Callable[[Requester, Surroundings | None], Outgoing | None]:
    """Return a function that puts middleware around the requests of a requester, if it is any.

    The function takes what is within the middleware, too.

    Raises:
        TypeError: As `check_middleware`.
    """
    checked = check_middleware(middleware)
    return lambda requester, inner: Outgoing(requester, checked, inner) if checked else None


class _Surrounded:
    """The requests of a requester, each within the middleware of a `Caller`.

    Args:
        requester: Sends the requests; its own middleware is inside.
        middleware: The middleware, the outermost first.
    """

    def __init__(self, requester: Requester, middleware: tuple[OutgoingMiddleware, ...]) -> None:
        self._requester = requester
        self._outgoing = Outgoing(requester, middleware)

    def request_response(
        self,
        payload: Payload,
        *,
        route: str,
        metadata: Metadata | None,
        idempotent: bool = False,
    ) -> Awaitable[Payload | None]:
        """See `rsocket_trio.Requester.request_response`."""
        send = partial(
            self._requester.request_response, payload, route=route, idempotent=idempotent
        )
        request = Request(Interaction.REQUEST_RESPONSE, route, metadata)
        return self._outgoing.answer(request, lambda sent: send(metadata=sent))

    def request_response_streamed(
        self, payload: Payload, *, route: str, metadata: Metadata | None
    ) -> AbstractAsyncContextManager[PayloadBody | None]:
        """See `rsocket_trio.Requester.request_response_streamed`."""
        open_ = partial(self._requester.request_response_streamed, payload, route=route)
        request = Request(Interaction.REQUEST_RESPONSE, route, metadata)
        return self._outgoing.opened(request, lambda sent: open_(metadata=sent))

    async def fire_and_forget(
        self, payload: Payload, *, route: str, metadata: Metadata | None
    ) -> None:
        """See `rsocket_trio.Requester.fire_and_forget`.

        Checkpoint: as that does.
        If cancelled: as that is.
        """
        send = partial(self._requester.fire_and_forget, payload, route=route)
        request = Request(Interaction.FIRE_AND_FORGET, route, metadata)
        await self._outgoing.answer(request, lambda sent: send(metadata=sent))

    def request_stream(
        self, payload: Payload, *, route: str, metadata: Metadata | None, **demand: Any
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """See `rsocket_trio.Requester.request_stream`."""
        open_ = partial(self._requester.request_stream, payload, route=route, **demand)
        request = Request(Interaction.REQUEST_STREAM, route, metadata)
        return self._outgoing.opened(request, lambda sent: open_(metadata=sent))

    def request_channel(
        self,
        source: AnyItems | Iterable[Payload],
        *,
        route: str,
        metadata: Metadata | None,
        **demand: Any,
    ) -> AbstractAsyncContextManager[PayloadStream]:
        """See `rsocket_trio.Requester.request_channel`."""
        open_ = partial(self._requester.request_channel, source, route=route, **demand)
        request = Request(Interaction.REQUEST_CHANNEL, route, metadata)
        return self._outgoing.opened(request, lambda sent: open_(metadata=sent))


def surrounded(
    requester: Requester, middleware: Iterable[OutgoingMiddleware]
) -> Requester | _Surrounded:
    """Return the requester, within middleware if there is any.

    Raises:
        TypeError: One of them can never run; or it is not a list.
    """
    checked = check_middleware(middleware)
    return _Surrounded(requester, checked) if checked else requester
