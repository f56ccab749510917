"""Frames that answer a request, and a responder that notes how its handlers end."""

from __future__ import annotations

import trio

from rsocket_trio.errors import ApplicationError, ErrorCode
from rsocket_trio.frames import ErrorFrame, PayloadFrame
from rsocket_trio.payload import Payload
from rsocket_trio.testing.peer import KnownAnswers


class Watched(KnownAnswers):
    """Notes how its handlers end."""

    def __init__(self):
        super().__init__()
        self.log = []

    async def request_response(self, payload):
        try:
            return await super().request_response(payload)
        except trio.Cancelled:
            self.log.append("cancelled")
            raise

    async def fire_and_forget(self, payload):
        raise ApplicationError("it is only logged")

    async def request_stream(self, payload):
        try:
            for number in range(int(payload.data)):
                yield Payload(b"%d" % number)
            self.log.append("completed")
        finally:
            self.log.append("closed")


def item(data, **flags):
    return lambda stream_id: PayloadFrame(stream_id, next=True, data=data, **flags)


def complete(data=b""):
    return lambda stream_id: PayloadFrame(stream_id, complete=True, data=data)


def failure(text):
    return lambda stream_id: ErrorFrame(stream_id, ErrorCode.APPLICATION_ERROR, text)
