"""The table of checkpoints: the source ``format("lumberjack")`` of `rsocket_trio.spark`."""

from __future__ import annotations

import math
from functools import partial

import trio

from rsocket_trio.spark.spool_source.addresses import Address
from rsocket_trio.spark.spool_source.member import Member, Need, Reader
from rsocket_trio.spark.spool_source.questions import Question, Questions
from rsocket_trio.spark.spool_source.reading import Place, open_stored
from tests.checkpoints.rows_collector import served
from tests.checkpoints.scene import Call, Scene, leaving, row

READER = Reader("q", "a", 60.0)


async def member(scene: Scene) -> Member:
    """A collector that is connected."""
    _, uri = await served(scene)
    one = Member(Address(uri), lambda: None, math.inf)
    connected = trio.Event()
    scene.nursery.start_soon(one.keep, connected.set)
    await connected.wait()
    return one


@row("spark.spool_source.member.Member.ask")
async def _(scene: Scene) -> Call:
    return partial((await member(scene)).ask, READER, Need(1), None)


@row("spark.spool_source.member.Member.ask", "without a position")
async def _(scene: Scene) -> Call:
    return partial((await member(scene)).ask, READER, None, None)


@row("spark.spool_source.member.Member.ask", "without a connection")
async def _(scene: Scene) -> Call:
    return partial(
        Member(Address("tcp://127.0.0.1:1"), lambda: None, math.inf).ask, READER, Need(1), None
    )


@row("spark.spool_source.member.Member.begin")
async def _(scene: Scene) -> Call:
    one = await member(scene)
    return partial(one.begin, READER, one.spool_id, None)


@row("spark.spool_source.member.Member.begin", "without a connection")
async def _(scene: Scene) -> Call:
    return partial(
        Member(Address("tcp://127.0.0.1:1"), lambda: None, math.inf).begin, READER, "s", 1
    )


@row("spark.spool_source.member.Member.look")
async def _(scene: Scene) -> Call:
    return partial((await member(scene)).look, lag_from=0)


@row("spark.spool_source.member.Member.look", "without a connection")
async def _(scene: Scene) -> Call:
    return partial(Member(Address("tcp://127.0.0.1:1"), lambda: None, math.inf).look, lag_from=0)


@row("spark.spool_source.questions.Questions.ask")
async def _(scene: Scene) -> Call:
    async def answer() -> int:
        return 1

    question = Question(Member(Address(""), lambda: None, math.inf), None, answer)
    return partial(Questions[int](scene.nursery).ask, {"": question}, 1)


@row("spark.spool_source.questions.Questions.ask", "without questions")
async def _(scene: Scene) -> Call:
    return partial(Questions[int](scene.nursery).ask, {}, 1)


async def place(scene: Scene) -> Place:
    spool, uri = await served(scene)
    return Place(spool_id=spool.spool_id, start=0, stop=4, uri=uri)


@row("spark.spool_source.reading.open_stored", "entering")
async def _(scene: Scene) -> Call:
    return partial(scene.enter, open_stored(await place(scene)))


@row("spark.spool_source.reading.open_stored", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(open_stored(await place(scene)))
