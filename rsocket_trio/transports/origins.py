"""Which web pages may connect: the ``Origin`` of a WebSocket handshake (RFC 6454, RFC 6455 10.2).

A browser lets a page of any site open a WebSocket to any server, also to one on the user's own
host, with the cookies of that server, and names the site in ``Origin``. Other clients send no
``Origin``, or any text: only credentials keep those out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from ..field_checks import listed

__all__ = ["EVERY", "OPAQUE", "Origins", "may_connect", "normal_origin", "normal_origins"]

Origins: TypeAlias = frozenset[str] | None
"""The origins whose pages may connect; ``None``: only pages of the server's own host."""

EVERY: Final = "*"
"""In a list of origins: the pages of all sites."""

OPAQUE: Final = "null"
"""The origin that browsers send for pages from a file, or in a sandbox."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_EXAMPLE: Final = "'https://example.org' or 'http://localhost:8000'"


def normal_origins(origins: Collection[str] | None) -> Origins:
    """Return the set of normal origins of a list; ``None`` stays ``None``.

    Raises:
        TypeError: It is not a list of strings.
        ValueError: One of them is not an origin.
    """
    if origins is None:
        return None
    if isinstance(origins, str):
        if origins == EVERY:
            return frozenset({EVERY})
        raise TypeError("allowed_origins must be a list of origins, not a str: put it in a list")
    named = listed("allowed_origins", origins, str)
    return frozenset(EVERY if each == EVERY else normal_origin(each) for each in named)


def may_connect(origin: str, allowed: Origins, *, host: str, local: str) -> bool:
    """Return whether a page of this origin may connect.

    A page of the server's own host may, where no origins are named. It cannot be told by the
    ``Host`` alone: the owner of a site can let its name point to an address that only the user's
    browser reaches (DNS rebinding), and then origin and ``Host`` are both the name of that site.
    So on an address that is not public, such as one of the loopback or of a private network, a
    name counts only if it is ``localhost``; an IP address always counts.

    Args:
        origin: The header of the request.
        allowed: The origins that were named.
        host: The host that was asked for, with its port unless that is the default.
        local: The address at which the client has arrived, ``host:port``; empty if it is unknown.
    """
    if allowed is not None and EVERY in allowed:
        return True
    try:
        normal = normal_origin(origin)
    except ValueError:
        return False
    if allowed is not None:
        return normal in allowed
    return normal != OPAQUE and _is_own_host(urlsplit(normal), host, local)


def _is_own_host(origin: SplitResult, host: str, local: str) -> bool:
    try:
        asked = urlsplit(f"//{host}")
        name, port = asked.hostname, asked.port
    except ValueError:
        return False
    usual = _DEFAULT_PORTS.get(origin.scheme)
    if name is None or (name, port or usual) != (origin.hostname, origin.port or usual):
        return False
    return name == "localhost" or _address(name) is not None or _is_public(local)


def _is_public(local: str) -> bool:
    address = _address(local.rpartition(":")[0].strip("[]"))
    return address is not None and address.is_global


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def normal_origin(text: str) -> str:
    """Return an origin as browsers write it, in lower case and without the default port.

    An IPv6 address is in its shortest form.

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
            f"{text!r} is not an origin: there are no patterns, name each origin in full, or all "
            f"by {EVERY!r} alone"
        )
    if not host.isascii():
        raise ValueError(
            f"{text!r} is not an origin: browsers send such a name in ASCII, beginning with 'xn--'"
        )
    if ":" in host:
        host = f"[{_address(host) or host}]"
    if port is None or port == _DEFAULT_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{host}"
    return f"{parts.scheme}://{host}:{port}"
