"""The chat in a terminal: ``python client.py tcp://127.0.0.1:7878 lobby ada.token``."""

import sys
from io import FileIO
from pathlib import Path

import trio
from api import Chat, Message

from rsocket_trio import (
    BearerAuthentication,
    Caller,
    CodecError,
    ConnectionClosed,
    ConnectionState,
    Metadata,
    Reconnect,
    RSocketError,
    StreamError,
    connect,
)

keyboard = FileIO(0, closefd=False)  # without a buffer, as a buffer has a lock


async def chat(uri: str, room: str, token: str) -> None:
    """Say the lines of standard input, and print what is said."""
    me = Metadata(auth=BearerAuthentication(token))
    print("! dialling", uri, flush=True)  # again and again, also after the end of a session
    async with (
        connect(uri, setup_metadata=me, reconnect=Reconnect()) as requester,
        trio.open_nursery() as nursery,
    ):
        lobby = Caller(requester).of(Chat)
        joined = trio.Event()
        nursery.start_soon(say_lines, lobby, room, joined, nursery.cancel_scope)
        seen = 0  # the number of the last message, from which a new session goes on
        while True:
            try:
                # Without a session this waits for the next one.
                print("here are", *await lobby.join(room), flush=True)
                joined.set()
                async with lobby.messages(room, after=seen) as messages:
                    async for message in messages:
                        show(message)
                        seen = message.number
                print("! the server stops", flush=True)
            except (ConnectionClosed, StreamError) as error:
                print("!", error, flush=True)
                if requester.state is ConnectionState.CLOSED:  # the token is refused now
                    raise
            await trio.sleep(1)


def show(message: Message) -> None:
    """Print a message. Somebody else has written it: a terminal must not obey it."""
    text = message.text if message.text.isprintable() else ascii(message.text)
    print(f"{message.author}: {text}", flush=True)


async def say_lines(lobby: Chat, room: str, joined: trio.Event, whole: trio.CancelScope) -> None:
    """Say each line, and end the whole with the last one."""
    await joined.wait()
    while line := await trio.to_thread.run_sync(keyboard.readline, abandon_on_cancel=True):
        try:
            await lobby.say(room, line.decode(errors="replace").strip())
        except (StreamError, CodecError, ConnectionClosed) as error:  # perhaps not said
            print("!", error, flush=True)
    whole.cancel()


if __name__ == "__main__":
    try:
        trio.run(chat, sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_text().strip())
    except* RSocketError as errors:
        sys.exit(f"the chat has ended: {errors.exceptions[0]}")
