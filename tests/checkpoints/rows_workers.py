"""Rows of the table: the parent of several processes, here of none."""

from __future__ import annotations

import socket
from functools import partial

import trio

from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.cli.serve_workers import supervise_until_stopped
from rsocket_trio.uri import parse_uri
from rsocket_trio.workers import Workers, serve_workers
from rsocket_trio.workers.channel import Channel
from rsocket_trio.workers.messages import Counts, encode
from rsocket_trio.workers.parent import Job, supervise
from tests.checkpoints.scene import Call, Scene, endless, row

ADDRESS = "tcp://127.0.0.1:0"
PLACES = [parse_uri(ADDRESS)]
JOB = Job(run="a:b")


async def no_workers(scene: Scene) -> Workers:
    run = partial(supervise, JOB, PLACES, workers=0, max_connections=None, start_timeout=1)
    found: Workers = await scene.nursery.start(run)
    return found


@row("workers.parent.supervise")
async def _(scene: Scene) -> Call:
    return endless(
        supervise,
        JOB,
        PLACES,
        workers=0,
        max_connections=None,
        start_timeout=1,
        task_status=trio.TASK_STATUS_IGNORED,
    )


@row("workers.parent.serve_workers")
async def _(scene: Scene) -> Call:
    return endless(serve_workers, "a:b", ADDRESS, workers=1)


@row("workers.parent.Workers.reload")
async def _(scene: Scene) -> Call:
    return (await no_workers(scene)).reload


@row("workers.parent.Workers.report")
async def _(scene: Scene) -> Call:
    return (await no_workers(scene)).report


@row("workers.parent.Workers.metrics")
async def _(scene: Scene) -> Call:
    return (await no_workers(scene)).metrics


@row("workers.parent.Workers.aclose")
async def _(scene: Scene) -> Call:
    return (await no_workers(scene)).aclose


@row("workers.channel.Channel.receive")
async def _(scene: Scene) -> Call:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    scene.stack.callback(here.close)
    scene.stack.callback(there.close)
    there.send(encode(Counts(0, 0)))
    return Channel(here, 0).receive


@row("cli.serve_workers.supervise_until_stopped")
async def _(scene: Scene) -> Call:
    args = build_parser().parse_args(["serve", "app.py", "--listen", ADDRESS])
    args.argv, args.workers = [], 0
    return endless(supervise_until_stopped, args, PLACES)
