"""What the tests of the command line serve by ttrpc: the known answers, and errors with details."""

from __future__ import annotations

from collections.abc import AsyncIterator

from rsocket_trio import Router
from rsocket_trio.testing import ttrpc_peer
from rsocket_trio.ttrpc import AnyMessage, CallError, NotFound, Service, ServiceBase

failing = Service("test.Failing")
router = Router()
number = 7
mixed = [failing, "text"]


class Base(ServiceBase):
    """An object of a generated class has no other base."""

    __ttrpc_service__ = "test.Base"


base = Base()


@failing.method("Known")
async def known(request: ttrpc_peer.EchoPayload) -> None:
    """Fail with a detail of a known type, and one of another."""
    name = "type.googleapis.com/ttrpc.integration.streaming.EchoPayload"
    detail = AnyMessage(name, request.SerializeToString())
    raise NotFound("no such\ntask\x1b[31m", details=[detail, AnyMessage("x/Unknown", b"\xff")])


@failing.method("Number")
async def numbered(_request: bytes) -> bytes:
    raise CallError("a code of its own", code=77)


@failing.method("Wrapped")
async def wrapped(_request: bytes) -> bytes:
    return b"\x0a\x09x/Unknown\x12\x01\xff"  # a google.protobuf.Any of a type nobody knows


@failing.method("Reserved")
async def reserved(_request: bytes) -> bytes:
    return b"\xff"


@router.request_response("test.Routed/Upper")
async def upper(data: bytes) -> bytes:
    return data.upper()


@router.request_stream("test.Routed/Letters")
async def letters(data: bytes) -> AsyncIterator[bytes]:
    for each in data:
        yield bytes([each])


app = [ttrpc_peer.app, failing]
