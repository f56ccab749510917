"""What the chat offers: the server implements it, and clients call it."""

from collections.abc import AsyncIterator
from typing import Annotated, Protocol

import attrs
import msgspec

from rsocket_trio import CustomError, declaration, request_response, request_stream

Room = Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{1,32}$")]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


@attrs.frozen
class Message:
    """What somebody has said. Later messages have greater numbers."""

    number: int
    author: str
    text: str


class NotInRoom(CustomError):
    """Who asks has not joined the room."""

    default_code = 0x1001


@declaration(prefix="chat.", errors=[NotInRoom])
class Chat(Protocol):
    """The chat, of rooms that exist as soon as somebody joins them."""

    @request_response("{room}.join")
    async def join(self, room: Room) -> list[str]:
        """Enter a room until the connection ends. Return who is there."""
        ...

    @request_response("{room}.say")
    async def say(self, room: Room, text: Text) -> int:
        """Say something to a room, and return the number of the message."""
        ...

    @request_stream("{room}.messages")
    def messages(self, room: Room, after: int = 0) -> AsyncIterator[Message]:
        """Send the messages behind a number, and then each new one."""
        ...
