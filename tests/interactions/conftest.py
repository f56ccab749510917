"""Two real ends in memory, and requests in both directions between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest

from rsocket_trio import ConnectionConfig, Requester, Responder
from rsocket_trio.testing.in_memory import connected_pair


@attrs.frozen
class Link:
    """A connection seen by one side: ``requester`` sends requests, ``peer`` is the responder's."""

    requester: Requester
    peer: Requester

    def assert_idle(self):
        """Check that no stream, request or unread payload is left on either side."""
        for side in (self.requester, self.peer):
            numbers = side.statistics()
            assert (numbers.open_streams, numbers.active_requests, numbers.unread_size) == (0, 0, 0)


@asynccontextmanager
async def link_between(
    responder: Responder, config: ConnectionConfig, *, from_server: bool
) -> AsyncIterator[Link]:
    """Connect; the side that sends requests is the client, or the server."""
    servers: list[Requester] = []

    async def accept(_setup, requester):
        servers.append(requester)
        return Responder() if from_server else responder

    async with connected_pair(accept, client_responder=responder, config=config) as client:
        yield Link(servers[0], client) if from_server else Link(client, servers[0])


@pytest.fixture(params=[False, True], ids=["client-asks", "server-asks"])
def link(request):
    """Return a function that connects to a responder (and a config), for each direction."""

    def connect_to(responder, config=ConnectionConfig()):  # noqa: B008 - frozen
        return link_between(responder, config, from_server=request.param)

    return connect_to
