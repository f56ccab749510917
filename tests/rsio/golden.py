"""Golden vectors of rsio: numbers, messages, malformed bytes and conversations."""

from __future__ import annotations

import json
from pathlib import Path

from rsocket_trio.rsio.wire.messages import (
    Cancel,
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextLastPart,
    OnNextPacked,
    OnNextPart,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)

VECTORS = json.loads((Path(__file__).parent / "vectors" / "rsio.json").read_text("utf-8"))
VARINTS = VECTORS["varints"]
MESSAGES = VECTORS["messages"]
MALFORMED = VECTORS["malformed"]
CONVERSATIONS = VECTORS["conversations"]

KINDS = {
    "clientHello": ClientHello,
    "serverHello": ServerHello,
    "goodbye": Goodbye,
    "subscribe": Subscribe,
    "request": Request,
    "cancel": Cancel,
    "subscribed": Subscribed,
    "onNext": OnNext,
    "onComplete": OnComplete,
    "onError": OnError,
    "onNextPacked": OnNextPacked,
    "onNextPart": OnNextPart,
    "onNextLastPart": OnNextLastPart,
}
_NAMES = {"initialDemand": "initial_demand", "elementSize": "element_size"}


def sizes_of(vector):
    """The sizes of elements that a vector gives, by the id of the stream."""
    sizes = vector.get("context", {}).get("elementSize", {})
    return {int(subscriber): size for subscriber, size in sizes.items()}


def message_of(vector):
    """The message that the fields of a vector describe."""
    kind = KINDS[vector["message"]]
    fields = {_NAMES.get(name, name): value for name, value in vector["fields"].items()}
    if "extensions" in fields:
        fields["extensions"] = tuple(fields["extensions"])
    if kind is OnNext:
        fields["element"] = bytes.fromhex(fields["element"])
    if kind is OnNextPacked:
        elements = [bytes.fromhex(each) for each in fields["elements"]]
        fields["elements"] = b"".join(elements)
        fields |= {"count": len(elements), "element_size": len(elements[0])}
    if kind in (OnNextPart, OnNextLastPart):
        fields["element_id"] = fields.pop("element")
        fields["data"] = bytes.fromhex(fields["data"])
    return kind(**fields)


def by_id(vector):
    """The name of a vector in a report of tests."""
    return vector["id"]
