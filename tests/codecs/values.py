"""MIME types and classes that several files of tests use."""

from dataclasses import dataclass

import attrs

from rsocket_trio.metadata.mime_types import MIME

BOTH = [MIME.CBOR, MIME.JSON]


@dataclass
class Point:
    x: int
    y: float = 0.0


@attrs.frozen
class Tree:
    name: str = ""
    children: list["Tree"] = attrs.field(factory=list)
