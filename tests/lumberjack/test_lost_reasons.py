"""When a connection breaks, errors and the log give the reason, also from an error without text."""

from __future__ import annotations

import logging
import ssl

import pytest
import trio
import trio.testing

from rsocket_trio import lumberjack
from rsocket_trio.lumberjack import ShipError, ShipperConfig
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from tests.lumberjack.receiving import full_window, served, shared
from tests.lumberjack.shipping import HOST


def alert():
    """What trio raises when the peer's TLS sends an alert: the text is in the cause."""
    error = trio.BrokenResourceError()
    error.__cause__ = ssl.SSLError(1, "[SSL] tlsv13 alert certificate required")
    return error


class Alerted(trio.abc.Stream):
    """A stream that breaks in one direction; the other one waits."""

    def __init__(self, fails):
        self._fails = fails

    async def _use(self, direction):
        await trio.lowlevel.checkpoint()
        if direction == self._fails:
            raise alert()
        await trio.sleep_forever()

    async def receive_some(self, max_bytes=None):
        await self._use("receive")

    async def send_all(self, data):
        await self._use("send")

    async def wait_send_all_might_not_block(self):
        await trio.lowlevel.checkpoint()

    async def aclose(self):
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("fails", ["receive", "send"])
async def test_client(monkeypatch, autojump_clock, fails):
    """The error of `send` says what the server's TLS said."""

    async def dial(uri, shake_hands, **_):
        info = TransportInfo(scheme="memory", peer=str(uri))
        return await shake_hands(ByteStream(Alerted(fails), info))

    monkeypatch.setattr("rsocket_trio.lumberjack.client.connector.dial", dial)
    config = ShipperConfig(retry=Retry(max_attempts=1))
    async with lumberjack.connect(HOST, config=config) as shipper:
        with pytest.raises(ShipError, match="certificate required"):
            await shipper.send([{"n": 1}])


async def test_server(monkeypatch, caplog):
    """The log says why an ACK could not be sent."""
    caplog.set_level(logging.INFO, logger="rsocket_trio")
    asked = trio.Event()

    async def handler(batch):
        await asked.wait()
        await batch.ack(1)

    async with served(shared(handler)) as one:

        async def broken(_):
            raise alert()

        monkeypatch.setattr(one.receiver._stream, "send_all", broken)
        await one.sender.send(full_window(2))
        asked.set()
        await one.over.wait()
    assert "certificate required" in caplog.text


async def test_a_departure_is_logged_once(caplog):
    """Although both the task that reads and the one that writes see it."""
    caplog.set_level(logging.DEBUG)

    async def accept(_batch):
        pass

    async with served(shared(accept), lockstep=True) as one:
        await one.sender.send(full_window(1))
        await trio.testing.wait_all_tasks_blocked()
    assert [record.getMessage().count("is gone") for record in caplog.records] == [1]
