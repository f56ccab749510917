"""Implementations under test in this process, over pairs of sockets."""

from __future__ import annotations

import math
import os
import socket
import ssl

import attrs
import trio
import trustme

from rsocket_trio.testing.rsio_conformance import Trial
from tests.rsio.conformance.reference import Reference, Shared


def small_pair():
    """A pair of connected streams with small buffers."""
    pair = socket.socketpair()
    for each in pair:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
    return [trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in pair]


@attrs.define
class InProcess:
    """An implementation that serves each connection by a task of a nursery."""

    nursery: trio.Nursery
    role: str = "server"
    fault: str = ""
    server_context: object = None
    client_context: object = None
    pid: int | None = attrs.field(factory=os.getpid)
    shared: Shared = attrs.field(factory=Shared)

    def __attrs_post_init__(self):
        if self.server_context is not None and self.fault != "has no ALPN":
            self.server_context.set_alpn_protocols(["rsio/0"])
        if self.client_context is not None:
            self.client_context.set_alpn_protocols(["rsio/0"])

    @property
    def encrypted(self):
        return self.server_context is not None

    async def connect(self):
        ours, theirs = small_pair()
        if self.encrypted:
            ours = trio.SSLStream(ours, self.client_context, server_hostname="localhost")
            theirs = trio.SSLStream(theirs, self.server_context, server_side=True)
        self.nursery.start_soon(self.serve, theirs)
        return ours

    async def serve(self, stream):
        await Reference(stream, self.role, self.shared, self.fault).run()


def contexts():
    """The contexts of a server and of a client that trusts it."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


def real_time(clock, rule):
    """Have a check of memory run in real time; in virtual time it would end at once, or never."""
    if "pid" in rule.needs:
        clock.autojump_threshold = math.inf
        clock.rate = 1


def trial_of(subject):
    """A trial with short limits: time is virtual, or the socket is of this process."""
    return Trial(subject, patience=20, quiet=0.05)
