"""The events handler of a router on one connection of a sender: `BoundEvents`.

A sender of events has no SETUP and names no route. The router treats it as a client whose SETUP has
no metadata: each guard is asked about the connection with such a `Setup`, and about each batch with
`RequestFacts`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from ..codecs import CodecError
from ..codecs.registry import allows_none, annotation_name, is_bytes
from ..errors import RejectedSetup, StreamError
from ..metadata.mime_types import MIME
from ..payload import Payload
from .call import Call, new_call
from .guards import Fence, Guards
from .handler import Context, Handler
from .kinds import Delivery, EventBatch
from .marks import check_known
from .middleware import Blocks
from .parameters import Route, Source
from .refusals import noted, why
from .request import Place, Request
from .router import Router, check_own_accept
from .signature import Signature, check_unheard, no_authenticator
from .stand_ins import mute_requester, setup_of
from .supplies import Supplies
from .traffic import Traffic

if TYPE_CHECKING:
    from ..sockets.peer import Peer
    from .registered import Registered
    from .table import Table

__all__ = ["BoundEvents", "accept_events", "handler_of_events"]

_EMPTY: Final = Payload()
"""What the handler gets as its request: all of a batch comes with it."""


def handler_of_events(router: Router) -> Registered:
    """Return the events handler of a router.

    Raises:
        ValueError: There is none.
        TypeError: It takes the principal, but no authenticator would be asked; or the class of the
            router has an ``accept`` of its own, which would not be called.
    """
    check_own_accept(router, ("accept",))
    table = _table_of(router)
    registered = table.handlers[Delivery.EVENTS].get(None)
    if registered is None:
        raise ValueError("this Router handles no events: register a handler with @router.events()")
    asked = any(layer.guard.authenticate for layer in (table.layer, *registered.layers))
    for parameter in registered.signature.parameters:
        if parameter.source is Source.PRINCIPAL and not asked:
            raise no_authenticator(registered.signature, parameter)
    return registered


def _table_of(router: Router) -> Table:
    return router._table  # noqa: SLF001 - same package; applications must not use it


async def accept_events(router: Router, peer: Peer) -> BoundEvents:
    """Ask the guards of the events handler about a connection.

    Guards of other handlers are not asked, because events cannot get to these handlers.

    Args:
        router: The router that is served.
        peer: The sender.

    Raises:
        SetupError: The connection is refused.
        ValueError: As `handler_of_events`.
        TypeError: As `handler_of_events`.

    Checkpoint: as the application's functions do.
    If cancelled: as the application's functions do.
    """
    registered = handler_of_events(router)
    setup = setup_of(peer, MIME.JSON)
    requester = mute_requester(peer.transport)
    fence = Fence("", registered.layers, routeless=True)
    table = _table_of(router)
    supplies = Supplies.now(table)
    guards = await Guards.accept(table.layer, (fence,), setup, requester, supplies.guard)
    refusal = guards.refusal_of(registered)
    if refusal is not None:
        raise RejectedSetup(refusal)
    nearest, guarded = guards.nearest(registered)
    context = Context(registered.settings, nearest, requester, guarded=guarded)
    place = Place(registered, context, guards.steps(registered))
    request = Request(Delivery.EVENTS, place, None)
    return BoundEvents(context, registered.signature, request, supplies, guards)


class BoundEvents:
    """The events handler on one connection; `accept_events` makes it.

    For each batch the protocol enters `around`. Then it reads the events with `read`, if
    ``takes_events``, and calls this object.

    Attributes:
        takes_events: The handler has a parameter for the events.
        takes_raw: It receives the events as bytes, so they are not read.
    """

    def __init__(
        self,
        context: Context,
        signature: Signature,
        request: Request,
        supplies: Supplies,
        guards: Guards,
    ) -> None:
        self._supplies = supplies
        self._guards = guards
        self._context = context
        self._signature = signature
        self._request = request
        item: Any = next(
            (p.annotation for p in signature.parameters if p.source is Source.EVENTS), None
        )
        self.takes_events = any(p.source is Source.EVENTS for p in signature.parameters)
        self.takes_raw = self.takes_events and is_bytes(item)
        self._type = annotation_name(item)
        self._decode = context.codecs.decoder(item, MIME.JSON)

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        """See `Responder.connection_block`."""
        return self._supplies.connection_block(self._guards, self._context.requester)

    def around(self) -> Blocks[Call]:
        """Return the guards and the middleware of a batch, for ``async with``.

        Entering raises a `StreamError` if the batch is refused.
        """
        call = new_call(self._request, self._context, None)
        if self._request.place.is_measured:
            call.traffic = Traffic()
        return Blocks(call, self._request.steps)

    def check(self, call: Call) -> None:
        """Refuse a batch without the principal that the handler takes.

        Raises:
            StreamError: It is refused.
        """
        for parameter in self._signature.parameters:
            if parameter.source is Source.PRINCIPAL and not allows_none(parameter.annotation):
                check_known(call.principal)

    def read(self, event: bytes) -> Any:
        """Convert the JSON text of one event to the type that the handler takes.

        Raises:
            CodecError: It does not fit. The text says why, without values.
        """
        try:
            return self._decode(event)
        except CodecError as error:
            reason = why(error, "event")
        except StreamError as error:  # the class of the application raised it
            # Its text is for a peer that asked, and may show values.
            reason = f"its class raised {type(error).__name__}"
        raise CodecError(f"cannot be read as {self._type}: {reason}")

    def _handler(self) -> Handler:
        """Return the handler; not made before the connection's own objects are there."""
        place = self._request.place
        if place.usual is None:
            supply = self._supplies.of(place.registered, self._context)
            place.usual = Handler(
                self._context, self._signature, Route(), MIME.JSON, MIME.JSON, supply=supply
            )
        return place.usual

    async def __call__(
        self, batch: EventBatch, events: list[Any], call: Call, around: Blocks[Call]
    ) -> None:
        """Call the handler.

        Args:
            batch: The batch.
            events: Its events, if the handler takes them.
            call: The call.
            around: What was entered for it.

        Raises:
            Exception: An error of a provider or of the handler; its note names the handler.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        signature, handler = self._signature, self._handler()
        try:
            await around.supply(handler.steps)
            result = await handler(self._request, _EMPTY, (batch, events), call)
            check_unheard(signature, result)
        except Exception as error:  # to be raised again, with a note
            noted(error, self._context, Delivery.EVENTS, Route(), signature)
            raise
