"""Any frames and any bytes from a stranger: the connection lives or ends, and never crashes."""

from __future__ import annotations

import logging

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rsocket_trio import RSocketError
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.ttrpc import TtrpcConfig, TtrpcLimits, connect
from rsocket_trio.ttrpc.wire.envelopes import (
    Request,
    Response,
    Status,
    encode_request,
    encode_response,
)
from rsocket_trio.ttrpc.wire.frames import HEADER
from tests.ttrpc.scenes import (
    CHAT,
    COUNT,
    ECHO,
    JOIN,
    SERVICE,
    Stranger,
    client_of_stranger,
    pair,
    request,
    stranger_to,
    things,
)

CONFIG = TtrpcConfig(
    half_close_timeout=0.05,
    overflow_patience=0.001,
    limits=TtrpcLimits(
        max_message_size=500, max_active_requests=4, max_stream_size=300, max_unread_size=600
    ),
)
MODEST = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

IDS = st.sampled_from([0, 1, 2, 3, 5, 7, 9, 2**32 - 1])
FLAGS = st.sampled_from([0, 1, 2, 4, 5, 6, 0xFF])
NAMES = st.sampled_from(["Echo", "Count", "Join", "Chat", "None", ""])
REQUESTS = st.builds(
    lambda *fields: encode_request(Request(*fields)),
    st.sampled_from([SERVICE, "", "x.Y"]),
    NAMES,
    st.sampled_from([b"", b"3", b"x", bytes(200)]),
    st.sampled_from([0, 0, 0, -1, 1, 10**6, 2**63 - 1]),
    st.sampled_from([(), (("k", "v"),), (("k", ""),) * 200]),
)
RESPONSES = st.builds(
    lambda status, payload: encode_response(Response(status, payload)),
    st.sampled_from([None, Status(0), Status(5, "no"), Status(-7), Status(99, "x" * 100)]),
    st.sampled_from([b"", b"x", bytes(200)]),
)
BODIES = st.one_of(REQUESTS, RESPONSES, st.binary(max_size=40), st.just(bytes(600)))


@st.composite
def frames(draw):
    body = draw(BODIES)
    kind = draw(st.sampled_from([1, 1, 1, 2, 3, 3, 3, 0, 4, 255]))
    return HEADER.pack(len(body), draw(IDS), kind, draw(FLAGS)) + body


EXPECTED = (RSocketError, trio.BrokenResourceError, trio.EndOfChannel)

TRAFFIC = st.lists(frames(), max_size=25)
NOISE = st.one_of(st.just(b""), st.binary(max_size=60))


def crashes(caplog):
    """Lines of the log that say that code of this package has failed."""
    return [each for each in caplog.records if "report" in each.getMessage()]


@pytest.mark.parametrize("over", ["memory", "socket"])
@given(traffic=TRAFFIC, noise=NOISE, split=st.integers(1, 400))
@MODEST
def test_any_frames_to_a_server(over, traffic, noise, split, caplog):
    """It answers a request afterwards; behind noise it may also have ended the connection.

    Another connection of the same services is served meanwhile, and no task is left.
    """
    caplog.clear()
    service = things()

    async def main():
        async with (
            assert_no_leaks(),
            stranger_to(service, over=over) as other,
            stranger_to(service, config=CONFIG, over=over) as stranger,
        ):
            await other.ask(1)
            data = b"".join(traffic)
            try:
                for start in range(0, len(data), split):
                    await stranger.send(data[start : start + split])
                await trio.testing.wait_all_tasks_blocked()
                used = any(HEADER.unpack_from(each)[1] == 2**32 - 1 for each in traffic)
                if not used:
                    await trio.sleep(0.002)  # for the streams that are not read
                    await stranger.drain()
                    await stranger.send(request(11, payload=b"alive?"))
                    answers = [each for each in await stranger.drain() if each.stream_id == 11]
                    full = answers and answers[0].code == 8  # of calls of this stranger
                    assert full or [each.payload for each in answers] == [b"alive?"]
                await stranger.send(noise)
                await stranger.end_sending()
            except trio.BrokenResourceError:
                raise AssertionError("the connection has ended") from None
            await other.ask(3)

    trio.run(main)
    assert not crashes(caplog)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("over", ["memory", "socket"])
@given(data=st.binary(max_size=300))
@MODEST
def test_any_bytes_to_a_server(over, data, caplog):
    caplog.clear()

    async def main():
        async with assert_no_leaks(), stranger_to(things(), config=CONFIG, over=over) as stranger:
            await stranger.send(data)
            await stranger.end_sending()
            await stranger.until_end()

    trio.run(main)
    assert not crashes(caplog)


@pytest.mark.parametrize("over", ["memory", "socket"])
@given(traffic=TRAFFIC, noise=NOISE)
@MODEST
def test_any_frames_to_a_client(over, traffic, noise, caplog):
    """Each call ends with an answer or an error, once the connection ends; none is left."""
    caplog.clear()
    outcomes = []

    async def use(function):
        try:
            outcomes.append(await function())
        except Exception as error:
            outcomes.append(error)

    async def main():
        here, there = pair(over)
        async with assert_no_leaks(), there, trio.open_nursery() as nursery:
            stranger = Stranger(there)
            nursery.start_soon(stranger.read)
            async with connect(here, config=CONFIG) as client:

                async def unary():
                    return await client.unary(ECHO, b"x")

                async def server_stream():
                    async with client.server_stream(COUNT, b"x") as replies:
                        return [each async for each in replies]

                async def client_stream():
                    async with client.client_stream(JOIN) as call:
                        await call.send(b"x")
                        return await call.reply()

                async def bidi_stream():
                    async with client.bidi_stream(CHAT) as call:
                        await call.send(b"x")
                        return [each async for each in call]

                for call in (unary, server_stream, client_stream, bidi_stream):
                    nursery.start_soon(use, call)
                await stranger.drain()
                await stranger.send(*traffic, noise)
                await stranger.drain()
                await stranger.leave()
                await client.wait_closed()
                await trio.testing.wait_all_tasks_blocked()
                assert len(outcomes) == 4
                errors = [each for each in outcomes if isinstance(each, Exception)]
                assert all(isinstance(each, EXPECTED) for each in errors), errors
                assert client.statistics().open_calls == 0
                assert client.statistics().unread_size == 0
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert not crashes(caplog)


async def test_a_client_survives_its_stranger():
    """The probe of the tests above can fail: an answer to a call that nobody makes is ignored."""
    async with client_of_stranger() as (client, stranger):
        await stranger.send(HEADER.pack(0, 99, 2, 0))
        await stranger.drain()
        assert client.statistics().ignored_frames == 1
