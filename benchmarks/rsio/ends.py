"""The ways in which elements go over rsio, and the cases.

Each way is a stack: what the server publishes, and how the client reads it. So the ways take turns,
round by round, and the first one of a case is divided by each of the others.
"""

from __future__ import annotations

import sys
from typing import Final

import attrs

from ..model import Case, Stack

__all__ = ["RSIO_CASES", "RSIO_GROUPS", "RSIO_STACKS", "WAYS", "Way"]

_GROUP: Final = "rsio"

RSIO_GROUPS: Final = {
    _GROUP: "rsio: client and server over TCP, each in its own process",
    "rsio-wire": "rsio: octets on the wire",
}


@attrs.frozen(kw_only=True)
class Way:
    """A way of publishing and reading elements.

    Attributes:
        name: Its name as a stack, for ``--stacks``.
        title: Its title in the report.
        publisher: The name of the publisher in server.py.
        reader: The name of the reader in client.py.
        size: The octets of an element.
    """

    name: str
    title: str
    publisher: str
    reader: str
    size: int = 8


WAYS: Final = [
    Way(
        name="rsio-blocks",
        title="packed: blocks in, blocks out",
        publisher="blocks",
        reader="blocks",
    ),
    Way(
        name="rsio-joined",
        title="packed: single elements in, blocks out",
        publisher="joined",
        reader="blocks",
    ),
    Way(
        name="rsio-cut",
        title="packed: blocks in, a callback for each element",
        publisher="blocks",
        reader="callback",
    ),
    Way(
        name="rsio-single",
        title="one size, each element in a signal of its own, blocks out",
        publisher="single",
        reader="blocks",
    ),
    Way(
        name="rsio-variable",
        title="any size, `open`",
        publisher="variable",
        reader="elements",
    ),
    Way(
        name="rsio-variable-callback",
        title="any size, a callback for each element",
        publisher="variable",
        reader="callback",
    ),
    Way(name="rsio-open", title="rsio, `open`", publisher="long", reader="elements", size=128),
    Way(
        name="rsio-callback",
        title="rsio, a callback for each element",
        publisher="long",
        reader="callback",
        size=128,
    ),
]


def _module(name: str, *args: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.{name}", *args]


RSIO_STACKS: Final = [
    *(
        Stack(
            name=way.name,
            title=way.title,
            server=_module("rsio.server"),
            client=_module("rsio.client", way.publisher, way.reader),
            groups=frozenset({_GROUP}),
        )
        for way in WAYS
    ),
    Stack(
        name="rsio-rsocket",
        title="RSocket, `request_stream`",
        server=_module("ours_server"),
        client=_module("ours_client"),
        groups=frozenset({_GROUP}),
    ),
]

_TITLE: Final = "elements of {size} bytes, window {{window}}, elements"

RSIO_CASES: Final = [
    Case(
        name="rsio/8-bytes",
        title=_TITLE.format(size=8),
        group=_GROUP,
        operation="request_stream",  # as the programs of RSocket call it
        parameters={"window": 65536},
        only=tuple(way.name for way in WAYS if way.size == 8),
        reference="rsio-blocks",
    ),
    Case(
        name="rsio/128-bytes",
        title=_TITLE.format(size=128),
        group=_GROUP,
        operation="request_stream",
        parameters={"window": 256},
        only=(*(way.name for way in WAYS if way.size == 128), "rsio-rsocket"),
        reference="rsio-open",
    ),
]
