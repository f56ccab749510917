"""How the octets are cut has no meaning: TLS records and WebSocket messages of any size."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import collect, from_iterable
from rsocket_trio.rsio.carrier import dial_rsio, offer_alpn, rsio_over
from rsocket_trio.sockets.connection_limit import counts_of
from rsocket_trio.sockets.listen import listen_for
from rsocket_trio.transports.listen import arrivals_at
from rsocket_trio.transports.wrapper import TransportWrapper
from tests.rsio.engine_scenes import numbers, words
from tests.rsio.test_transports import authority, client_context, server_context

__all__ = ["authority", "client_context", "server_context"]

TARGET = {
    "count": from_iterable(numbers(10)),
    "split": from_iterable([b"ab" * 30] * 2),
    "ints": rsio.fixed_size(words(20), 8),
    "köln": from_iterable([b"", b"\x00" * 5]),
}
CONFIG = rsio.RsioConfig(limits=rsio.RsioLimits(split_size=25))


class Cut(TransportWrapper):
    """Sends messages of some octets each, and an empty one before each where that is possible."""

    def __init__(self, inner, size, offset):
        super().__init__(inner)
        self._size = size
        self._left = offset or size

    async def send_frames(self, frames):
        data = b"".join(frames)
        while data:
            piece, data = data[: self._left], data[self._left :]
            self._left = self._size if len(piece) == self._left else self._left - len(piece)
            if self.inner.info.scheme.startswith("rsio+ws"):
                await self.inner.send_frames([b""])
            await self.inner.send_frames([piece])


async def exchange(connection):
    assert await collect(connection.publisher("count")) == numbers(10)
    assert await collect(connection.publisher("split")) == [b"ab" * 30] * 2
    assert await collect(connection.publisher("köln")) == [b"", b"\x00" * 5]
    async with connection.publisher("ints").open_packed(prefetch=9) as blocks:
        assert b"".join([bytes(block) async for block in blocks]) == b"".join(words(20))
    async with connection.publisher("count").open(prefetch=2) as elements:
        assert await elements.receive() == b"0"
    with pytest.raises(rsio.PublisherError, match="unknown publisher"):
        await collect(connection.publisher("nobody"))


@pytest.mark.parametrize(("size", "offset"), [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (7, 3)])
@pytest.mark.parametrize(
    "address", ["rsios://localhost:0", "rsio+ws://127.0.0.1:0/x", "rsio+wss://localhost:0/x"]
)
async def test_messages_may_be_cut_anywhere(address, size, offset, server_context, client_context):
    uri = rsio.rsio_uri(address)
    tls = uri.is_encrypted
    served = trio.Event()

    async def serve(transport):
        async def greet(connection):
            await exchange(connection)
            served.set()

        cut = Cut(transport, size, offset)
        await rsio.serve_stream(TARGET, cut, config=CONFIG, on_connection=greet)

    certificate = server_context if tls else None
    offer_alpn(uri, certificate)
    arrivals = arrivals_at(
        uri,
        rsio_over,
        serve,
        ssl_context=certificate,
        handshake_timeout=5,
        counts=counts_of(None),
    )
    async with trio.open_nursery() as nursery:
        uris = await nursery.start(partial(listen_for, arrivals, uri))
        context = client_context if tls else None
        transport = await dial_rsio(uris[0], ssl_context=context, handshake_timeout=5)
        cut = Cut(transport, size, offset)
        async with rsio.connect(cut, publish=TARGET, config=CONFIG) as connection:
            await exchange(connection)
            await served.wait()
        nursery.cancel_scope.cancel()
