"""The table of checkpoints: `rsocket_trio.reactive_streams`."""

from __future__ import annotations

from functools import partial

import trio

from rsocket_trio.reactive_streams import collect, failed, for_each, iterate, just, open_iter
from rsocket_trio.reactive_streams import to_channel as channel_of
from rsocket_trio.reactive_streams.inbox import ElementInbox
from tests.checkpoints.scene import Call, Scene, leaving, raising, row


@row("reactive_streams.iterating.ElementStream.receive", "an element is here")
async def _(scene: Scene) -> Call:
    return (await scene.enter(open_iter(just(1)))).receive


@row("reactive_streams.iterating.ElementStream.receive", "it has ended")
async def _(scene: Scene) -> Call:
    return raising(trio.EndOfChannel, iterate(just()).receive)


@row("reactive_streams.iterating.ElementStream.receive", "it has failed")
async def _(scene: Scene) -> Call:
    return raising(OSError, iterate(failed(OSError())).receive)


@row("reactive_streams.iterating.ElementStream.receive", "closed here")
async def _(scene: Scene) -> Call:
    stream = iterate(just(1))
    stream.close()
    return raising(trio.ClosedResourceError, stream.receive)


@row("reactive_streams.iterating.ElementStream.receive_many", "an element is here")
async def _(scene: Scene) -> Call:
    return (await scene.enter(open_iter(just(1)))).receive_many


@row("reactive_streams.iterating.ElementStream.receive_many", "it has ended")
async def _(scene: Scene) -> Call:
    return raising(trio.EndOfChannel, iterate(just()).receive_many)


@row("reactive_streams.iterating.ElementStream.__anext__", "here", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return (await scene.enter(open_iter(just(1)))).__anext__


@row("reactive_streams.iterating.ElementStream.aclose")
async def _(scene: Scene) -> Call:
    return iterate(just(1)).aclose


@row("reactive_streams.iterating.open_iter", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return open_iter(just(1)).__aenter__


@row("reactive_streams.inbox.ElementInbox.wait", "an element is here")
async def _(scene: Scene) -> Call:
    inbox = ElementInbox(4)
    just(1).subscribe(inbox)
    return inbox.wait


@row("reactive_streams.consuming.collect", "all is here")
async def _(scene: Scene) -> Call:
    return partial(collect, just(1, 2))


@row("reactive_streams.consuming.for_each", "all is here")
async def _(scene: Scene) -> Call:
    return partial(for_each, just(1, 2), print)


@row("reactive_streams.consuming.to_channel", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(channel_of(just(1, 2), 2))
