"""The mean latency of handlers, and the responder in front of them that measures it."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import Payload, Responder
from rsocket_trio.connection.latency import Latency, Timed


def test_the_mean_latency():
    """The mean of all times since it began; without any time there is no mean."""
    latency = Latency()
    assert latency.mean is None
    latency.add(1.0)
    latency.add(2.0)
    assert latency.mean == 1.5
    latency.begin_anew()
    assert latency.mean is None
    latency.add(4.0)
    assert latency.mean == 4.0


async def test_answers_are_timed_however_they_end(autojump_clock):
    """An answer, a failure and a cancellation each count with the time they took."""

    class Slow(Responder):
        async def request_response(self, payload):
            await trio.sleep(int(payload.data))
            if payload.data == b"2":
                raise ValueError("no")
            return payload

    latency = Latency()
    timed = Timed(Slow(), latency)
    assert await timed.request_response(Payload(b"1")) == Payload(b"1")
    assert latency.mean == pytest.approx(1.0)
    latency.begin_anew()
    with pytest.raises(ValueError, match="no"):
        await timed.request_response(Payload(b"2"))
    assert latency.mean == pytest.approx(2.0)
    latency.begin_anew()
    with trio.move_on_after(3.0):
        await timed.request_response(Payload(b"99"))
    assert latency.mean == pytest.approx(3.0)


async def test_other_interactions_are_passed_on(autojump_clock):
    """The other interactions reach the responder with their arguments, and are not timed."""
    log = []

    class Others(Responder):
        def body_responder(self, interaction, metadata):
            return (interaction, metadata)

        async def fire_and_forget(self, payload):
            await trio.sleep(1)
            log.append(payload)

        def request_stream(self, payload):
            return [payload]

        def request_channel(self, payload, payloads):
            return [payload, payloads]

        async def metadata_push(self, metadata):
            await trio.sleep(1)
            log.append(metadata)

    latency = Latency()
    timed = Timed(Others(), latency)
    payload = Payload(b"x")
    await timed.fire_and_forget(payload)
    await timed.metadata_push(b"pushed")
    assert log == [payload, b"pushed"]
    assert timed.request_stream(payload) == [payload]
    assert timed.request_channel(payload, "payloads") == [payload, "payloads"]
    assert timed.body_responder("request_stream", b"m") == ("request_stream", b"m")
    assert latency.mean is None
