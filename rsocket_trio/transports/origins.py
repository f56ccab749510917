"""Which web pages may connect: the ``Origin`` of a WebSocket handshake (RFC 6454, RFC 6455 10.2).

A browser lets a page of any site open a WebSocket to any server, with the cookies of that server,
and says in ``Origin`` whose page it is. Other clients send none, or what they like: to keep those
out takes credentials.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

__all__ = ["OPAQUE", "normal_origin", "normal_origins"]

OPAQUE: Final = "null"
"""The origin of pages that have none: from a file, or in a sandbox."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_EXAMPLE: Final = "'https://example.org' or 'http://localhost:8000'"


def normal_origins(origins: Collection[str] | None) -> frozenset[str] | None:
    """A list of origins, ready to be asked for one; ``None`` stays that, and means any.

    Raises:
        TypeError: It is no list of texts.
        ValueError: One of them is no origin.
    """
    if origins is None:
        return None
    if isinstance(origins, str):
        raise TypeError("allowed_origins is a list of origins, not one text")
    return frozenset(map(normal_origin, origins))


def normal_origin(text: str) -> str:
    """An origin as browsers write it: in lower case, and without the port that goes without saying.

    Raises:
        TypeError: It is no text.
        ValueError: It is no origin.
    """
    if not isinstance(text, str):
        raise TypeError(f"an origin is a text, not {type(text).__name__}")
    if text == OPAQUE:
        return text
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is no origin: {error}") from None
    if not (parts.scheme and host) or "@" in parts.netloc or not text.isprintable():
        raise ValueError(f"{text!r} is no origin: one looks like {_EXAMPLE}")
    if parts.path or parts.query or parts.fragment or text.endswith(("?", "#")):
        raise ValueError(f"{text!r} is no origin: nothing follows host and port, as in {_EXAMPLE}")
    if "*" in host:
        raise ValueError(f"{text!r} is no origin: each has to be named, there are no patterns")
    if ":" in host:
        host = f"[{host}]"
    if port is None or port == _DEFAULT_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{host}"
    return f"{parts.scheme}://{host}:{port}"
