"""Peers that stop at each step of the beginning: nobody waits for them without an end."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectFailed, rsio
from rsocket_trio.rsio.wire.messages import ClientHello, Goodbye, ServerHello, encode
from rsocket_trio.testing.leaks import assert_no_leaks

CONFIG = rsio.RsioConfig(hello_timeout=3, goodbye_timeout=2)
SERVER = encode(ServerHello(0, (1, 300)))
CLIENT = encode(ClientHello(0, (1, 300)))
BYE = encode(Goodbye("not now"))


@pytest.mark.parametrize("trickle", [False, True], ids=["silent", "trickling"])
@pytest.mark.parametrize("octets", range(len(SERVER)))
async def test_a_server_that_stops_in_its_hello(octets, trickle, autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    began = trio.current_time()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        nursery.start_soon(send, ours, SERVER[:octets], trickle)
        with pytest.raises(ConnectFailed, match="no hello came within 3 s"):
            async with rsio.connect(theirs, config=CONFIG):
                raise AssertionError("it connected")
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize("trickle", [False, True], ids=["silent", "trickling"])
@pytest.mark.parametrize("octets", range(len(CLIENT)))
async def test_a_client_that_stops_in_its_hello(octets, trickle, autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    began = trio.current_time()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        nursery.start_soon(send, ours, CLIENT[:octets], trickle)
        await rsio.serve_stream({}, theirs, config=CONFIG, on_connection=never_called)
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began == pytest.approx(5, abs=0.5)


@pytest.mark.parametrize("octets", range(1, len(BYE)))
async def test_a_server_that_stops_in_its_goodbye(octets, autojump_clock):
    """The block is entered; leaving it takes no longer than the wait for a goodbye."""
    ours, theirs = trio.testing.memory_stream_pair()
    await ours.send_all(SERVER + BYE[:octets])
    began = trio.current_time()
    async with assert_no_leaks():
        async with rsio.connect(theirs, config=CONFIG):
            pass
    assert trio.current_time() - began == pytest.approx(2, abs=0.5)


@pytest.mark.parametrize(
    "address", ["rsio+ws://127.0.0.1:{}/x", "rsios://127.0.0.1:{}", "rsio+wss://127.0.0.1:{}/x"]
)
async def test_a_server_that_answers_no_handshake(address):
    async def silent(stream):
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, silent, 0, host="127.0.0.1"))
        uri = address.format(listeners[0].socket.getsockname()[1])
        config = rsio.RsioConfig(connect_timeout=0.1)
        with trio.fail_after(5), pytest.raises(ConnectFailed):
            async with rsio.connect(uri, config=config):
                raise AssertionError("it connected")
        nursery.cancel_scope.cancel()


async def never_called(_connection):
    raise AssertionError("there was no hello")


async def send(stream, octets, trickle):
    """Send at once, or an octet each half a second."""
    if not trickle:
        await stream.send_all(octets)
        return
    for at in range(len(octets)):
        await stream.send_all(octets[at : at + 1])
        await trio.sleep(0.5)
