"""``stream`` and ``channel``: print the items of a stream as they arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from rsocket_trio import ConnectionConfig, Payload

from .client import run_client
from .data_types import Answers, DataType
from .metadata import request_metadata
from .payloads import read_lines
from .stdio import LineReader, Writer

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import PayloadStream, Requester

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Open the stream or channel and print its items until it ends, or ``--take`` items."""
    metadata, raw = request_metadata(args)
    prefetch, first = _demand(args.prefetch, args.take)
    data_type = DataType(args.data_mime, raw=args.raw)
    if args.command == "stream":
        request = Payload(data_type.read(args.data or ""), raw)

        async def request_stream(requester: Requester) -> int:
            opened = requester.request_stream(
                request,
                route=args.route,
                metadata=metadata,
                prefetch=prefetch,
                initial_request_n=first,
                idempotent=args.idempotent,
            )
            return await _print(opened, args)

        return run_client(args, request_stream)

    given = read_lines(args.data, data_type.read, data_type.sent)

    async def request_channel(requester: Requester) -> int:
        opened = requester.request_channel(
            _ChannelPayloads(data_type, given, raw),
            route=args.route,
            metadata=metadata,
            prefetch=prefetch,
            initial_request_n=first,
        )
        return await _print(opened, args)

    return run_client(args, request_channel)


def _demand(prefetch: int | None, take: int | None) -> tuple[int | None, int | None]:
    # Returns prefetch and initial request-n. If --take fits into one window, the request asks for
    # exactly that many items and no more (prefetch 0), so the peer produces no unused item.
    # Otherwise the demand is as usual.
    window = ConnectionConfig().prefetch if prefetch is None else prefetch
    return (0, take) if take is not None and take <= window else (prefetch, None)


async def _print(
    opened: AbstractAsyncContextManager[PayloadStream], args: argparse.Namespace
) -> int:
    writer, answers, left = Writer(), Answers(args), args.take
    async with opened as stream:
        async for item in stream:
            await writer.write(answers.line(item))
            if left is not None:
                left -= 1
                if left == 0:
                    break
    return answers.status


class _ChannelPayloads(AsyncIterator[Payload]):
    """The payloads of a channel. The first one goes with the request and carries the metadata."""

    def __init__(
        self, data_type: DataType, given: list[bytes] | None, metadata: bytes | None
    ) -> None:
        self._type = data_type
        self._given = None if given is None else iter(given)
        self._stdin = LineReader()
        self._metadata = metadata

    async def __anext__(self) -> Payload:
        if self._given is None:
            data = self._type.sent(await anext(self._stdin))
        else:
            try:
                data = next(self._given)
            except StopIteration:
                raise StopAsyncIteration from None
        metadata, self._metadata = self._metadata, None
        return Payload(data, metadata)
