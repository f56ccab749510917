"""An event for version 1 of the protocol, which has pairs of texts only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from rsocket_trio.json_texts import read

from ..wire.frames import encode_pairs

__all__ = ["as_pairs"]


def as_pairs(event: bytes, max_pairs: int) -> bytes:
    """Return the pairs of an event.

    The fields of an object get names with dots: ``log.level``. Other values become JSON text.

    Args:
        event: JSON text.
        max_pairs: Later pairs are left out.
    """
    fields = read(event)
    assert isinstance(fields, dict)  # `encode_event` has made it
    return encode_pairs(islice(_flat("", fields), max_pairs))


def _flat(prefix: str, fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"{prefix}{name}", text
