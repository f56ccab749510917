"""This package as the server under test, with the known answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

import rsocket_trio
from rsocket_trio import Payload
from rsocket_trio.testing.peer import KnownAnswers


class Watched(KnownAnswers):
    """The known answers, and the events that the tests wait for.

    Attributes:
        server: The server it is served by.
        requester: For requests to the peer that connected last.
        response_cancelled: Set when a request_response was cancelled.
        channel_cancelled: Set when a request_channel was cancelled.
    """

    server: rsocket_trio.Server
    requester: rsocket_trio.Requester

    def __init__(self) -> None:
        super().__init__()
        self.response_cancelled = trio.Event()
        self.channel_cancelled = trio.Event()

    async def accept(
        self, setup: rsocket_trio.Setup, requester: rsocket_trio.Requester
    ) -> rsocket_trio.Responder:
        self.requester = requester
        return self

    async def request_response(self, payload: Payload) -> Payload | None:
        try:
            return await super().request_response(payload)
        except trio.Cancelled:
            self.response_cancelled.set()
            raise

    async def request_channel(
        self, payload: Payload, payloads: trio.abc.ReceiveChannel[Payload]
    ) -> AsyncIterator[Payload]:
        try:
            async for item in payloads:
                yield item
        except (trio.Cancelled, GeneratorExit):
            # It is the one or the other, depending on whether it waited for an item or for credit.
            self.channel_cancelled.set()
            raise


@asynccontextmanager
async def served(transport: str = "tcp", **settings: Any) -> AsyncIterator[tuple[str, Watched]]:
    """Serve a `Watched`; yield its URI too. ``settings`` are those of `serve`."""
    responder = Watched()
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[rsocket_trio.Server]) -> None:
            uri = f"{transport}://127.0.0.1:0"
            if transport in {"ws", "wss"}:
                settings.setdefault("allowed_origins", ["*"])  # a browser's page has another port
            await rsocket_trio.serve(responder, uri, task_status=task_status, **settings)

        responder.server = await nursery.start(run)
        yield responder.server.uris[0], responder
        nursery.cancel_scope.cancel(reason="the test is over")


@asynccontextmanager
async def serving(
    stack: Any, *arguments: object, **settings: Any
) -> AsyncIterator[tuple[Any, Watched]]:
    """Serve a `Watched`, and connect a peer's client to it.

    Args:
        stack: The peer.
        arguments: For the client's program, behind the URI.
        settings: Those of `serve`.
    """
    async with (
        served(stack.transport, **settings) as (uri, responder),
        stack.connect(uri, *arguments) as client,
    ):
        yield client, responder
