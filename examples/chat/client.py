"""The chat in a terminal: ``python client.py tcp://127.0.0.1:7878 lobby ada.token``."""

import sys
from io import FileIO
from pathlib import Path

import trio
from api import Chat

from rsocket_trio import (
    BearerAuthentication,
    Caller,
    CodecError,
    Metadata,
    RSocketError,
    StreamError,
    connect,
)

keyboard = FileIO(0, closefd=False)  # without a buffer, as a buffer has a lock


async def chat(uri: str, room: str, token: str) -> None:
    """Say the lines of standard input, and print what is said."""
    me = Metadata(auth=BearerAuthentication(token))
    async with connect(uri, setup_metadata=me) as requester, trio.open_nursery() as nursery:
        lobby = Caller(requester).of(Chat)
        print("here are", *await lobby.join(room), flush=True)
        nursery.start_soon(say_lines, lobby, room, nursery.cancel_scope)
        async with lobby.messages(room) as messages:
            async for message in messages:
                # Somebody else has written it: a terminal must not obey it.
                text = message.text if message.text.isprintable() else ascii(message.text)
                print(f"{message.author}: {text}", flush=True)
        nursery.cancel_scope.cancel()  # the server stops


async def say_lines(lobby: Chat, room: str, whole: trio.CancelScope) -> None:
    """Say each line, and end the whole with the last one."""
    while line := await trio.to_thread.run_sync(keyboard.readline, abandon_on_cancel=True):
        try:
            await lobby.say(room, line.decode(errors="replace").strip())
        except (StreamError, CodecError) as error:  # this line failed, and not the connection
            print("!", error, flush=True)
    whole.cancel()


if __name__ == "__main__":
    try:
        trio.run(chat, sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text().strip())
    except* RSocketError as errors:
        sys.exit(f"the chat has ended: {errors.exceptions[0]}")
