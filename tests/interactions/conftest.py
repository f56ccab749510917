"""Two real ends in memory, and requests in either direction between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest

from rsocket_trio import ConnectionConfig, Requester, Responder
from rsocket_trio.testing.in_memory import connected_pair


@attrs.frozen
class Link:
    """A connection as one side sees it: ``requester`` asks, ``peer`` belongs to who answers."""

    requester: Requester
    peer: Requester

    def assert_idle(self):
        """No stream and no request is left on either side, and nothing unread."""
        for side in (self.requester, self.peer):
            numbers = side.statistics()
            assert (numbers.open_streams, numbers.running_requests, numbers.unread) == (0, 0, 0)


@asynccontextmanager
async def link_between(
    responder: Responder, config: ConnectionConfig, *, from_server: bool
) -> AsyncIterator[Link]:
    """Connect; the side that asks is the client, or the server."""
    servers: list[Requester] = []

    async def accept(_setup, requester):
        servers.append(requester)
        return Responder() if from_server else responder

    async with connected_pair(accept, client_responder=responder, config=config) as client:
        yield Link(servers[0], client) if from_server else Link(client, servers[0])


@pytest.fixture(params=[False, True], ids=["client-asks", "server-asks"])
def link(request):
    """A function of a responder (and a config) that connects to it, for each direction."""

    def connect_to(responder, config=ConnectionConfig()):  # noqa: B008 - frozen
        return link_between(responder, config, from_server=request.param)

    return connect_to
