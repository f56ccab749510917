"""A router on one connection: `BoundRouter` admits requests and runs their handlers."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import chain
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, cast

from ..errors import RemoteProtocolError, StreamError
from ..interactions.leftovers import this_task
from ..interactions.payload_body import PayloadBody, whole
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..responder import BodyResponder, Responder, ResumeFacts, Setup
from ..streamed import AnyPayload
from .call import Call, new_call
from .finder import Finder
from .guards import Guards, OnResume, Visit
from .handler import Context, Handler
from .kinds import Kind
from .middleware import COMPLETED, Blocks, Entered, leave_all, left_open, supply, what
from .one_block import ENDED, begin, is_block, no_block, no_yield, yields_twice
from .owned_items import OwnedItems
from .refusals import noted
from .request import Request
from .signature import Signature, check_unheard
from .supplies import Supplies
from .templates import Routes
from .traffic import Traffic

if TYPE_CHECKING:
    import trio

    from ..requester import Requester

__all__ = ["BoundRouter"]


class BoundRouter(Responder, BodyResponder):
    """The responder of one connection, made by `Router.accept`; also of requests that arrive."""

    def __init__(
        self,
        registered: Mapping[Kind, Routes],
        context: Context,
        guards: Guards,
        supplies: Supplies,
        *,
        traced: bool,
        accept_resume: OnResume,
    ) -> None:
        self._finder = finder = Finder(registered, context, guards, supplies, traced=traced)
        # Attributes, as a member of an enum takes long to be hashed.
        self._find_response = finder.of(Interaction.REQUEST_RESPONSE)
        self._find_fire_and_forget = finder.of(Interaction.FIRE_AND_FORGET)
        self._find_stream = finder.of(Interaction.REQUEST_STREAM)
        self._find_channel = finder.of(Interaction.REQUEST_CHANNEL)
        self._find = {
            Interaction.REQUEST_RESPONSE: self._find_response,
            Interaction.FIRE_AND_FORGET: self._find_fire_and_forget,
            Interaction.REQUEST_STREAM: self._find_stream,
            Interaction.REQUEST_CHANNEL: self._find_channel,
        }
        self._registered = registered
        self._context = context
        self._guards = guards
        self._supplies = supplies
        self._accept_resume = accept_resume

    def first_of(
        self, interactions: Iterable[Interaction], route: str
    ) -> tuple[Interaction, Signature] | None:
        """Return the first of some interactions that this route has a handler for, and that one."""
        for interaction in interactions:
            found = self._registered[interaction].find(route)
            if found is not None:
                return interaction, found[0].signature
        return None

    def routes(self) -> frozenset[str]:
        """Return the routes that have a handler; those without variables."""
        found = chain.from_iterable(self._registered[each].exact for each in Interaction)
        return frozenset(each for each in found if each is not None)

    async def accept(self, setup: Setup, requester: Requester) -> Responder:
        """See `Responder.accept`: the guards have accepted this connection, and no other.

        Raises:
            TypeError: It is another connection.

        Checkpoint: never.
        If cancelled: not possible.
        """
        context = self._context
        another = setup.transport is not context.setup.transport
        if another and requester is not context.requester:
            raise TypeError(
                "Router.accept returns a responder for one connection: call it for each connection"
            )
        return self

    def connection_block(self) -> AbstractAsyncContextManager[None] | None:
        """See `Responder.connection_block`: opens what has the scope ``"connection"``."""
        return self._supplies.connection_block(self._guards, self._context.requester)

    async def accept_resume(self, facts: ResumeFacts) -> None:
        """See `Responder.accept_resume`. Calls ``on_resume``, then ``authenticate``.

        Checkpoint: as they do.
        If cancelled: nothing has happened.
        """
        await self._guards.accept_resume(facts, self._accept_resume)

    def body_responder(
        self, interaction: Interaction, metadata: bytes | None
    ) -> BodyResponder | None:
        """See `Responder.body_responder`: for handlers with a parameter for the body.

        And for all requests that pass a guard or middleware: these decide at the first fragment,
        so the rest of a request that is refused is not kept.
        """
        try:
            request = self._find[interaction](metadata)
        except StreamError:
            return None  # the error is the answer once the request is whole
        if request.steps or (request.handler is not None and request.handler.takes_body):
            return self
        return None

    async def request_response(self, payload: Payload | PayloadBody) -> AnyPayload | None:
        """See `Responder.request_response`.

        Checkpoint: as guards, middleware and handler do, and while fragments arrive.
        If cancelled: as guards, middleware and handler do.
        """
        request = self._find_response(payload.metadata)
        handler = request.plain
        try:
            if handler is not None:
                return handler.answer(await handler(request, cast("Payload", payload)))
            # As `Blocks` does, without that object and its two coroutines: they took about 1 us,
            # half of what a request pays for middleware.
            call = new_call(request, self._context, payload.metadata)
            task = this_task()
            traffic = call.traffic = Traffic(payload) if request.place.is_measured else None
            entered: Entered = []
            steps: tuple[Any, ...] = request.steps
            try:
                for step in steps:
                    if type(step) is Visit:
                        bounded = await step.admit(call)
                        if bounded is None:
                            continue
                        step = bounded
                    around = task._cancel_status
                    manager: Any = step(call)
                    if type(manager) is not AsyncGeneratorType:
                        if not is_block(manager):
                            no_block(manager, what(step))
                        await manager.__aenter__()
                    elif await begin(manager) is ENDED:
                        no_yield(what(step))
                    entered.append((step, manager, around, task._cancel_status))
                handler = request.handler or self._finder.complete(request)
                if type(payload) is Payload:
                    body = None
                else:
                    payload, body = await _in_place(handler, payload)
                if handler.steps:
                    await supply(call, handler.steps, entered)
                answer = handler.answer(await handler(request, payload, body, call))
                if traffic is not None:
                    traffic.sent(answer)
                call.outcome = COMPLETED
                while entered:
                    step, manager, around, within = entered.pop()
                    inside = task._cancel_status
                    if type(manager) is not AsyncGeneratorType:
                        await manager.__aexit__(None, None, None)
                    elif await anext(manager, ENDED) is not ENDED:
                        await manager.aclose()
                        yields_twice(what(step))
                    if task._cancel_status is not around and inside is within:
                        left_open(step, call)
            except BaseException as error:  # also a cancellation: the blocks around see it
                complete = call.outcome is COMPLETED
                if not await leave_all(call, entered, error, complete=complete):
                    raise
        except Exception as error:  # to be raised again, with a note
            self._note(request, error)
            raise
        else:
            return answer

    async def fire_and_forget(self, payload: Payload | PayloadBody) -> None:
        """See `Responder.fire_and_forget`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        request = self._find_fire_and_forget(payload.metadata)
        if request.plain is None:
            await self.take(request, payload)
            return
        try:
            result = await request.plain(request, cast("Payload", payload))
            check_unheard(request.signature, result)
        except Exception as error:  # to be raised again, with a note
            self._note(request, error)
            raise

    def request_stream(
        self, payload: Payload | PayloadBody
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """See `Responder.request_stream`."""
        request = self._find_stream(payload.metadata)
        if request.plain is not None:
            return request.plain.stream(request, cast("Payload", payload))
        return self.stream(request, payload)

    def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """See `Responder.request_channel`."""
        request = self._find_channel(payload.metadata)
        if request.plain is not None:
            return request.plain.stream(request, payload, payloads)
        return self.stream(request, payload, payloads)

    async def metadata_push(self, metadata: bytes) -> None:
        """See `Responder.metadata_push`.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        request = self._finder.push(metadata)
        if request is not None:
            # The data of this handler are the metadata.
            await self.take(request, Payload(metadata, metadata))

    # -- requests that pass guards or middleware, or are still arriving -----------------------

    async def take(self, request: Request, arrived: Payload | PayloadBody) -> None:
        """Handle a request that has no answer.

        Checkpoint: as `request_response`.
        If cancelled: as `request_response`.
        """
        try:
            around = self._around(request, arrived)
            async with around as call:
                handler = self._handler(request)
                payload, body = await _in_place(handler, arrived)
                await around.supply(handler.steps)
                check_unheard(request.signature, await handler(request, payload, body, call))
        except Exception as error:  # to be raised again, with a note
            self._note(request, error)
            raise

    async def stream(
        self,
        request: Request,
        arrived: Payload | PayloadBody,
        payloads: trio.abc.ReceiveChannel[Payload] | None = None,
    ) -> AsyncIterable[AnyPayload]:
        """Answer with a stream.

        Checkpoint: as `request_response`.
        If cancelled: as `request_response`.
        """
        try:
            around = self._around(request, arrived)
            supply = request.place.supply
            if around.has_blocks or (supply is not None and supply.has_blocks):
                return OwnedItems(
                    around,
                    lambda call: self._stream(request, arrived, payloads, call, around),
                    _counted,
                    around.sent,
                )
            call, bounds = await around.admit()
            if bounds:
                around = Blocks(call, bounds)
                return OwnedItems(
                    around, lambda call: self._stream(request, arrived, payloads, call, around)
                )
            return await self._stream(request, arrived, payloads, call, around)
        except Exception as error:  # to be raised again, with a note
            self._note(request, error)
            raise

    async def _stream(
        self,
        request: Request,
        arrived: Payload | PayloadBody,
        payloads: trio.abc.ReceiveChannel[Payload] | None,
        call: Call,
        around: Blocks[Call],
    ) -> AsyncIterable[AnyPayload]:
        handler = self._handler(request)
        payload, body = await _in_place(handler, arrived)
        await around.supply(handler.steps)
        traffic = call.traffic
        if traffic is not None and payloads is not None:
            payloads = traffic.taking(payloads)
        arriving = body if payloads is None else payloads
        items = handler.stream(request, payload, arriving, call)
        return await items if isinstance(items, Awaitable) else items

    def _around(self, request: Request, arrived: Payload | PayloadBody) -> Blocks[Call]:
        """Return the guards and the middleware of a request."""
        call = new_call(request, self._context, arrived.metadata)
        if request.place.is_measured:
            call.traffic = Traffic(arrived)
        return Blocks(call, request.steps)

    def _handler(self, request: Request) -> Handler:
        """Return the handler of a request that has passed the guards."""
        return request.handler or self._finder.complete(request)

    def _note(self, request: Request, error: Exception) -> None:
        """Add a note with the request to an error."""
        noted(error, self._context, request.interaction, request.route, request.signature)


def _counted(call: Call, items: int) -> None:
    call.items = items


async def _in_place(
    handler: Handler, arrived: Payload | PayloadBody
) -> tuple[Payload, PayloadBody | None]:
    """Return a request as its handler takes it: whole, or metadata with the body of the data."""
    if isinstance(arrived, Payload):
        return arrived, None
    if handler.takes_body:
        return Payload(b"", arrived.metadata), arrived
    try:
        return await whole(arrived), None
    except RemoteProtocolError as error:  # the request is larger than the limits allow
        raise StreamError(str(error), code=error.code) from error
