"""Addresses of servers: `Uri` and `parse_uri`.

    tcp://host:port   tls://host:port   unix:///path   ws://host:port/path   wss://host:port/path

This module only reads the text: it does not resolve names or open sockets. Each scheme belongs to a
wire (a protocol, or a family of protocols that share addresses). A wire registers its schemes, and
accepts no others.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import attrs

__all__ = [
    "RSOCKET",
    "SCHEMES",
    "Scheme",
    "Uri",
    "as_uri",
    "encrypted_schemes",
    "parse_uri",
    "register_scheme",
]

RSOCKET: Final = "rsocket"
"""The wire of RSocket and of the draft of 2015, which share ports."""


@attrs.frozen(kw_only=True)
class Scheme:
    """A kind of address.

    Attributes:
        name: The part before ``://``.
        wire: The wire that the addresses belong to.
        example: A valid address, for the texts of errors.
        default_port: The port of an address without one; ``None`` if the port is required.
        is_encrypted: Whether the connection uses TLS.
        is_websocket: Whether frames travel as WebSocket messages, so that addresses have a path.
        is_file: Whether the address is the path of a Unix socket.
    """

    name: str
    wire: str
    example: str
    default_port: int | None = None
    is_encrypted: bool = False
    is_websocket: bool = False
    is_file: bool = False


_REGISTERED: Final[dict[str, Scheme]] = {}


def register_scheme(scheme: Scheme) -> None:
    """Make `parse_uri` read addresses of a further scheme.

    Raises:
        ValueError: There is another scheme of this name.
    """
    if _REGISTERED.setdefault(scheme.name, scheme) != scheme:
        raise ValueError(f"there is another scheme {scheme.name!r}")


for _scheme in (
    Scheme(name="tcp", wire=RSOCKET, example="tcp://127.0.0.1:7878"),
    Scheme(name="tls", wire=RSOCKET, example="tls://example.org:7878", is_encrypted=True),
    Scheme(name="unix", wire=RSOCKET, example="unix:///run/app.sock", is_file=True),
    Scheme(
        name="ws",
        wire=RSOCKET,
        example="ws://127.0.0.1:7879/rsocket",
        default_port=80,
        is_websocket=True,
    ),
    Scheme(
        name="wss",
        wire=RSOCKET,
        example="wss://example.org:443/rsocket",
        default_port=443,
        is_encrypted=True,
        is_websocket=True,
    ),
):
    register_scheme(_scheme)

SCHEMES: Final = frozenset(_REGISTERED)
"""The schemes of RSocket."""

_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x20\x7f\s]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_USER: Final = re.compile(r"//[^/]*@")


@attrs.frozen(kw_only=True)
class Uri:
    """The address of a server. `parse_uri` reads the ``str`` of a `Uri` as the same `Uri`.

    Attributes:
        scheme: ``tcp``, ``tls``, ``unix``, ``ws`` or ``wss``, or the scheme of another wire.
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
        scheme = _REGISTERED.get(self.scheme)
        return scheme is not None and scheme.is_websocket

    @property
    def is_file(self) -> bool:
        """Whether it is the path of a Unix socket."""
        scheme = _REGISTERED.get(self.scheme)
        return scheme is not None and scheme.is_file

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        scheme = _REGISTERED.get(self.scheme)
        return scheme is not None and scheme.is_encrypted

    @property
    def authority(self) -> str:
        """``host:port``, an IPv6 address in brackets; empty for ``unix``."""
        return join_host_port(self.host, self.port) if self.host else ""

    def __str__(self) -> str:
        path = quote(self.path) if self.is_file else self.path
        return f"{self.scheme}://{self.authority}{path}"


def join_host_port(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_uri(text: str, wire: str = RSOCKET) -> Uri:
    """Read an address such as ``tcp://127.0.0.1:7878``.

    The port may be left out where the scheme has a default port: ``ws`` (80) and ``wss`` (443).
    The path of a Unix socket may be percent-encoded.

    Args:
        text: The address.
        wire: The wire whose schemes are allowed.

    Raises:
        ValueError: The text is not an address; the message says why, and shows a valid one.
    """
    allowed = {name: each for name, each in _REGISTERED.items() if each.wire == wire}
    example = next(iter(allowed.values())).example
    found = _SCHEME.match(text)
    if found is None:
        raise _refusal(text, "it has no scheme", example)
    scheme = allowed.get(found[1].lower())
    if scheme is None:
        why = f"the scheme {found[1].lower()!r} is not one of {', '.join(allowed)}"
        raise _refusal(text, why, example)
    example = scheme.example
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
    if scheme.is_file:
        return _file_uri(scheme, text, parts.netloc, parts.path, parts.query)
    if not host:
        raise _refusal(text, "it has no host", example)
    if ":" in host and not _is_ipv6(host):
        raise _refusal(text, f"{host!r} is not an IPv6 address", example)
    if port is None:
        port = scheme.default_port
    if port is None:
        raise _refusal(text, "it has no port", example)
    path = ""
    if scheme.is_websocket:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not path.isascii():
            raise _refusal(text, "the path must be ASCII: percent-encode the rest", example)
    elif parts.path not in {"", "/"} or parts.query:
        raise _refusal(text, f"a {scheme.name} address has no path or query", example)
    return Uri(scheme=scheme.name, host=host, port=port, path=path)


def as_uri(address: str | Uri, wire: str = RSOCKET) -> Uri:
    """Return the `Uri` of an address that is a `Uri` or a text.

    Args:
        address: The address.
        wire: The wire whose schemes are allowed.

    Raises:
        ValueError: The text is not an address of this wire; see `parse_uri`.
        TypeError: It is of another type.
    """
    if isinstance(address, Uri):
        scheme = _REGISTERED.get(address.scheme)
        return (
            address if scheme is not None and scheme.wire == wire else parse_uri(str(address), wire)
        )
    if isinstance(address, str):
        return parse_uri(address, wire)
    raise TypeError(f"an address must be a str or a Uri, not {type(address).__name__}")


def encrypted_schemes(uri: Uri) -> list[str]:
    """Return the schemes with TLS of the same wire, e.g. ``tls://``."""
    wire = _REGISTERED[uri.scheme].wire
    return [
        f"{each.name}://"
        for each in _REGISTERED.values()
        if each.wire == wire and each.is_encrypted
    ]


def _file_uri(scheme: Scheme, text: str, authority: str, path: str, query: str) -> Uri:
    example = scheme.example
    if authority:
        raise _refusal(text, "the path must be absolute (three slashes)", example)
    if path in {"", "/"}:
        raise _refusal(text, "it has no path", example)
    if query or "?" in text:
        raise _refusal(text, "a query is not allowed (encode '?' as %3F)", example)
    decoded = unquote(path, errors="surrogateescape")
    if "\0" in decoded:
        raise _refusal(text, "the path contains a NUL", example)
    return Uri(scheme=scheme.name, path=decoded)


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _refusal(text: str, why: str, example: str) -> ValueError:
    shown = _USER.sub("//***@", text)  # It may have a password, and errors are logged.
    return ValueError(f"{shown!r} is not an address: {why}; an address looks like {example!r}")
