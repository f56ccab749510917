"""Sessions of both sides, and what one makes of bytes."""

from __future__ import annotations

from rsocket_trio.rsio.limits import RsioLimits
from rsocket_trio.rsio.rules.events import PeerHello
from rsocket_trio.rsio.rules.session import Session


def give(session, data):
    """Feed bytes to a session, and return all events."""
    session.feed(data)
    events = session.events()
    while not session.needs_data:
        events += session.events()
    return events


def opened_pair(extensions=None, **limits):
    """A client and a server that have exchanged their hellos."""
    limits = RsioLimits(**limits)
    client, server = Session("client", limits, extensions), Session("server", limits, extensions)
    ids = tuple(sorted(extensions or {}))
    assert give(server, client.hello()) == [PeerHello(0, ids, frozenset(ids))]
    assert give(client, server.hello()) == [PeerHello(0, ids, frozenset(ids))]
    return client, server
