"""The chat: ``rsocket-trio serve server.py --listen tcp://127.0.0.1:7878``."""

import logging
from collections.abc import AsyncIterator
from typing import Annotated

import trio
from api import Chat, Message, NotInRoom, Room, Text
from history import History, open_history
from presence import AT_MOST, NotHereError, Presence, TooManyRoomsError, Visitor
from tokens import User, authenticate

from rsocket_trio import (
    Call,
    Forbidden,
    Principal,
    Provided,
    Router,
    Stopping,
    concurrency_limit,
    rate_limit,
)

log = logging.getLogger("chat.access")

# The router makes these; what has no such mark is of the request.
TheHistory = Annotated[History, Provided]
ThePresence = Annotated[Presence, Provided]
ThisVisitor = Annotated[Visitor, Provided]


class Service:
    """The handlers."""

    async def join(self, room: Room, visitor: ThisVisitor, presence: ThePresence) -> list[str]:
        """Let the connection in."""
        return presence.enter(visitor, room)

    async def say(
        self,
        room: Room,
        text: Text,
        visitor: ThisVisitor,
        presence: ThePresence,
        history: TheHistory,
    ) -> int:
        """Keep the message, then wake the streams of the room."""
        visitor.check_is_in(room)
        number = await history.add(room, visitor.name, text)
        presence.announce(room)
        return number

    async def messages(
        self,
        room: Room,
        visitor: ThisVisitor,
        presence: ThePresence,
        history: TheHistory,
        stopping: Stopping,
        after: int = 0,
    ) -> AsyncIterator[Message]:
        """Read the history to its end, and again when there is news: so no reader needs a queue."""
        visitor.check_is_in(room)
        while not stopping.is_set():
            news = presence.news(room)  # before the history is read, so that nothing is missed
            unread = await history.after(room, after)
            for message in unread:
                yield message
                after = message.number
            if not unread:
                with trio.move_on_after(1):  # news of other processes make no event
                    await first_of(news, stopping)


async def first_of(*events: trio.Event | Stopping) -> None:
    """Wait for one of several events."""
    async with trio.open_nursery() as nursery:

        async def wait_for(event: trio.Event | Stopping) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(wait_for, event)


async def access_log(call: Call) -> AsyncIterator[None]:
    """Log who called what, how it ended, and how long it took."""
    began = trio.current_time()
    try:
        yield
    finally:
        who = call.principal.name if isinstance(call.principal, User) else "?"
        took = 1000 * (trio.current_time() - began)
        log.info("%s %s %s %.0f ms", who, call.route.name, call.outcome, took)


router = Router(
    lifespan=open_history,
    authenticate=authenticate,
    middleware=[
        access_log,
        rate_limit(10, burst=30, by="principal"),
        concurrency_limit(50, by="principal"),
    ],
    errors={
        NotHereError: NotInRoom("join the room first"),
        TooManyRoomsError: Forbidden(f"you are in {AT_MOST} rooms, which is the most"),
    },
)
router.provide(Presence, Presence, scope="application")
router.add(Service(), as_=Chat)


@router.connection
async def visit(user: Annotated[User, Principal], presence: ThePresence) -> AsyncIterator[Visitor]:
    """Be somebody for as long as the connection lasts."""
    visitor = Visitor(user.name)
    try:
        yield visitor
    finally:
        presence.leave(visitor)
