"""Conversations of the vectors with a server of this package, over a socket.

The server may answer in other messages than the vector: it may pack where that has plain elements,
and its texts are its own. So the streams are compared, and the order of their messages.
"""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import rsio
from rsocket_trio.testing.rsio_conformance.parser import Parser
from rsocket_trio.testing.rsio_peer import app
from tests.rsio.conformance.subjects import small_pair
from tests.rsio.conformance.test_octets import VECTORS
from tests.waiting import PATIENCE

REPLAYED = {
    "C02": "",
    "C04": "",
    "C07": "020000",
    "C09": "020000",
    "C10": "020000",
    "C14": "",
}
"""Their ids, and what the vector leaves out: the hello before a conversation that begins later."""


class Seen:
    """What a server has said, as far as it may not differ."""

    def __init__(self):
        self.sizes = {}
        self.parser = Parser(lambda subscriber: self.sizes[subscriber])
        self.log = []

    def feed(self, data):
        self.parser.feed(data)
        while (message := self.parser.next()) is not None:
            name, subscriber = message.name, message.id
            if name == "subscribed":
                self.sizes[subscriber] = message.number
                self.log.append((name, subscriber, message.number))
            elif name in {"onNext", "onNextPacked"}:
                size = self.sizes[subscriber] or len(message.data)
                for at in range(0, len(message.data), size):
                    element = message.data[at : at + size]
                    self.log.append(("element", subscriber, element))
            elif name == "subscribe":
                # The id is the choice of the server.
                self.log.append((name, message.text, message.number))
            elif name != "request":  # how it renews its demand is its own affair
                self.log.append((name, subscriber))


def said(conversation, before):
    seen = Seen()
    octets = "".join(step["hex"] for step in conversation["steps"] if step["from"] == "server")
    seen.feed(bytes.fromhex(before + octets))
    return seen.log


@pytest.mark.parametrize("name", REPLAYED)
async def test_the_server_answers_as_in_the_vector(name):
    """Each step of the client is sent when the server has said what precedes it."""
    conversation = next(each for each in VECTORS["conversations"] if each["id"] == name)
    before = REPLAYED[name]
    expected = said(conversation, before)
    seen = Seen()
    ours, theirs = small_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, app, theirs)
        with trio.fail_after(PATIENCE):
            if before:
                await ours.send_all(bytes.fromhex("010000"))
            for index, step in enumerate(conversation["steps"]):
                if step["from"] == "client":
                    rest = {**conversation, "steps": conversation["steps"][:index]}
                    while before and len(seen.log) < len(said(rest, before)):
                        seen.feed(await ours.receive_some())
                    await ours.send_all(bytes.fromhex(step["hex"]))
            while len(seen.log) < len(expected):
                seen.feed(await ours.receive_some())
        await ours.aclose()
    # A stream and a subscription of the server are independent of each other.
    assert sorted(seen.log, key=lambda each: each[0] == "subscribe") == sorted(
        expected, key=lambda each: each[0] == "subscribe"
    )
