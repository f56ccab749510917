"""Addresses of servers: `Uri` and `parse_uri`.

    tcp://host:port   tls://host:port   unix:///path   ws://host:port/path   wss://host:port/path

Nothing here resolves or opens anything.
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
"""The schemes there are."""

_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}
_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x20\x7f\s]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@attrs.frozen(kw_only=True)
class Uri:
    """Where a server is. ``str`` gives the text that `parse_uri` reads as the same `Uri`.

    Attributes:
        scheme: ``tcp``, ``tls``, ``unix``, ``ws`` or ``wss``.
        host: Name or address, an IPv6 address without its brackets; empty for ``unix``.
        port: 0 to 65535, where 0 lets a server have any free port; 0 for ``unix``.
        path: ``unix``: the path of the socket file, as the file system has it. WebSocket: the
            path of the request, with its query. Else empty.
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
        """Whether there is TLS below."""
        return self.scheme in {"tls", "wss"}

    @property
    def authority(self) -> str:
        """``host:port``, an IPv6 address in brackets; empty for ``unix``."""
        return join_host_port(self.host, self.port) if self.host else ""

    def __str__(self) -> str:
        path = quote(self.path) if self.scheme == "unix" else self.path
        return f"{self.scheme}://{self.authority}{path}"


def join_host_port(host: str, port: int) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_uri(text: str) -> Uri:
    """Read an address such as ``tcp://127.0.0.1:7878``.

    The port may be left out with ``ws`` (80) and ``wss`` (443) only: RSocket has none of its own.
    The path of a Unix socket may be percent-encoded.

    Raises:
        ValueError: It is none; the message says why, and shows one that is.
    """
    found = _SCHEME.match(text)
    if found is None:
        raise _refusal(text, "there is no scheme")
    scheme = found[1].lower()
    if scheme not in _EXAMPLES:
        raise _refusal(text, f"the scheme {scheme!r} is none of {', '.join(_EXAMPLES)}")
    example = _EXAMPLES[scheme]
    if _BLANK_OR_CONTROL.search(text):
        raise _refusal(text, "there is a blank or a control character", example)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _refusal(text, str(error), example) from None
    if parts.fragment or "#" in text:
        raise _refusal(text, "a fragment means nothing here", example)
    if "@" in parts.netloc:
        raise _refusal(text, "user and password do not belong in an address", example)
    if scheme == "unix":
        return _unix(text, parts.netloc, parts.path, parts.query, example)
    if not host:
        raise _refusal(text, "there is no host", example)
    if ":" in host and not _is_ipv6(host):
        raise _refusal(text, f"{host!r} is no IPv6 address", example)
    if port is None:
        port = _DEFAULT_PORTS.get(scheme)
    if port is None:
        raise _refusal(text, "there is no port", example)
    if scheme in _DEFAULT_PORTS:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not path.isascii():
            raise _refusal(text, "the path must be ASCII: percent-encode the rest", example)
        return Uri(scheme=scheme, host=host, port=port, path=path)
    if parts.path not in {"", "/"} or parts.query:
        raise _refusal(text, f"there is no path in a {scheme} address", example)
    return Uri(scheme=scheme, host=host, port=port)


def as_uri(address: str | Uri) -> Uri:
    """An address that is given as text, or is a `Uri` already.

    Raises:
        ValueError: The text is none; see `parse_uri`.
        TypeError: It is neither.
    """
    if isinstance(address, Uri):
        return address
    if isinstance(address, str):
        return parse_uri(address)
    raise TypeError(f"an address is a str or a Uri, not {type(address).__name__}")


def _unix(text: str, authority: str, path: str, query: str, example: str) -> Uri:
    if authority:
        raise _refusal(text, "the path must be absolute (three slashes)", example)
    if path in {"", "/"}:
        raise _refusal(text, "there is no path", example)
    if query or "?" in text:
        raise _refusal(text, "a query means nothing here (encode '?' as %3F)", example)
    decoded = unquote(path, errors="surrogateescape")
    if "\0" in decoded:
        raise _refusal(text, "a path has no NUL", example)
    return Uri(scheme="unix", path=decoded)


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _refusal(text: str, why: str, example: str = _EXAMPLES["tcp"]) -> ValueError:
    return ValueError(f"{text!r} is no address: {why}; an address looks like {example!r}")
