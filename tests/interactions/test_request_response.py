"""request_response between two real ends, in both directions."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    Canceled,
    ConnectionConfig,
    CustomError,
    Invalid,
    Limits,
    Payload,
    Rejected,
    RemoteProtocolError,
    Responder,
)

SMALL = ConnectionConfig(fragment_size=64)
BIG = bytes(range(256)) * 2**16  # 16 MiB


class Handler(Responder):
    """Answers with a function of the request."""

    def __init__(self, answer):
        self.answer = answer

    async def request_response(self, payload):
        result = self.answer(payload)
        if isinstance(result, Exception):
            raise result
        return result


def echo(payload):
    return payload


@pytest.mark.parametrize("metadata", [None, b"", b"m", b"m" * 500])
@pytest.mark.parametrize("data", [b"", b"d", b"d" * 500])
@pytest.mark.parametrize("config", [ConnectionConfig(), SMALL], ids=["whole", "fragments"])
async def test_payloads_arrive_as_they_were_sent(link, data, metadata, config):
    """Data and metadata, absent, empty and present, whole and in fragments, both ways."""
    seen = []

    def answer(payload):
        seen.append(payload)
        return payload

    async with link(Handler(answer), config) as here:
        payload = Payload(data, metadata)
        assert await here.requester.request_response(payload) == payload
        assert seen == [payload]
        here.assert_idle()


@pytest.mark.parametrize("config", [ConnectionConfig(), SMALL], ids=["64K", "64"])
async def test_sixteen_mebibytes_both_ways(link, config):
    """A payload as large as the largest frame arrives whole, with any fragment size."""
    payload = Payload(BIG if config is not SMALL else BIG[: 2**20], b"m" * 1000)
    async with link(Handler(echo), config) as here:
        assert await here.requester.request_response(payload) == payload
        here.assert_idle()


async def test_completion_without_a_payload(link):
    """It is None on both sides; an empty payload is a payload."""
    async with link(Handler(lambda request: None if request.data else Payload())) as here:
        assert await here.requester.request_response(Payload(b"none")) is None
        assert await here.requester.request_response(Payload()) == Payload()


@pytest.mark.parametrize(
    "error",
    [
        ApplicationError("a"),
        Rejected("r"),
        Canceled("c"),
        Invalid("i"),
        CustomError("x", code=0x301),
        CustomError(b"\xff\xfe", code=0xFFFFFFFE),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_stream_errors_arrive_typed(link, error):
    """Type, code, data and stream id of a StreamError arrive, and the next request works."""
    async with link(Handler(lambda request: error if request.data else Payload(b"ok"))) as here:
        with pytest.raises(type(error)) as caught:
            await here.requester.request_response(Payload(b"?"))
        assert type(caught.value) is type(error)
        assert (caught.value.code, caught.value.data) == (error.code, error.data)
        assert caught.value.stream_id in {1, 2}
        assert await here.requester.request_response() == Payload(b"ok")
        here.assert_idle()


async def test_an_error_in_a_nursery_of_the_handler(link):
    """A nursery wraps its error in a group; a single error for the peer is still sent."""

    class Nested(Responder):
        async def request_response(self, payload):
            async with trio.open_nursery() as outer:
                outer.start_soon(trio.sleep_forever)
                async with trio.open_nursery():
                    raise Invalid("in two nurseries")

    async with link(Nested()) as here:
        with pytest.raises(Invalid, match="in two nurseries"):
            await here.requester.request_response()
        here.assert_idle()


@pytest.mark.parametrize("size", [2**20, 2**24 - 1 - 10, 2**24])
async def test_an_error_longer_than_a_frame(link, size):
    """ERROR has no fragments: the part of its data that fits arrives, and the connection lives."""
    config = ConnectionConfig(limits=Limits(max_frame_size=2**22))
    data = bytes(range(256)) * (size // 256)
    async with link(Handler(lambda _: ApplicationError(data)), config) as here:
        with pytest.raises(ApplicationError) as caught:
            await here.requester.request_response()
        assert caught.value.data == data[: 2**22 - 10]
        with pytest.raises(ApplicationError):
            await here.requester.request_response()
        here.assert_idle()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret"),
        ExceptionGroup("secret", [KeyError(1)]),
        ExceptionGroup("secret", [Invalid("secret"), KeyError(1)]),
    ],
)
async def test_the_text_of_other_errors_is_not_sent(link, error, caplog):
    """An unexpected exception is APPLICATION_ERROR at the peer and a log entry here."""
    async with link(Handler(lambda _: error)) as here:
        with pytest.raises(ApplicationError) as caught:
            await here.requester.request_response()
    assert b"secret" not in caught.value.data
    (record,) = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert record.exc_info[1] is error


@pytest.mark.parametrize("code", [0, 0x003, 0x101, 0x300, 0xFFFFFFFF])
async def test_codes_that_are_not_for_streams_are_not_sent(link, code, caplog):
    """If a handler raises a connection's code, APPLICATION_ERROR is sent, and it is logged."""
    async with link(Handler(lambda _: CustomError("text", code=code))) as here:
        with pytest.raises(ApplicationError, match="text"):
            await here.requester.request_response()
    assert "not for streams" in caplog.text


