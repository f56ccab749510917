"""TLS tells why: alerts reach the peer in both roles and on every wire; errors name the reason."""

from __future__ import annotations

import datetime as dt
import logging
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from functools import partial

import attrs
import pytest
import trio
import trio.testing
import trustme

import rsocket_trio
from rsocket_trio import (
    ClientResume,
    ConnectFailed,
    ConnectionLost,
    Health,
    Router,
    lumberjack,
    rsio,
)
from rsocket_trio.lumberjack import ShipError, ShipperConfig
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.sockets.tls import peer_certificate, start_tls_client, start_tls_server

SCHEMES = ("tls", "wss", "lumberjacks", "rsios", "rsio+wss")
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
CA = trustme.CA()
FOREIGN = trustme.CA()
PAST = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
GOOD = CA.issue_cert("localhost", "127.0.0.1")


def expired(name):
    return CA.issue_cert(name, not_after=PAST)


def server_context(certificate=GOOD, *, version=None, wants_client=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if wants_client:
        CA.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return bounded(context, version)


def client_context(certificate=None, *, version=None, trusts=CA):
    context = ssl.create_default_context()
    trusts.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return bounded(context, version)


def bounded(context, version):
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


@asynccontextmanager
async def served(scheme, context):
    """A server of ours; gives its port."""
    serve = {
        "tls": partial(rsocket_trio.serve, Router()),
        "wss": partial(rsocket_trio.serve, Router()),
        "rsios": partial(rsio.serve, {}),
        "rsio+wss": partial(rsio.serve, {}),
        "lumberjacks": partial(lumberjack.serve, store),
    }[scheme]
    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, f"{scheme}://127.0.0.1:0", ssl_context=context))
        yield int(str(server.uris[0]).split(":")[2].split("/")[0])
        nursery.cancel_scope.cancel()


async def store(batch):
    raise AssertionError("a batch arrived")


