"""A server that sends requests to its clients: it is a requester on each connection.

    python examples/broadcast.py serve --listen ws://127.0.0.1:7880/rsocket
    python examples/broadcast.py join ada
    python examples/broadcast.py say 'lunch is ready'

A client that joins stays connected and prints the texts that the server sends. ``say`` prints the
number of clients that have heard the text: the server sends a request to all clients at the same
time, and waits at most one second for each answer.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

import trio

from rsocket_trio import (
    Caller,
    Requester,
    Router,
    RSocketError,
    Server,
    Setup,
    connect,
    serve,
)

DEFAULT_URI: Final = "ws://127.0.0.1:7880/rsocket"
PATIENCE: Final = 1.0
"""Longest time to wait for the answer of a client, in seconds."""

members: set[Requester] = set()


async def enter(setup: Setup, requester: Requester) -> None:
    for member in [member for member in members if member.closed]:
        members.discard(member)
    members.add(requester)


router = Router(on_setup=enter)


@router.request_response("say")
async def say(text: str) -> int:
    """Send a text to all members. Return the number of members that have heard it."""
    heard = 0

    async def tell(member: Requester) -> None:
        nonlocal heard
        try:
            with trio.move_on_after(PATIENCE):
                answer = await Caller(member).request_response("hear", text, returns=bool)
                heard += answer  # not ``+= await``: other tasks change ``heard`` meanwhile
        except RSocketError:
            pass  # this member has no handler, or has just left

    async with trio.open_nursery() as nursery:
        for member in members:
            if not member.closed:
                nursery.start_soon(tell, member)
    return heard


async def run_server(uri: str) -> None:
    async with trio.open_nursery() as nursery:
        server: Server = await nursery.start(serve, router, uri)
        print(f"listening on {server.uris[0]}", flush=True)


async def join(uri: str, name: str) -> None:
    client = Router()

    @client.request_response("hear")
    async def hear(text: str) -> bool:
        # Another participant has written it: a terminal must not obey it.
        print(f"{name} hears: {text if text.isprintable() else ascii(text)}", flush=True)
        return True

    async with connect(uri, responder=client) as requester:
        print(f"{name} has joined", flush=True)
        await requester.wait_closed()


async def speak(uri: str, text: str) -> None:
    async with connect(uri) as requester:
        print(await Caller(requester).request_response("say", text, returns=int), "have heard it")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description="A server that sends requests to its clients.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("serve", help="serve until stopped")
    one.add_argument("--listen", dest="uri", default=DEFAULT_URI, metavar="URI")
    one.set_defaults(run=lambda args: trio.run(run_server, args.uri))
    one = commands.add_parser("join", help="join and print the texts that others say")
    one.add_argument("name")
    one.add_argument("--uri", default=DEFAULT_URI)
    one.set_defaults(run=lambda args: trio.run(join, args.uri, args.name))
    one = commands.add_parser("say", help="send a text to all who have joined")
    one.add_argument("text")
    one.add_argument("--uri", default=DEFAULT_URI)
    one.set_defaults(run=lambda args: trio.run(speak, args.uri, args.text))
    return top


if __name__ == "__main__":
    arguments = parser().parse_args()
    status: int | str = 0
    try:
        arguments.run(arguments)
    except* RSocketError as errors:
        status = str(errors.exceptions[0])
    except* KeyboardInterrupt:
        status = 130  # as shells report Ctrl-C
    sys.exit(status)  # not in ``except*``, which would put SystemExit into a group
