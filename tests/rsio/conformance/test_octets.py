"""The codec of the checks against the vectors of the binding, so that it can be trusted."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from rsocket_trio.testing.rsio_conformance import octets
from rsocket_trio.testing.rsio_conformance.parser import Malformed, Parser

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "rsio.json").read_text())


def made(name, fields):
    """The octets of a message, by the function that is named like it."""
    get = fields.get
    subscriber = get("subscriber")
    match name:
        case "clientHello" | "serverHello":
            make = octets.client_hello if name == "clientHello" else octets.server_hello
            return make(fields["version"], fields["extensions"])
        case "goodbye":
            return octets.goodbye(fields["reason"])
        case "subscribe":
            return octets.subscribe(fields["publisher"], subscriber, fields["initialDemand"])
        case "request":
            return octets.request(subscriber, fields["demand"])
        case "cancel":
            return octets.cancel(subscriber)
        case "subscribed":
            return octets.subscribed(subscriber, fields["elementSize"])
        case "onComplete":
            return octets.complete(subscriber)
        case "onError":
            return octets.error(subscriber, fields["error"])
        case "onNextPacked":
            elements = [bytes.fromhex(each) for each in fields["elements"]]
            return octets.packed(subscriber, len(elements), b"".join(elements))
        case "onNextPart" | "onNextLastPart":
            make = octets.part if name == "onNextPart" else octets.last_part
            return make(subscriber, fields["element"], bytes.fromhex(fields["data"]))
    raise AssertionError(name)


def sizes(vector):
    known = vector.get("context", {}).get("elementSize", {})
    return lambda subscriber: known.get(str(subscriber), 0)


def parsed(parser, data):
    parser.feed(data)
    messages = []
    while (message := parser.next()) is not None:
        messages.append(message)
    return messages


@pytest.mark.parametrize("vector", VECTORS["varints"], ids=lambda each: each["hex"])
def test_varints(vector):
    """Good ones both ways; bad ones are refused."""
    data = b"\x12" + bytes.fromhex(vector["hex"])
    if "value" in vector:
        number = int(vector["value"])
        assert octets.cancel(number) == data
        assert [each.id for each in parsed(Parser(lambda _: 0), data)] == [number]
    else:
        with pytest.raises(Malformed):
            parsed(Parser(lambda _: 0), data)


@pytest.mark.parametrize("vector", VECTORS["messages"], ids=lambda each: each["id"])
def test_messages(vector):
    """Each is read as one message, in whatever pieces, and written as the same octets."""
    data = bytes.fromhex(vector["hex"])
    name, fields = vector["message"], vector["fields"]
    (message,) = parsed(Parser(sizes(vector)), data)
    assert (message.name, message.raw) == (name, data)
    assert message.id == fields.get("subscriber", 0)
    dice = random.Random(data)
    parser = Parser(sizes(vector))
    pieces, at = [], 0
    while at < len(data):
        step = dice.randint(1, 3)
        pieces += parsed(parser, data[at : at + step])
        at += step
    assert pieces == [message]
    if name == "onNext":
        size = sizes(vector)(message.id)
        make = octets.next_fixed if size else octets.next_sized
        assert make(message.id, bytes.fromhex(fields["element"])) == data
    elif "\ufffd" not in str(fields.values()):
        assert made(name, fields) == data


def test_a_length_is_refused_before_its_content():
    """Above the limit, which is 64 MiB."""
    with pytest.raises(Malformed, match="above the limit"):
        parsed(Parser(lambda _: 0), b"\x03" + octets.varint(2**40))
