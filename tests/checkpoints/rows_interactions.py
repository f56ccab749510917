"""The table of checkpoints: `rsocket_trio.interactions`, and calls of applications."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import trio

from rsocket_trio import Payload, Router, connect, serve, serve_transport
from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.interactions.payload_body import BodyInbox, PayloadBody, whole
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.routing.caller import Caller
from rsocket_trio.routing.converted_streams import DecodedChannel
from rsocket_trio.sealed import make
from rsocket_trio.service import Registry, Service
from rsocket_trio.sockets.goodbyes import Goodbyes
from rsocket_trio.stopping import Stopping
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair
from tests.checkpoints.scene import CONFIG, Call, Scene, connection, endless, leaving, raising, row


def body() -> tuple[BodyInbox, PayloadBody]:
    made, _ = connection()
    inbox = BodyInbox(made.memory)
    return inbox, make(PayloadBody, inbox)


@row("interactions.inbox.Inbox.wait", "something is here")
async def _(scene: Scene) -> Call:
    inbox, _ = body()
    inbox.deliver(None, b"data")
    return partial(inbox.wait, "body")


@row("interactions.inbox.Inbox.wait", "it has ended")
async def _(scene: Scene) -> Call:
    inbox, _ = body()
    inbox.end()
    return raising(trio.EndOfChannel, partial(inbox.wait, "body"))


@row("interactions.payload_body.PayloadBody.receive", "a chunk is here")
async def _(scene: Scene) -> Call:
    inbox, made = body()
    inbox.deliver(None, b"data")
    return made.receive


@row("interactions.payload_body.PayloadBody.receive", "it has ended")
async def _(scene: Scene) -> Call:
    inbox, made = body()
    inbox.end()
    return raising(trio.EndOfChannel, made.receive)


@row("interactions.payload_body.PayloadBody.receive", "it has failed")
async def _(scene: Scene) -> Call:
    inbox, made = body()
    inbox.end(RemoteProtocolError("no"))
    return raising(RemoteProtocolError, made.receive)


@row("interactions.payload_body.PayloadBody.receive", "closed here")
async def _(scene: Scene) -> Call:
    _, made = body()
    made.close()
    return raising(trio.ClosedResourceError, made.receive)


@row("interactions.payload_body.whole", "it is here")
async def _(scene: Scene) -> Call:
    inbox, made = body()
    inbox.deliver(None, b"data")
    inbox.end()
    return partial(whole, made)


@row("interactions.payload_body.BodyInbox.wait_begun", "it has begun")
async def _(scene: Scene) -> Call:
    inbox, _ = body()
    inbox.deliver(None, b"data")
    return inbox.wait_begun


@row("interactions.payload_body.BodyInbox.wait_begun", "it has ended")
async def _(scene: Scene) -> Call:
    inbox, _ = body()
    inbox.end()
    return inbox.wait_begun


@row("interactions.payload_body.BodyInbox.join", "it is here")
async def _(scene: Scene) -> Call:
    inbox, _ = body()
    inbox.deliver(None, b"data")
    inbox.end()
    return inbox.join


@row("interactions.payload_body.PayloadBody.aclose")
async def _(scene: Scene) -> Call:
    _, made = body()
    return made.aclose


async def items(scene: Scene, data: bytes = b"3"):
    """A stream of three items that have all arrived."""
    requester = await scene.requester()
    return await scene.enter(requester.request_stream(Payload(data)))


@row("interactions.demand.PayloadStream.receive", "an item is here")
async def _(scene: Scene) -> Call:
    return (await items(scene)).receive


@row("interactions.demand.PayloadStream.receive", "it has ended")
async def _(scene: Scene) -> Call:
    return raising(trio.EndOfChannel, (await items(scene, b"0")).receive)


@row("interactions.demand.PayloadStream.aclose")
async def _(scene: Scene) -> Call:
    return (await items(scene)).aclose


@row("interactions.demand.PayloadStream.receive_many", "items are here")
async def _(scene: Scene) -> Call:
    return (await items(scene)).receive_many


@row("requester.Requester.request_response")
async def _(scene: Scene) -> Call:
    return (await scene.requester()).request_response


@row("requester.Requester.metadata_push")
async def _(scene: Scene) -> Call:
    return partial((await scene.requester()).metadata_push, b"any")


@row("requester.Requester.wait_closed", "closed already")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    scene.start(serve_transport, KnownAnswers(), there)
    async with connect(here) as requester:
        pass
    return requester.wait_closed


@row("requester.Requester.wait_draining", "closed already")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    scene.start(serve_transport, KnownAnswers(), there)
    async with connect(here) as requester:
        pass
    return requester.wait_draining


@row("stopping.Stopping.wait", "set already")
async def _(_scene: Scene) -> Call:
    event = trio.Event()
    event.set()
    return Stopping(event).wait


def router() -> Router:
    made = Router()

    @made.request_response("one")
    async def one() -> int:
        return 1

    @made.request_stream("some")
    async def some() -> AsyncIterator[int]:
        yield 1
        yield 2

    return made


async def caller(scene: Scene) -> Caller:
    here, there = memory_transport_pair()
    scene.start(serve_transport, router(), there)
    requester = await scene.enter(connect(here, data_mime_type="application/json"))
    return Caller(requester)


@row("requester.Requester.request_response_streamed", "entering")
async def _(scene: Scene) -> Call:
    requester = await scene.requester()
    return partial(scene.enter, requester.request_response_streamed(Payload(b"data")))


@row("requester.Requester.fire_and_forget", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return (await scene.requester()).fire_and_forget


@row("requester.Requester.request_stream", "entering", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return partial(scene.enter, (await scene.requester()).request_stream())


@row("reactivesocket.subscription.request_subscription", "entering", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return partial(scene.enter, request_subscription(await scene.requester()))


@row("interactions.demand.PayloadStream.__anext__", "an item is here", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return (await items(scene)).__anext__


@row("client.connect", "entering")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    scene.start(serve_transport, KnownAnswers(), there)
    return partial(scene.enter, connect(here))


@row("client.connect", "leaving")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    scene.start(serve_transport, KnownAnswers(), there)
    return await leaving(connect(here))


@row("routing.caller.Caller.request_response")
async def _(scene: Scene) -> Call:
    return partial((await caller(scene)).request_response, "one")


@row("routing.caller.ItemStream.receive", "an item is here")
async def _(scene: Scene) -> Call:
    return (await scene.enter((await caller(scene)).request_stream("some"))).receive


@row("routing.caller.ItemStream.aclose")
async def _(scene: Scene) -> Call:
    return (await scene.enter((await caller(scene)).request_stream("some"))).aclose


@row("routing.converted_streams.DecodedChannel.receive", "an item is here")
async def _(scene: Scene) -> Call:
    return DecodedChannel(await items(scene), int).receive


@row("routing.converted_streams.DecodedChannel.aclose")
async def _(scene: Scene) -> Call:
    return DecodedChannel(await items(scene), int).aclose


@row("server.serve")
async def _(scene: Scene) -> Call:
    return endless(serve, KnownAnswers(), "tcp://127.0.0.1:0")


@row("sockets.serving.RunningServer.aclose")
async def _(scene: Scene) -> Call:
    return (await scene.nursery.start(serve, KnownAnswers(), "tcp://127.0.0.1:0")).aclose


@row("sockets.serving.RunningServer.aclose", "closed already")
async def _(scene: Scene) -> Call:
    server = await scene.nursery.start(serve, KnownAnswers(), "tcp://127.0.0.1:0")
    await server.aclose()
    return server.aclose


@row("server.serve_transport", "the peer is gone")
async def _(scene: Scene) -> Call:
    return partial(serve_transport, KnownAnswers(), await transport_of_a_client_that_left())


@row("service.Service.serve", "the peer is gone")
async def _(scene: Scene) -> Call:
    service = Service(
        responder=KnownAnswers(),
        config=CONFIG,
        lease=None,
        protocols=("rsocket",),
        sessions=None,
        registry=Registry(Goodbyes()),
    )
    return partial(service.serve, await transport_of_a_client_that_left())


async def transport_of_a_client_that_left():
    here, there = memory_transport_pair()
    await there.aclose()
    return here
