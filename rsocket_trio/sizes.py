"""Sizes that users write: `parse_size`."""

from __future__ import annotations

import re

__all__ = ["parse_size"]


def parse_size(text: str) -> int | None:
    """Return a number of bytes: ``4096``, or in units of 1024 ``64K``, ``20m``, ``2G``, ``1T``.

    Returns:
        ``None`` if the text is no such size.
    """
    found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", text, re.ASCII | re.IGNORECASE)
    if found is None:
        return None
    return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ")
