"""``request``, ``fnf`` and ``push``: send one message, and print the answer if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rsocket_trio import Payload

from .client import run_client
from .data_types import Answers, DataType
from .exits import DONE, USAGE, Failure
from .metadata import request_metadata
from .payloads import read_bytes
from .stdio import Writer

if TYPE_CHECKING:
    import argparse

    from rsocket_trio import Requester

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Send the message of the command. Print the response of a request, if it has a value."""
    if args.command == "push":
        if args.data is not None and args.metadata is not None:
            raise Failure("DATA and --metadata mean the same for push: give only one", USAGE)
        pushed = read_bytes((args.metadata if args.data is None else args.data) or "")

        async def push(requester: Requester) -> int:
            await requester.metadata_push(pushed)
            return DONE

        return run_client(args, push)

    metadata, raw = request_metadata(args)
    payload = Payload(DataType(args.data_mime, raw=args.raw).read(args.data or ""), raw)

    async def fire_and_forget(requester: Requester) -> int:
        await requester.fire_and_forget(payload, route=args.route, metadata=metadata)
        return DONE

    async def request_response(requester: Requester) -> int:
        response = await requester.request_response(
            payload, route=args.route, metadata=metadata, idempotent=args.idempotent
        )
        answers = Answers(args)
        if response is not None:
            await Writer().write(answers.line(response))
        return answers.status

    return run_client(args, fire_and_forget if args.command == "fnf" else request_response)
