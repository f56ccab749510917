"""``ttrpc stream``: call a streaming method, and print its responses as they arrive."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio

from rsocket_trio import ttrpc

from .exits import DONE, USAGE, Failure
from .payloads import read_lines, read_value
from .stdio import LineReader, Writer
from .ttrpc_client import run_call
from .ttrpc_messages import Messages, messages_of

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Call the method and print its responses until it ends, or ``--take`` responses.

    Raises:
        Failure: The arguments are wrong, there is no connection, or it was lost.
    """
    messages = messages_of(args, streaming=True)
    method = messages.method
    printer = _Printer(messages, args.take)
    if not method.kind.sends_stream:
        if len(args.data) > 1:
            raise Failure(f"{args.method} takes one request, not {len(args.data)}", USAGE)
        request = messages.read(read_value(args.data[0] if args.data else ""))

        async def receive(client: ttrpc.Client) -> int:
            async with client.server_stream(method, request, metadata=args.metadata) as replies:
                await printer.print_all(replies)
            return DONE

        return run_call(args, messages, receive)

    requests = _Requests(messages, read_lines(args.data))

    async def send(client: ttrpc.Client) -> int:
        async with client.client_stream(method, metadata=args.metadata) as call:
            with suppress(trio.BrokenResourceError):  # the server has answered already
                async for each in requests:
                    await call.send(each)
            await printer.print(await call.reply())
        return DONE

    async def exchange(client: ttrpc.Client) -> int:
        async with client.bidi_stream(method, metadata=args.metadata) as call:

            async def send_all() -> None:
                try:
                    async for each in requests:
                        await call.send(each)
                finally:
                    await call.end()

            await _beside(send_all, lambda: printer.print_all(call))
        return DONE

    return run_call(args, messages, exchange if method.kind.receives_stream else send)


class _Requests(AsyncIterator[Any]):
    """The requests of a call: given ones, or one for each line of standard input."""

    def __init__(self, messages: Messages, given: list[bytes] | None) -> None:
        self._messages = messages
        # All at once, so that a wrong one is found before the call begins.
        self._given = None if given is None else iter(self._read_all(given))
        self._stdin = LineReader()
        self._line = 0

    async def __anext__(self) -> Any:
        if self._given is not None:
            try:
                return next(self._given)
            except StopIteration:
                raise StopAsyncIteration from None
        line = b""
        while not line.strip():
            line = await anext(self._stdin)
            self._line += 1
        return self._read(line, f"line {self._line}")

    def _read_all(self, given: list[bytes]) -> list[Any]:
        if len(given) == 1:
            return [self._messages.read(given[0])]
        return [self._read(each, f"request {number}") for number, each in enumerate(given, 1)]

    def _read(self, data: bytes, where: str) -> Any:
        try:
            return self._messages.read(data)
        except Failure as failure:
            raise Failure(f"{where}: {failure.message}", failure.status) from failure


class _Printer:
    """Prints responses, ``--take`` of them at most."""

    def __init__(self, messages: Messages, take: int | None) -> None:
        self._messages = messages
        self._left = take
        self._writer = Writer()

    async def print(self, message: Any) -> None:
        await self._writer.write(self._messages.line(message))

    async def print_all(self, replies: AsyncIterable[Any]) -> None:
        async for each in replies:
            await self.print(each)
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    return


async def _beside(
    sending: Callable[[], Awaitable[None]], receiving: Callable[[], Awaitable[None]]
) -> None:
    """Run both until ``receiving`` returns or one of them fails; raise that one error."""
    failed_to_send: Exception | None = None
    failure: Exception | None = None

    async def send() -> None:
        nonlocal failed_to_send
        try:
            await sending()
        except (ttrpc.CallError, trio.BrokenResourceError) as error:
            # The receiving side goes on: it has the responses before the end of the call.
            failed_to_send = error if isinstance(error, ttrpc.CallError) else None
        except Exception as error:  # raised below: the nursery would wrap it in a group
            failed_to_send = error
            nursery.cancel_scope.cancel(reason="a request could not be sent")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        try:
            await receiving()
        except Exception as error:  # raised below: the nursery would wrap it in a group
            failure = error
        nursery.cancel_scope.cancel(reason="the call has ended")
    if failure is None:
        failure = failed_to_send
    if failure is not None:
        raise failure
