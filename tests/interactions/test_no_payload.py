"""Objects that are no payload of bytes: the type and the text of the error at each place.

Modules of rsocket_trio.connection: sendable.
"""

from __future__ import annotations

import pytest

from rsocket_trio import ApplicationError, Payload, Responder, StreamedPayload


class Bytes(bytes):
    """A subclass, which is refused like any other type."""


async def chunks():
    yield b""


NO_PAYLOAD = "a Payload is needed, not {}; Payload(b'...') holds bytes"
NO_BYTES = (
    "a Payload with data of type bytes is needed, not with {}; encode it first, e.g. with "
    "rsocket_trio.codecs"
)
NO_METADATA = "metadata must be bytes or None, not {}"
THINGS = [
    (b"bytes", NO_PAYLOAD.format("bytes")),
    ("text", NO_PAYLOAD.format("str")),
    (5, NO_PAYLOAD.format("int")),
    (Payload, NO_PAYLOAD.format("type")),
    ((b"data", b"metadata"), NO_PAYLOAD.format("tuple")),
    (Payload("text"), NO_BYTES.format("str")),
    (Payload(None), NO_BYTES.format("NoneType")),
    (Payload(bytearray(b"x")), NO_BYTES.format("bytearray")),
    (Payload(Bytes(b"x")), NO_BYTES.format("Bytes")),
    (Payload(b"", "text"), NO_METADATA.format("str")),
    (Payload(b"", Bytes(b"x")), NO_METADATA.format("Bytes")),
    (Payload("text", "text"), NO_BYTES.format("str")),
    (StreamedPayload(chunks(), "text"), NO_METADATA.format("str")),
]
pytestmark = pytest.mark.parametrize(
    ("thing", "text"), THINGS, ids=lambda value: value[:40] if isinstance(value, str) else ""
)


class Answering(Responder):
    """Answers with the object, or with a payload and then the object."""

    def __init__(self, thing):
        self.thing = thing

    async def request_response(self, payload):
        return self.thing

    async def request_stream(self, payload):
        yield Payload(b"first")
        yield self.thing

    async def request_channel(self, payload, payloads):
        yield Payload(b"first")
        yield self.thing


class Echo(Responder):
    async def request_response(self, payload):
        return payload

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield item


def logged(caplog):
    """The type and the text of the failure in the log."""
    [record] = [record for record in caplog.records if record.exc_info]
    return record.exc_info[0], str(record.exc_info[1])


async def test_a_wrong_answer(link, thing, text, caplog):
    """The requester gets a plain error, the log the cause; the connection goes on."""
    async with link(Answering(thing)) as here:
        with pytest.raises(ApplicationError) as caught:
            await here.requester.request_response()
        assert caught.value.message == "the handler failed"
        here.assert_idle()
    assert logged(caplog) == (TypeError, text)


@pytest.mark.parametrize("kind", ["request_stream", "request_channel"])
async def test_a_wrong_item(link, thing, text, kind, caplog):
    """Items before it arrive; the stream ends with it."""
    async with link(Answering(thing)) as here:
        payload = [Payload()] if kind == "request_channel" else Payload()
        async with getattr(here.requester, kind)(payload) as items:
            assert (await items.receive()).data == b"first"
            with pytest.raises(ApplicationError) as caught:
                await items.receive()
            assert caught.value.message == "the handler failed"
    assert logged(caplog) == (TypeError, text)


@pytest.mark.parametrize("kind", ["request_response", "fire_and_forget", "request_stream"])
async def test_a_wrong_request(link, thing, text, kind):
    """No frame is sent, and the caller gets the error."""
    async with link(Echo()) as here:
        with pytest.raises(TypeError) as caught:
            request = getattr(here.requester, kind)(thing)
            if kind == "request_stream":
                async with request:
                    pass
            else:
                await request
        assert str(caught.value) == text
        assert await here.requester.request_response() == Payload()
        here.assert_idle()


@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
async def test_a_wrong_item_of_a_source(link, thing, text, before):
    """The block raises the error; the channel ends at the peer."""
    async with link(Echo()) as here:
        source = [Payload(b"first")] * before + [thing]
        with pytest.raises(TypeError) as caught:
            async with here.requester.request_channel(source) as items:
                async for _ in items:
                    pass
        assert str(caught.value).startswith(text.partition(",")[0])
        assert await here.requester.request_response() == Payload()
