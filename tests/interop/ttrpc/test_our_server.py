"""Clients in Go and Rust call our server."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from rsocket_trio import ttrpc
from tests.waiting import until

pytestmark = pytest.mark.interop

NO_STATUS = -1
"""The error is one of the client's library and not the status of an answer."""

ECHOED = {"seq": 2, "msg": "hi"}
ITEM = {"seq": 2, "msg": "item"}

ANSWERS = {
    "echo": [ECHOED],
    "empty": [{"seq": 2}],
    "no_deadline": [{"seq": 2, "msg": "nodl"}],
    "concurrent": [{"num": 50}],
    "metadata": [{"seq": 2, "msg": "map[some-key:[one two]]"}],
    "echo_stream": [{"seq": 2 * n + 1, "msg": "item"} for n in range(5)] + [{"seq": 1}],
    "sum_stream": [{"sum": 4950, "num": 100}],
    "sum_nothing": [{}],
    "divide_stream": [{"add": 3}] * 4,
    "divide_by_none": [],
    "echo_null": [{}],
    "echo_null_stream": [{}] * 10,
    "empty_payload_stream": [{"seq": 1}, {"seq": 2}],
    "interleaved": [{"seq": n + 1, "msg": kind} for n in range(20) for kind in ("unary", "stream")]
    + [{"sum": 190, "num": 20}],
    # The frame of the request and that of the answer are just below the limit of 4 MiB.
    "large": [{"seq": 2, "length": 4 * 2**20 - 100}],
}
"""Scenarios that succeed, with the answers that the client has seen."""

ERRORS = {
    "error": (2, "plain error"),
    "server_deadline": (4, None),
    "no_service": (12, None),
    "no_method": (12, None),
    "stream_error": (2, "stream err"),
    # Go's server closes the connection here, with all its calls.
    "big_answer": (8, None),
}
"""Scenarios that fail, with the code and, if it is of the handler, the text."""


@pytest.fixture
def client_of(peer, peers, address):
    """``async with client_of(*scenarios) as (client, server)``: a peer's client of our server."""

    @asynccontextmanager
    async def run(*scenarios, uri=address, **settings):
        async with (
            peers.served(uri, **settings) as server,
            peers.calling(peer, server.uris[0], scenarios) as client,
        ):
            yield client, server

    return run


async def test_all_kinds_of_calls(client_of):
    """Each call of each kind gets its answers, one after the other on one connection."""
    async with client_of(*ANSWERS) as (client, server):
        for scenario, answers in ANSWERS.items():
            expected = {"scenario": scenario, "answers": answers, "code": 0, "error": ""}
            assert await client.seen() == expected
        assert server.statistics().accepted == 1


@pytest.mark.parametrize("scenario", ERRORS)
async def test_errors(client_of, scenario):
    """A call that fails has its code, and the connection serves the next one."""
    code, text = ERRORS[scenario]
    async with client_of(scenario, "echo") as (client, _):
        seen = await client.seen()
        assert seen["code"] == code
        assert text in (None, seen["error"])
        assert (await client.seen())["answers"] == [ECHOED]


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:0", "unix://@ttrpc-{}"])
async def test_other_addresses(client_of, directory, where):
    """TCP, and a socket of the abstract namespace."""
    uri = where.format(directory.name)
    async with client_of("echo", "echo_stream", uri=uri) as (client, _):
        for scenario in ("echo", "echo_stream"):
            assert (await client.seen())["answers"] == ANSWERS[scenario]


async def test_the_deadline_arrives(client_of):
    """A handler sees what is left of the 20 seconds that the client has set."""
    async with client_of("deadline") as (client, _):
        (answer,) = (await client.seen())["answers"]
        assert 0 < int(answer["msg"].removeprefix("dl=")) <= 20_000


async def test_a_handler_ends_with_the_deadline_of_its_caller(client_of):
    """The client has given up and says nothing, and the handler still ends."""
    async with client_of("own_deadline", "echo") as (client, server):
        assert (await client.seen())["answers"] == []
        assert (await client.seen())["answers"] == [ECHOED]
        await until(lambda: server.statistics().active_calls == 0)


async def test_a_request_that_is_too_long_stays_with_the_client(client_of):
    """Both libraries refuse to send it, and their connection goes on."""
    async with client_of("oversize", "echo") as (client, server):
        assert "exceed maximum message size" in (await client.seen())["error"]
        assert (await client.seen())["answers"] == [ECHOED]
        assert server.statistics().calls == 1


async def test_an_abandoned_stream_harms_no_other_call(client_of):
    """The client leaves a stream, which the protocol cannot tell; other calls are answered."""
    async with client_of("abandoned", "echo", "sum_stream", "sleep") as (client, server):
        assert (await client.seen())["answers"] == [ITEM]
        for scenario in ("echo", "sum_stream"):
            assert (await client.seen())["answers"] == ANSWERS[scenario]
        await client.begun()
        await until(lambda: server.statistics().active_calls == 2)
    # The handler of the stream ended with the connection: the server could not stop otherwise.


async def test_a_stopped_server_answers_the_call_that_runs(client_of):
    """`aclose` lets the call in flight finish; the next one is refused or finds it closed."""
    async with client_of("sleep", "echo") as (client, server):
        await client.begun()
        await until(lambda: server.statistics().active_calls == 1)
        await server.aclose(grace=20)
        assert (await client.seen())["answers"] == [{"seq": 2, "msg": "sleep"}]
        after = await client.seen()
        assert after["answers"] == []
        assert after["code"] in {NO_STATUS, ttrpc.StatusCode.UNAVAILABLE}


async def test_calls_learn_that_the_connection_is_closed(client_of):
    """A server that closes without grace ends all calls of the client."""
    async with client_of("until_closed") as (client, server):
        await client.begun()
        await until(lambda: server.statistics().active_calls > 0)
        await server.aclose(grace=0)
        seen = await client.seen()
        assert (seen["answers"], seen["code"]) == ([], NO_STATUS)
        assert "closed" in seen["error"] or "eof" in seen["error"]


MODES = ["sequential", "concurrent", "client_stream", "server_stream", "bidi_stream"]


@pytest.mark.parametrize("mode", MODES)
async def test_the_measuring_client(peer, peers, programs, address, mode):
    """What `make bench` runs: it checks the answers, and counts."""
    async with peers.served(address) as server:
        argv = [str(peers.PROGRAMS[peer]), "bench", server.uris[0], mode, "0.2"]
        async with programs.running(argv) as client:
            result = json.loads(await client.line())
    assert result["mode"] == mode
    assert result["count"] > 0