@pytest.mark.parametrize("answer", ["text", b"bytes", Payload("text"), Payload(b"", "text"), 0])
async def test_a_wrong_answer_fails_its_stream(link, answer, caplog):
    """A handler that returns no Payload of bytes fails its own stream."""
    async with link(Handler(lambda _: answer)) as here:
        with pytest.raises(ApplicationError):
            await here.requester.request_response()
        here.assert_idle()
    assert "a handler failed" in caplog.text


class Bytes(bytes):
    """A subclass."""


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (None, "a Payload is needed, not NoneType"),
        (b"bytes", "a Payload is needed, not bytes"),
        (Payload("text"), "data of type bytes is needed, not with str"),
        (Payload(bytearray(b"x")), "bytearray"),
        (Payload(Bytes(b"x")), "Bytes"),
        (Payload(b"", "text"), "metadata must be bytes or None, not str"),
    ],
)
async def test_requests_that_are_not_bytes(link, payload, text):
    """A request whose parts are not bytes is a TypeError that says so; no frame is sent."""
    async with link(Handler(echo)) as here:
        with pytest.raises(TypeError, match=text):
            await here.requester.request_response(payload)
        assert await here.requester.request_response() == Payload()
        here.assert_idle()


async def test_a_slow_handler_delays_no_other_request(link):
    """Requests behind one that waits are answered."""

    class Slow(Responder):
        async def request_response(self, payload):
            if payload.data == b"slow":
                await gate.wait()
            return payload

    gate = trio.Event()
    answers = []

    async def ask(data):
        answers.append((await here.requester.request_response(Payload(data))).data)

    async with link(Slow()) as here, trio.open_nursery() as nursery:
        for data in (b"slow", b"one", b"two"):
            nursery.start_soon(ask, data)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(answers) == [b"one", b"two"]
        gate.set()
    assert answers[-1] == b"slow"


async def test_a_thousand_requests_at_once(link):
    """Each caller gets its own answer."""
    answers = {}

    async def ask(data):
        answers[data] = (await here.requester.request_response(Payload(data))).data

    class Turns(Responder):
        async def request_response(self, payload):
            await trio.lowlevel.checkpoint()
            return payload

    async with link(Turns()) as here:
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(ask, b"%d" % number)
        here.assert_idle()
    assert answers == {b"%d" % number: b"%d" % number for number in range(1000)}


async def test_an_answer_past_the_limit(link):
    """It is cancelled at the responder, and a RemoteProtocolError at the requester."""
    config = ConnectionConfig(fragment_size=64, limits=Limits(max_payload_size=100))
    async with link(Handler(lambda request: Payload(b"x" * int(request.data)))) as sender:
        assert len((await sender.requester.request_response(Payload(b"101"))).data) == 101
    async with link(Handler(lambda request: Payload(b"x" * int(request.data))), config) as here:
        assert len((await here.requester.request_response(Payload(b"100"))).data) == 100
        with pytest.raises(RemoteProtocolError):
            await here.requester.request_response(Payload(b"1000"))
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_a_request_past_the_limit(link):
    """It is answered with an error, and only its stream ends."""
    config = ConnectionConfig(fragment_size=64, limits=Limits(max_payload_size=100))
    async with link(Handler(lambda _: Payload(b"ok")), config) as here:
        with pytest.raises(Invalid):
            await here.requester.request_response(Payload(b"x" * 1000))
        assert await here.requester.request_response(Payload(b"x" * 100)) == Payload(b"ok")
        await trio.testing.wait_all_tasks_blocked()
        here.assert_idle()


async def test_a_request_in_fragments_may_be_refused_early(link):
    """An early answer ends the sending of the request, and the room of the rest is given back."""
    config = ConnectionConfig(
        fragment_size=64, limits=Limits(max_payload_size=1000, max_outbox_size=200)
    )
    async with link(Handler(echo), config) as here:
        for _ in range(3):
            with pytest.raises(Invalid):
                await here.requester.request_response(Payload(b"x" * 10**6))
        assert await here.requester.request_response(Payload(b"y" * 900)) == Payload(b"y" * 900)
        assert here.requester.statistics().queued_size == 0
        here.assert_idle()