def ask(port, context):
    """Connect as blocking programs do; return the error of the handshake, or of the first read."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        try:
            with context.wrap_socket(sock, server_hostname="localhost") as secure:
                secure.sendall(b"some octets that a server would have to read")
                return secure.recv(100)
        except OSError as error:
            return error


REFUSALS = {
    "no certificate": (V12, None, "HANDSHAKE_FAILURE"),
    "no certificate, 1.3": (V13, None, "CERTIFICATE_REQUIRED"),
    "of a foreign authority": (V12, FOREIGN.issue_cert("a@b.c"), "UNKNOWN_CA"),
    "of a foreign authority, 1.3": (V13, FOREIGN.issue_cert("a@b.c"), "UNKNOWN_CA"),
    "expired": (V12, expired("a@b.c"), "CERTIFICATE_EXPIRED"),
    "expired, 1.3": (V13, expired("a@b.c"), "CERTIFICATE_EXPIRED"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", REFUSALS)
async def test_a_client_learns_why_it_was_refused(scheme, case):
    """Not a reset, and not a clean end: the alert."""
    version, certificate, alert = REFUSALS[case]
    client = client_context(certificate, version=version)
    async with served(scheme, server_context(wants_client=True)) as port:
        seen = await trio.to_thread.run_sync(ask, port, client)
    assert isinstance(seen, ssl.SSLError)
    assert alert in str(seen)


ANSWERED = {
    "health": ({"health": Health()}, b"GET /live HTTP/1.1", b"HTTP/1.1 200 "),
    "no such path": ({}, b"GET /nowhere HTTP/1.1", b"HTTP/1.1 404 "),
    "too many connections": ({"max_connections": 1}, b"GET / HTTP/1.1", b"HTTP/1.1 503 "),
    "not allowed": ({"allow": lambda info: False}, b"", b""),
}


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("case", ANSWERED)
async def test_an_answer_other_than_a_websocket_ends_with_a_close_notify(case, version):
    """Without it a strict HTTPS client takes the answer for one that was cut off."""
    options, line, status = ANSWERED[case]

    def fetch(port):
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as sock,
            client_context(version=version).wrap_socket(
                sock, server_hostname="localhost", suppress_ragged_eofs=False
            ) as secure,
        ):
            if line:
                secure.sendall(line + b"\r\nHost: localhost\r\n\r\n")
            received = b""
            while data := secure.recv(1000):
                received += data
            return received

    async with trio.open_nursery() as nursery:
        serve = partial(
            rsocket_trio.serve, Router(), "wss://127.0.0.1:0", ssl_context=server_context()
        )
        server = await nursery.start(partial(serve, **options))
        port = int(str(server.uris[0]).split(":")[2].split("/")[0])
        other = await trio.open_tcp_stream("127.0.0.1", port)
        if case == "too many connections":
            await trio.testing.wait_all_tasks_blocked(0.01)
        else:
            await other.aclose()
        assert (await trio.to_thread.run_sync(fetch, port)).startswith(status)
        await trio.aclose_forcefully(other)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_client_without_a_version_in_common(scheme):
    async with served(scheme, server_context(version=V13)) as port:
        seen = await trio.to_thread.run_sync(ask, port, client_context(version=V12))
    assert "ALERT_PROTOCOL_VERSION" in str(seen)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "octets",
    [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x00\x00\x26" + bytes(38)],
    ids=["HTTP", "RSocket"],
)
async def test_a_client_that_speaks_no_tls(scheme, octets, caplog):
    """It sees a clean end and no reset; OpenSSL has no alert for it. The log knows why."""

    def speak(port):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(octets + bytes(10_000))
            return sock.recv(100)

    async with served(scheme, server_context()) as port:
        assert await trio.to_thread.run_sync(speak, port) == b""
    assert "the other end does not use TLS" in caplog.text


# -- our clients


@attrs.define
class RawServer:
    """A blocking server for one connection."""

    context: ssl.SSLContext
    then: object = None
    listener: socket.socket = attrs.field(factory=lambda: socket.create_server(("127.0.0.1", 0)))
    seen: object = None

    @property
    def port(self):
        return self.listener.getsockname()[1]

    def run(self):
        with self.listener:
            self.listener.settimeout(10)
            sock, _ = self.listener.accept()
        sock.settimeout(10)
        with self.context.wrap_socket(
            sock, server_side=True, do_handshake_on_connect=False
        ) as secure:
            try:
                secure.do_handshake()
                if self.then is not None:
                    self.then(secure)
                while secure.recv(1000):
                    pass
                self.seen = "a clean end"
            except OSError as error:
                self.seen = error
            with suppress(OSError):  # What is unread would reset the connection.
                socket.socket.shutdown(secure, socket.SHUT_WR)
                while socket.socket.recv(secure, 1000):
                    pass


@asynccontextmanager
async def raw_server(context, then=None):
    server = RawServer(context, then)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, server.run)
        yield server


async def use(scheme, port, context, host="localhost"):
    """Connect with a client of ours, and wait until it says what failed."""
    uri = f"{scheme}://{host}:{port}"
    if scheme == "lumberjacks":
        config = ShipperConfig(retry=Retry(max_attempts=1))
        async with lumberjack.connect(uri, ssl_context=context, config=config) as shipper:
            await shipper.send([{"n": 1}])
    elif scheme in {"tls", "wss"}:
        async with rsocket_trio.connect(uri, ssl_context=context) as client:
            await client.request_response(b"x")
    else:
        async with rsio.connect(uri, ssl_context=context):
            await trio.sleep_forever()


BAD_SERVERS = {
    "of a foreign authority": (FOREIGN.issue_cert("localhost"), "UNKNOWN_CA", "not trusted"),
    "expired": (expired("localhost"), "CERTIFICATE_EXPIRED", "has expired"),
    "of another host": (CA.issue_cert("example.org"), "BAD_CERTIFICATE", "mismatch"),
}


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("case", BAD_SERVERS)
async def test_a_server_learns_why_its_certificate_was_refused(scheme, case, version):
    certificate, alert, words = BAD_SERVERS[case]
    async with raw_server(server_context(certificate, version=version)) as server:
        with pytest.raises((ConnectFailed, ShipError), match=words):
            await use(scheme, server.port, client_context())
    assert isinstance(server.seen, ssl.SSLError)
    assert alert in str(server.seen)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_server_without_a_version_in_common(scheme):
    async with raw_server(server_context(version=V12)) as server:
        with pytest.raises((ConnectFailed, ShipError), match="TLS alert protocol version"):
            await use(scheme, server.port, client_context(version=V13))


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_certificate_that_is_refused_after_the_handshake(scheme):
    """Under TLS 1.3 a client has finished its handshake when the server says no."""
    async with raw_server(server_context(version=V13, wants_client=True)) as server:
        with pytest.raises(Exception, match="TLS alert certificate required: it wants a cert"):
            await use(scheme, server.port, client_context())


def send_junk(secure):
    """Write what no key of the connection has made."""
    socket.socket.sendall(secure, b"\x17\x03\x03\x00\x20" + bytes(32))


@pytest.mark.parametrize("scheme", ["tls", "rsios", "lumberjacks"])
@pytest.mark.parametrize("version", [V12, V13])
async def test_a_bad_record_is_named_to_both_ends(scheme, version):
    async with raw_server(server_context(version=version), send_junk) as server:
        # What OpenSSL 3.0 and 3.6 say.
        with pytest.raises(Exception, match=r"bad record mac|record layer failure"):
            await use(scheme, server.port, client_context())
    assert "ALERT_BAD_RECORD_MAC" in str(server.seen)


async def test_a_resumption_names_it_too(caplog):
    """The log of a session says why its connection was lost."""
    caplog.set_level(logging.INFO, logger="rsocket_trio")
    resume = ClientResume(retry=Retry(max_attempts=1, initial_delay=0.01))
    async with raw_server(server_context(version=V13, wants_client=True)) as server:
        uri = f"tls://localhost:{server.port}"
        with pytest.raises((ConnectionLost, ConnectFailed), match="certificate required"):
            async with rsocket_trio.connect(
                uri, ssl_context=client_context(), resume=resume
            ) as client:
                await client.request_response(b"x")


async def test_the_zone_of_an_address_is_no_part_of_a_name():
    """A certificate has the address alone."""
    ours, theirs = (trio.SocketStream(each) for each in trio.socket.socketpair())

    async def serve():
        context = server_context(CA.issue_cert("fe80::1"))
        await (await start_tls_server(theirs, context)).aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with await start_tls_client(ours, "fe80::1%eth0", client_context()) as secure:
            names = peer_certificate(secure)["subjectAltName"]
    assert names == (("IP Address", "FE80:0:0:0:0:0:0:1"),)
