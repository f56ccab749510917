"""One set of handlers, served over RSocket and over ttrpc at the same time.

    python examples/one_router_two_wires.py

A `Router` holds the handlers, with their guard. Clients of both protocols use them: over RSocket
by the route, over ttrpc by service and method. The route of a call is ``package.Service/Method``.
Messages are plain bytes here; with classes of protobuf as annotations, the router converts them.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from functools import partial
from hmac import compare_digest
from pathlib import Path
from typing import Final

import trio
from trio.abc import ReceiveChannel

from rsocket_trio import (
    Metadata,
    Payload,
    Rejected,
    RequestFacts,
    Router,
    Setup,
    connect,
    serve,
    ttrpc,
)
from rsocket_trio.metadata import Authentication, BearerAuthentication

SERVICE: Final = "example.Words"
TOKEN: Final = "let me in"

COUNT: Final = ttrpc.Method.raw(SERVICE, "Count")
SPLIT: Final = ttrpc.Method.raw(SERVICE, "Split", ttrpc.MethodKind.SERVER_STREAM)
UPPER: Final = ttrpc.Method.raw(SERVICE, "Upper", ttrpc.MethodKind.BIDI_STREAM)


async def authenticate(auth: Authentication | None, facts: Setup | RequestFacts) -> str:
    """Answer requests of the holder of the token. A connection may be opened by everybody."""
    if isinstance(facts, Setup):
        return "a connection"
    token = auth.token if isinstance(auth, BearerAuthentication) else ""
    if not compare_digest(token.encode(), TOKEN.encode()):
        raise Rejected("who are you?")
    return "the holder of the token"


router = Router(authenticate=authenticate)


@router.request_response(f"{SERVICE}/Count")
async def count(text: bytes) -> bytes:
    """Return the number of words."""
    return b"%d" % len(text.split())


@router.request_stream(f"{SERVICE}/Split")
async def split(text: bytes) -> AsyncIterator[bytes]:
    """Return each word."""
    for word in text.split():
        yield word


@router.request_channel(f"{SERVICE}/Upper")
async def upper(words: ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
    """Return each text in capital letters."""
    async for word in words:
        yield word.upper()


async def by_rsocket(uri: str) -> None:
    """Use the handlers over RSocket."""

    def request(name: str, data: bytes) -> Payload:
        metadata = Metadata(route=f"{SERVICE}/{name}", auth=BearerAuthentication(TOKEN))
        return Payload(data, metadata.encode())

    async with connect(uri) as requester:
        answer = await requester.request_response(request("Count", b"to be or not"))
        print(f"RSocket: {answer.data.decode()} words")
        async with requester.request_stream(request("Split", b"to be")) as items:
            print(f"RSocket: {[item.data.decode() async for item in items]}")
        words = [request("Upper", b"to"), Payload(b"be")]
        async with requester.request_channel(words) as items:
            print(f"RSocket: {[item.data.decode() async for item in items]}")


async def by_ttrpc(uri: str) -> None:
    """Use the same handlers over ttrpc."""
    token = {"authorization": f"Bearer {TOKEN}"}
    async with ttrpc.connect(uri) as client:
        answer = await client.unary(COUNT, b"to be or not", metadata=token)
        print(f"ttrpc: {answer.decode()} words")
        async with client.server_stream(SPLIT, b"to be", metadata=token) as words:
            print(f"ttrpc: {[word.decode() async for word in words]}")
        async with client.bidi_stream(UPPER, metadata=token) as call:
            for word in (b"to", b"be"):
                await call.send(word)
            await call.end()
            print(f"ttrpc: {[word.decode() async for word in call]}")
        try:
            await client.unary(COUNT, b"to be or not")
        except ttrpc.PermissionDenied as error:
            print(f"ttrpc, without the token: {error}")


async def main() -> None:
    """Serve the router on two addresses, and call it over both."""
    with tempfile.TemporaryDirectory() as directory:
        socket = Path(directory, "words.sock")
        async with trio.open_nursery() as nursery:
            rsocket = await nursery.start(serve, router, "tcp://127.0.0.1:0")
            other = await nursery.start(partial(ttrpc.serve, router, f"unix://{socket}"))
            await by_rsocket(rsocket.uris[0])
            await by_ttrpc(other.uris[0])
            await rsocket.aclose()
            await other.aclose()


if __name__ == "__main__":
    trio.run(main)
