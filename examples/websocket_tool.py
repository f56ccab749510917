"""A command-line client of host_telemetry.py over WebSocket.

    python examples/websocket_tool.py facts
    python examples/websocket_tool.py load --every 0.5 --take 5
    python examples/websocket_tool.py lines typing.py | head
    python examples/websocket_tool.py grep typing.py Protocol deque
    python examples/websocket_tool.py --uri ws://127.0.0.1:7879/rsocket note 'all is well'

It shares no code with the service; it knows only the JSON that the service sends.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Final

import trio

from rsocket_trio import Caller, RSocketError, StreamError, connect

DEFAULT_URI: Final = "ws://127.0.0.1:7879/rsocket"


def shown(text: str) -> str:
    """A text of the service without what a terminal would obey, such as the escapes for colours."""
    return "".join(
        each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in text
    )


async def facts(service: Caller, args: argparse.Namespace) -> None:
    answer = await service.request_response("host.facts")
    for name, value in answer.items():
        print(shown(f"{name.replace('_', ' '):<18}{value}"))


async def load(service: Caller, args: argparse.Namespace) -> None:
    async with service.request_stream("host.load", {"every": args.every}, prefetch=2) as samples:
        async for sample in samples:
            bar = "#" * round(sample["busy"] * 40)
            print(f"{sample['busy']:4.0%} {bar:<40} load {sample['load_1']:.2f}", flush=True)
            args.take -= 1
            if args.take == 0:
                break  # leaving the block cancels the stream


async def lines(service: Caller, args: argparse.Namespace) -> None:
    async with service.request_stream("file.lines", args.file) as lines_of_file:
        async for line in lines_of_file:
            print(shown(line))


async def grep(service: Caller, args: argparse.Namespace) -> None:
    patterns = [{"file": args.file, "pattern": pattern} for pattern in args.patterns]
    async with service.request_channel("file.grep", patterns) as matches:
        async for match in matches:
            print(shown(f"{match['number']}: {match['line']}"))


async def note(service: Caller, args: argparse.Namespace) -> None:
    await service.fire_and_forget("note", args.text)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description="A client of the telemetry example, over WebSocket.")
    top.add_argument("--uri", default=DEFAULT_URI, help=f"ws:// or wss://; default {DEFAULT_URI}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(run.__name__, help=text, description=text)
        added.set_defaults(run=run)
        return added

    command(facts, "print facts about the machine")
    one = command(load, "print how busy the machine is, sample by sample")
    one.add_argument("--every", type=float, default=1.0, help="seconds between samples; default 1")
    one.add_argument("--take", type=int, default=0, help="stop after this number of samples")
    command(lines, "print the lines of a file").add_argument("file")
    one = command(grep, "print the lines of a file that contain one of the patterns")
    one.add_argument("file")
    one.add_argument("patterns", nargs="+", metavar="PATTERN")
    command(note, "leave a note").add_argument("text")
    return top


async def talk(args: argparse.Namespace) -> None:
    async with connect(args.uri, data_mime_type="application/json") as requester:
        await args.run(Caller(requester), args)


def main() -> str | int:
    args = parser().parse_args()
    try:
        trio.run(talk, args)
    except BrokenPipeError:  # the reader of the output has closed the pipe, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except StreamError as error:
        return f"the service answered with an error: {error.message}"
    except (RSocketError, ValueError) as error:  # no connection, or a malformed address
        return str(error)
    return 0


if __name__ == "__main__":
    status: str | int = 130  # as shells report Ctrl-C
    try:
        status = main()
    except* KeyboardInterrupt:
        pass
    sys.exit(status)
