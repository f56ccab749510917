"""The part of the demo with ttrpc: one process serves handlers over RSocket and ttrpc at once.

As a program, ``demo_ttrpc.py SOCKET`` is the server, with handlers of host_telemetry.py. The demo
calls it over both protocols, and checks that the answers are the same.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import host_telemetry
import trio
from demo_processes import Failed, addresses, python, running

from rsocket_trio import Caller, Router, RSocketError, connect, serve, ttrpc

SERVICE: Final = "host.Telemetry"
MIME: Final = "application/json"
FACTS: Final = ttrpc.Method.raw(SERVICE, "Facts")
LOAD: Final = ttrpc.Method.raw(SERVICE, "Load", ttrpc.MethodKind.SERVER_STREAM)
LINES: Final = ttrpc.Method.raw(SERVICE, "Lines", ttrpc.MethodKind.SERVER_STREAM)
GREP: Final = ttrpc.Method.raw(SERVICE, "Grep", ttrpc.MethodKind.BIDI_STREAM)
ABSENT: Final = ttrpc.Method.raw(SERVICE, "Absent")

CALLS: Final = 1000
IN_FLIGHT: Final = 50
FILE: Final = "argparse.py"
PATTERNS: Final = ("raise ", "class ", "deque")

router = Router()
router.request_response(f"{SERVICE}/Facts")(host_telemetry.facts)
router.request_stream(f"{SERVICE}/Load")(host_telemetry.load)
router.request_stream(f"{SERVICE}/Lines")(host_telemetry.lines)
router.request_channel(f"{SERVICE}/Grep")(host_telemetry.grep)


# -- the server -----------------------------------------------------------------------------------


async def serve_both(socket: str) -> None:
    """Serve over both protocols until a signal stops the process."""
    by_ttrpc = partial(ttrpc.serve, router, f"unix://{socket}", data_mime_type=MIME)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            servers = [
                await nursery.start(serve, router, "tcp://127.0.0.1:0"),
                await nursery.start(by_ttrpc),
            ]
            for server in servers:
                print("listening on", *server.uris, flush=True)
            await anext(signals)
            for server in servers:
                await server.aclose()


# -- its client -----------------------------------------------------------------------------------


async def call_over_ttrpc(directory: Path) -> None:
    """Start the server, and call it over both protocols."""
    socket = str(directory / "host.sock")
    async with running("ttrpc server", python(__file__, socket)) as process:
        tcp, unix = await addresses("ttrpc server", process, 2)
        print(f"\none router over two protocols: {tcp} and {unix}", flush=True)
        try:
            async with (
                connect(tcp, data_mime_type=MIME) as requester,
                ttrpc.connect(unix) as client,
            ):
                service = Caller(requester)
                await compare_facts(service, client)
                await call_often(client)
                await compare_lines(service, client)
                await compare_matches(service, client)
                await run_out_of_time(client)
                await call_what_is_not_there(client)
        except (RSocketError, ttrpc.CallError, trio.EndOfChannel) as error:
            raise Failed(f"a call failed: {error}") from error


async def compare_facts(service: Caller, client: ttrpc.Client) -> None:
    began = time.perf_counter()
    answer = await client.unary(FACTS, b"")
    milliseconds = (time.perf_counter() - began) * 1000
    facts = await service.request_response(f"{SERVICE}/Facts", returns=host_telemetry.Facts)
    found = json.loads(answer)
    wanted = (facts.hostname, facts.kernel, facts.cpus)
    expect("the facts", (found["hostname"], found["kernel"], found["cpus"]), wanted)
    say("unary         Facts", f"{len(answer)} bytes, {milliseconds:.1f} ms; RSocket says the same")


async def call_often(client: ttrpc.Client) -> None:
    left = CALLS

    async def call() -> None:
        nonlocal left
        while left:
            left -= 1
            await client.unary(FACTS, b"")

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(IN_FLIGHT):
            nursery.start_soon(call)
    rate = CALLS / (time.perf_counter() - began)
    say(f"unary         Facts {CALLS} times, {IN_FLIGHT} in flight", f"{rate:,.0f} calls/s")


async def compare_lines(service: Caller, client: ttrpc.Client) -> None:
    began = time.perf_counter()
    async with client.server_stream(LINES, json.dumps(FILE).encode()) as replies:
        lines = [json.loads(line) async for line in replies]
    rate = len(lines) / (time.perf_counter() - began)
    async with service.request_stream(f"{SERVICE}/Lines", FILE, returns=str) as stream:
        expect(f"the lines of {FILE}", lines, [line async for line in stream])
    say(f"server stream Lines {FILE}", f"{len(lines)} messages, {rate:,.0f} messages/s; the same")


async def compare_matches(service: Caller, client: ttrpc.Client) -> None:
    wanted = [host_telemetry.Grep(FILE, pattern) for pattern in PATTERNS]
    matches: list[dict[str, Any]] = []
    async with client.bidi_stream(GREP) as call:
        for one in wanted:
            await call.send(json.dumps({"file": one.file, "pattern": one.pattern}).encode())
        await call.end()
        matches += [json.loads(match) async for match in call]
    async with service.request_channel(
        f"{SERVICE}/Grep", wanted, returns=host_telemetry.Match
    ) as stream:
        lines = [match.line async for match in stream]
    expect("the matches", [match["line"] for match in matches], lines)
    say(f"bidi stream   Grep, {len(wanted)} patterns sent", f"{len(matches)} messages; the same")


async def run_out_of_time(client: ttrpc.Client) -> None:
    # The deadline goes out with the call, so the server stops sampling, too.
    samples = 0
    with trio.move_on_after(0.5) as scope:
        async with client.server_stream(LOAD, b'{"every": 0.2}') as replies:
            async for _ in replies:
                samples += 1
    if not scope.cancelled_caught:
        raise Failed("a stream without end has ended")
    say(
        "server stream Load every 0.2 s, deadline 0.5 s",
        f"{samples} messages, then the deadline ended it",
    )


async def call_what_is_not_there(client: ttrpc.Client) -> None:
    try:
        await client.unary(ABSENT, b"")
    except ttrpc.Unimplemented as error:
        say("unary         Absent", str(error))
    else:
        raise Failed("a method that does not exist has answered")


def say(what: str, result: str) -> None:
    print(f"  {what:<47} {result}", flush=True)


def expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Failed(f"{what} over ttrpc differ from those over RSocket")


if __name__ == "__main__":
    trio.run(serve_both, sys.argv[1])
