"""Addresses of servers: `Uri` and `parse_uri`.

    tcp://host:port   tls://host:port   unix:///path   ws://host:port/path   wss://host:port/path

This module only reads the text: it does not resolve names or open sockets.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import attrs

__all__ = ["SCHEMES", "Uri", "as_uri", "parse_uri"]

_EXAMPLES: Final = {
    "tcp": "tcp://127.0.0.1:7878",
    "tls": "tls://example.org:7878",
    "unix": "unix:///run/app.sock",
    "ws": "ws://127.0.0.1:7879/rsocket",
    "wss": "wss://example.org:443/rsocket",
}
SCHEMES: Final = frozenset(_EXAMPLES)
"""The supported schemes."""

_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}
_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x20\x7f\s]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@attrs.frozen(kw_only=True)
class Uri:
    """The address of a server. `parse_uri` reads the ``str`` of a `Uri` as the same `Uri`.

    Attributes:
        scheme: ``tcp``, ``tls``, ``unix``, ``ws`` or ``wss``.
        host: Name or address, an IPv6 address without its brackets; empty for ``unix``.
        port: 0 to 65535; 0 gives a server any free port. 0 for ``unix``.
        path: ``unix``: the path of the socket file, not percent-encoded. WebSocket: the path of
            the request, with its query. Else empty.
    """

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_websocket(self) -> bool:
        """Whether frames travel as WebSocket messages."""
        return self.scheme in {"ws", "wss"}

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.scheme in {"tls", "wss"}

    @property
    def authority(self) -> str:
        """``host:port``, an IPv6 address in brackets; empty for ``unix``."""
        return join_host_port(self.host, self.port) if self.host else ""

    def __str__(self) -> str:
        path = quote(self.path) if self.scheme == "unix" else self.path
        return f"{self.scheme}://{self.authority}{path}"


def join_host_port(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_uri(text: str) -> Uri:
    """Read an address such as ``tcp://127.0.0.1:7878``.

    The port may be left out with ``ws`` (80) and ``wss`` (443) only: RSocket has no default port.
    The path of a Unix socket may be percent-encoded.

    Raises:
        ValueError: The text is not an address; the message says why, and shows a valid one.
    """
    found = _SCHEME.match(text)
    if found is None:
        raise _refusal(text, "it has no scheme")
    scheme = found[1].lower()
    if scheme not in _EXAMPLES:
        raise _refusal(text, f"the scheme {scheme!r} is not one of {', '.join(_EXAMPLES)}")
    example = _EXAMPLES[scheme]
    if _BLANK_OR_CONTROL.search(text):
        raise _refusal(text, "it contains a blank or a control character", example)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _refusal(text, str(error), example) from None
    if parts.fragment or "#" in text:
        raise _refusal(text, "a fragment (#...) is not allowed", example)
    if "@" in parts.netloc:
        raise _refusal(text, "a user or password is not allowed in an address", example)
    if scheme == "unix":
        return _unix_uri(text, parts.netloc, parts.path, parts.query, example)
    if not host:
        raise _refusal(text, "it has no host", example)
    if ":" in host and not _is_ipv6(host):
        raise _refusal(text, f"{host!r} is not an IPv6 address", example)
    if port is None:
        port = _DEFAULT_PORTS.get(scheme)
    if port is None:
        raise _refusal(text, "it has no port", example)
    if scheme in _DEFAULT_PORTS:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not path.isascii():
            raise _refusal(text, "the path must be ASCII: percent-encode the rest", example)
        return Uri(scheme=scheme, host=host, port=port, path=path)
    if parts.path not in {"", "/"} or parts.query:
        raise _refusal(text, f"a {scheme} address has no path or query", example)
    return Uri(scheme=scheme, host=host, port=port)


def as_uri(address: str | Uri) -> Uri:
    """Return the `Uri` of an address that is a `Uri` or a text.

    Raises:
        ValueError: The text is not an address; see `parse_uri`.
        TypeError: It is of another type.
    """
    if isinstance(address, Uri):
        return address
    if isinstance(address, str):
        return parse_uri(address)
    raise TypeError(f"an address must be a str or a Uri, not {type(address).__name__}")


def _unix_uri(text: str, authority: str, path: str, query: str, example: str) -> Uri:
    if authority:
        raise _refusal(text, "the path must be absolute (three slashes)", example)
    if path in {"", "/"}:
        raise _refusal(text, "it has no path", example)
    if query or "?" in text:
        raise _refusal(text, "a query is not allowed (encode '?' as %3F)", example)
    decoded = unquote(path, errors="surrogateescape")
    if "\0" in decoded:
        raise _refusal(text, "the path contains a NUL", example)
    return Uri(scheme="unix", path=decoded)


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _refusal(text: str, why: str, example: str = _EXAMPLES["tcp"]) -> ValueError:
    return ValueError(f"{text!r} is not an address: {why}; an address looks like {example!r}")
