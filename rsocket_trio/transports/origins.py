"""Which web pages may connect: the ``Origin`` of a WebSocket handshake (RFC 6454, RFC 6455 10.2).

A browser lets a page of any site open a WebSocket to any server, with the cookies of that server,
and names the site in ``Origin``. Other clients send no ``Origin``, or any text: only credentials
keep those out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

__all__ = ["OPAQUE", "normal_origin", "normal_origins"]

OPAQUE: Final = "null"
"""The origin that browsers send for pages from a file, or in a sandbox."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_EXAMPLE: Final = "'https://example.org' or 'http://localhost:8000'"


def normal_origins(origins: Collection[str] | None) -> frozenset[str] | None:
    """Return the set of normal origins of a list; ``None`` stays ``None``, and allows all.

    Raises:
        TypeError: It is not a list of strings.
        ValueError: One of them is not an origin.
    """
    if origins is None:
        return None
    if isinstance(origins, str):
        raise TypeError("allowed_origins must be a list of origins, not a str: put it in a list")
    return frozenset(map(normal_origin, origins))


def normal_origin(text: str) -> str:
    """Return an origin as browsers write it: in lower case, and without the default port.

    Raises:
        TypeError: It is not a string.
        ValueError: It is not an origin.
    """
    if not isinstance(text, str):
        raise TypeError(f"an origin must be a str, not {type(text).__name__}")
    if text == OPAQUE:
        return text
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not an origin: {error}") from None
    if not (parts.scheme and host) or "@" in parts.netloc or not text.isprintable():
        raise ValueError(f"{text!r} is not an origin: one looks like {_EXAMPLE}")
    if parts.path or parts.query or parts.fragment or text.endswith(("?", "#")):
        raise ValueError(
            f"{text!r} is not an origin: it must end after host and port, as in {_EXAMPLE}"
        )
    if "*" in host:
        raise ValueError(
            f"{text!r} is not an origin: there are no patterns, name each origin in full"
        )
    if ":" in host:
        host = f"[{host}]"
    if port is None or port == _DEFAULT_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{host}"
    return f"{parts.scheme}://{host}:{port}"
