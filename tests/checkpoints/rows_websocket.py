"""The table of checkpoints: TLS, WebSocket, and `rsocket_trio.reactivesocket`."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing
import trio_websocket
from wsproto.connection import Connection, ConnectionType

from rsocket_trio.errors import ConnectFailed, RemoteProtocolError
from rsocket_trio.frames import KeepaliveFrame, SetupFrame
from rsocket_trio.reactivesocket.transport import ReactiveSocketTransport
from rsocket_trio.sockets.byte_stream import ByteStream
from rsocket_trio.sockets.listen import NoHandshake
from rsocket_trio.sockets.tls import start_tls_client, start_tls_server
from rsocket_trio.sockets.tls_stream import TLSStream
from rsocket_trio.transports.http_head import parse_request, send_answer
from rsocket_trio.transports.pages import Page, send_page, serve_pages
from rsocket_trio.transports.websocket import TrioWebSocketTransport
from rsocket_trio.transports.websocket_frames import encode_messages
from rsocket_trio.transports.websocket_handshake import (
    Endpoint,
    accept_websocket,
    refuse_websocket,
    request_websocket,
)
from rsocket_trio.transports.wsproto_stream import WsprotoTransport
from rsocket_trio.uri import parse_uri
from tests.checkpoints.rows_transports import sockets
from tests.checkpoints.scene import INFO, Call, Quick, QuickStream, Scene, endless, raising, row

FRAME = KeepaliveFrame(respond=True).encode()
SETUP = SetupFrame(1, 0, keepalive_interval_ms=1000, max_lifetime_ms=5000).encode()


@row("sockets.tls.start_tls_client")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    scene.start(start_tls_server, other, scene.server_tls)
    return partial(start_tls_client, stream.inner, "localhost", scene.client_tls)


@row("sockets.tls.start_tls_server")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    scene.start(start_tls_client, stream.inner, "localhost", scene.client_tls)
    return partial(start_tls_server, other, scene.server_tls)


async def encrypted(scene: Scene) -> tuple[TLSStream, TLSStream]:
    """The two ends of TLS over TCP; the client's end has sent something."""
    stream, other = await sockets(scene)
    ours = TLSStream(stream, scene.client_tls, server_hostname="localhost")
    theirs = TLSStream(other, scene.server_tls, server_side=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.do_handshake)
        nursery.start_soon(theirs.do_handshake)
    await ours.send_all(b"something")
    return ours, theirs


@row("sockets.tls_stream.TLSStream.do_handshake")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    scene.start(start_tls_server, other, scene.server_tls)
    return TLSStream(stream, scene.client_tls, server_hostname="localhost").do_handshake


@row("sockets.tls_stream.TLSStream.send_all", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return partial((await encrypted(scene))[0].send_all, b"more")


@row("sockets.tls_stream.TLSStream.wait_send_all_might_not_block")
async def _(scene: Scene) -> Call:
    return (await encrypted(scene))[0].wait_send_all_might_not_block


@row("sockets.tls_stream.TLSStream.receive_some")
async def _(scene: Scene) -> Call:
    return (await encrypted(scene))[1].receive_some


@row("sockets.tls_stream.TLSStream.receive_some", "decrypted before")
async def _(scene: Scene) -> Call:
    stream = (await encrypted(scene))[1]
    await stream.receive_some(1)
    return partial(stream.receive_some, 1)


@row("sockets.tls_stream.TLSStream.receive_some", "at the end")
async def _(scene: Scene) -> Call:
    ours, theirs = await encrypted(scene)
    await ours.aclose()
    while await theirs.receive_some():
        pass
    return theirs.receive_some


@row("sockets.tls_stream.TLSStream.send_eof")
async def _(scene: Scene) -> Call:
    return (await encrypted(scene))[0].send_eof


@row("sockets.tls_stream.TLSStream.aclose")
async def _(scene: Scene) -> Call:
    return (await encrypted(scene))[0].aclose


WS = parse_uri("ws://127.0.0.1:1/path")


@row("transports.websocket_handshake.request_websocket")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    scene.start(accept_websocket, there, Endpoint(path="/path"))
    return partial(request_websocket, here, WS)


@row("transports.websocket_handshake.accept_websocket")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    scene.start(request_websocket, there, WS)
    return partial(accept_websocket, here, Endpoint(path="/path"))


@row("transports.websocket_handshake.Endpoint.accept")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    scene.start(request_websocket, there, WS)
    return partial(Endpoint(path="/path").accept, ByteStream(here, INFO))


@row("transports.websocket_handshake.refuse_websocket")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(b"GET / HTTP/1.1\r\n\r\n")
    return raising(ConnectFailed, partial(refuse_websocket, Endpoint(path="/path"), here, "No"))


def websocket(stream: trio.abc.Stream, **settings) -> WsprotoTransport:
    """The server's end."""
    return WsprotoTransport(stream, Connection(ConnectionType.SERVER), info=INFO, **settings)


MESSAGE = b"".join(encode_messages([FRAME], mask=True))
UNMASKED = b"".join(encode_messages([FRAME], mask=False))


@row("transports.wsproto_stream.WsprotoTransport.send_frames", only_cancelled=True)
async def _(scene: Scene) -> Call:
    stream, _ = await sockets(scene)
    return partial(websocket(stream).send_frames, [FRAME])


@row(
    "transports.wsproto_stream.WsprotoTransport.send_frames",
    "the peer has closed",
    only_cancelled=True,
)
async def _(scene: Scene) -> Call:
    transport = websocket(QuickStream(b"\x88\x80\0\0\0\0"))
    assert await transport.receive_frames() == []
    return raising(trio.BrokenResourceError, partial(transport.send_frames, [FRAME]))


@row("transports.wsproto_stream.WsprotoTransport.receive_frames")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(MESSAGE)
    return websocket(here).receive_frames


@row("transports.wsproto_stream.WsprotoTransport.receive_frames", "behind the handshake")
async def _(scene: Scene) -> Call:
    return websocket(QuickStream(), trailing_data=MESSAGE).receive_frames


@row("transports.wsproto_stream.WsprotoTransport.receive_frames", "a breach, after a message")
async def _(scene: Scene) -> Call:
    transport = websocket(QuickStream(MESSAGE + UNMASKED))
    assert await transport.receive_frames() == [FRAME]
    return raising(RemoteProtocolError, transport.receive_frames)


@row("transports.wsproto_stream.WsprotoTransport.close_sending")
async def _(scene: Scene) -> Call:
    return websocket(trio.testing.memory_stream_pair()[0]).close_sending


@row("transports.wsproto_stream.WsprotoTransport.drop_received")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(b"\xff" * 20)
    await there.send_eof()
    return websocket(here).drop_received


@row("transports.wsproto_stream.WsprotoTransport.aclose")
async def _(scene: Scene) -> Call:
    return websocket(trio.testing.memory_stream_pair()[0]).aclose


async def foreign(scene: Scene, *, talks: bool = True) -> TrioWebSocketTransport:
    """A transport over trio-websocket; the other end has sent a frame."""

    async def serve(request: trio_websocket.WebSocketRequest) -> None:
        ws = await request.accept()
        if talks:
            await ws.send_message(FRAME)
            await trio.sleep_forever()

    start = partial(trio_websocket.serve_websocket, serve, "127.0.0.1", 0, ssl_context=None)
    server = await scene.nursery.start(start)
    url = f"ws://127.0.0.1:{server.port}"
    ws = await scene.enter(trio_websocket.open_websocket_url(url))
    return await scene.enter(TrioWebSocketTransport(ws))


@row("transports.websocket.TrioWebSocketTransport.send_frames")
async def _(scene: Scene) -> Call:
    return partial((await foreign(scene)).send_frames, [FRAME])


@row("transports.websocket.TrioWebSocketTransport.send_frames", "no frames")
async def _(scene: Scene) -> Call:
    return partial((await foreign(scene)).send_frames, [])


@row("transports.websocket.TrioWebSocketTransport.receive_frames")
async def _(scene: Scene) -> Call:
    return (await foreign(scene)).receive_frames


@row("transports.websocket.TrioWebSocketTransport.receive_frames", "failed already")
async def _(scene: Scene) -> Call:
    transport = await foreign(scene)
    transport.limit_frames(1)
    await raising(RemoteProtocolError, transport.receive_frames)()
    return raising(RemoteProtocolError, transport.receive_frames)


@row("transports.websocket.TrioWebSocketTransport.close_sending")
async def _(scene: Scene) -> Call:
    return (await foreign(scene)).close_sending


@row("transports.websocket.TrioWebSocketTransport.close_sending", "the peer has closed")
async def _(scene: Scene) -> Call:
    return (await foreign(scene, talks=False)).close_sending


@row("transports.websocket.TrioWebSocketTransport.close_sending", "closed here")
async def _(scene: Scene) -> Call:
    transport = await foreign(scene)
    await transport.aclose()
    return transport.close_sending


@row("transports.websocket.TrioWebSocketTransport.aclose")
async def _(scene: Scene) -> Call:
    return (await foreign(scene, talks=False)).aclose


# -- the draft of 2015


@row("reactivesocket.transport.ReactiveSocketTransport.receive_frames", "pushed back")
async def _(scene: Scene) -> Call:
    transport = ReactiveSocketTransport(Quick(), client=True)
    transport.push_back([bytes.fromhex("0003 0000 00000000")])
    return transport.receive_frames


@row("reactivesocket.transport.ReactiveSocketTransport.receive_frames", "failed already")
async def _(scene: Scene) -> Call:
    transport = ReactiveSocketTransport(Quick([b"\0"]), client=False)
    await raising(RemoteProtocolError, transport.receive_frames)()
    return raising(RemoteProtocolError, transport.receive_frames)


# -- pages


@row("transports.http_head.send_answer")
async def _(scene: Scene) -> Call:
    return partial(send_answer, trio.testing.memory_stream_pair()[0], 200, b"")


async def page() -> Page:
    return Page(b"")


@row("transports.pages.send_page")
async def _(scene: Scene) -> Call:
    request = parse_request(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    stream = trio.testing.memory_stream_pair()[0]
    return raising(NoHandshake, partial(send_page, stream, page, request))


@row("transports.pages.serve_pages")
async def _(scene: Scene) -> Call:
    return endless(serve_pages, {"/": page}, "http://127.0.0.1:0")
