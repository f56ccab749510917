"""Addresses of servers: `Uri` and `parse_uri`.

    tcp://host:port   tls://host:port   unix:///path   ws://host:port/path   wss://host:port/path

The addresses of some wires have other kinds of places (`AddressKind`):

    vsock://cid:port   hvsock:///path:port

A server of each wire may listen on a socket that another program has opened:

    fd://3   systemd://NAME   tls+fd://3   ws+fd://3/path   ws+systemd://NAME/path   rsio+fd://3

This module only reads the text: it does not resolve names or open sockets. Each scheme belongs to a
wire (a protocol, or a family of protocols that share addresses). A wire registers its schemes, and
accepts no others.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import attrs

from .field_checks import TEXT, argument

__all__ = [
    "RSOCKET",
    "SCHEMES",
    "VSOCK_ANY",
    "AddressKind",
    "Scheme",
    "Uri",
    "as_uri",
    "check_dialled",
    "default_port",
    "is_opened",
    "kind_of",
    "owner_of",
    "parse_uri",
    "register_scheme",
    "schemes_with",
    "shown",
    "shown_all",
    "without_query",
]

RSOCKET: Final = "rsocket"
"""The wire of RSocket and of the draft of 2015, which share ports."""

VSOCK_ANY: Final = 2**32 - 1
"""The context id (cid) of a vsock address for every cid of this machine, and the port for any free
port (vsock(7), VMADDR_CID_ANY and VMADDR_PORT_ANY)."""


class AddressKind(Enum):
    """What the part of an address behind its scheme names."""

    INTERNET = "host:port"
    UNIX = "the path of a Unix socket, or @ and a name of Linux's abstract namespace"
    VSOCK = "cid:port: a virtual machine, or its host (vsock(7))"
    HYBRID_VSOCK = "path:port: a Unix socket of a hypervisor, and a port in its virtual machine"
    DESCRIPTOR = "the number of an open file descriptor"
    ACTIVATION = "the name of listening sockets that systemd has opened"


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
        kind: What the address names.
        is_dialled: Whether clients can use it.
    """

    name: str
    wire: str
    example: str
    default_port: int | None = None
    is_encrypted: bool = False
    is_websocket: bool = False
    kind: AddressKind = AddressKind.INTERNET
    is_dialled: bool = True


_REGISTERED: Final[dict[str, Scheme]] = {}

_OPENED: Final = (
    ("fd", "3", AddressKind.DESCRIPTOR),
    ("systemd", "NAME", AddressKind.ACTIVATION),
)
"""Where a server finds a socket that is open already."""


def register_scheme(scheme: Scheme) -> None:
    """Make `parse_uri` read addresses of a further scheme.

    One with ports has others beside it, for servers on sockets that are open already: of ``ws``
    they are ``ws+fd`` and ``ws+systemd``, of ``tcp`` itself ``fd`` and ``systemd``.

    Raises:
        ValueError: There is another scheme of this name.
    """
    if _REGISTERED.setdefault(scheme.name, scheme) != scheme:
        raise ValueError(f"there is another scheme {scheme.name!r}")
    if scheme.kind is not AddressKind.INTERNET:
        return
    for place, example, kind in _OPENED:
        name = f"{scheme.name}+{place}".replace("tcp+", "")
        _REGISTERED.setdefault(
            name,
            attrs.evolve(
                scheme,
                name=name,
                example=f"{name}://{example}" + "/path" * scheme.is_websocket,
                default_port=None,
                kind=kind,
                is_dialled=False,
            ),
        )


for _scheme in (
    Scheme(name="tcp", wire=RSOCKET, example="tcp://127.0.0.1:7878"),
    Scheme(name="tls", wire=RSOCKET, example="tls://example.org:7878", is_encrypted=True),
    Scheme(name="unix", wire=RSOCKET, example="unix:///run/app.sock", kind=AddressKind.UNIX),
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

_OTHER_WIRES: Final = frozenset(("rsio", "ttrpc", "lumberjack"))
"""Wires whose packages and commands have their names; each registers its schemes when imported."""

_BLANK_OR_CONTROL: Final = re.compile(r"[\x00-\x20\x7f\s]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_VSOCK: Final = re.compile(r"([^/:?]*)(?::([^/?]*))?/?")
_CIDS: Final = {"any": VSOCK_ANY, "-1": VSOCK_ANY, "hypervisor": 0, "local": 1, "host": 2}
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_SOCKET_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{0,255}")
_MASK: Final = "***"
_PATHS: Final = frozenset((AddressKind.UNIX, AddressKind.HYBRID_VSOCK))


def without_query(text: str) -> str:
    """Return a text with a mask for what is behind its first ``?``."""
    before, mark, _ = text.partition("?")
    return f"{before}?{_MASK}" if mark else before


def _shown_path(path: str) -> str:
    return repr(without_query(path))


@attrs.frozen(kw_only=True)
class Uri:
    """The address of a server. `parse_uri` reads the ``str`` of a `Uri` as the same `Uri`.

    Attributes:
        scheme: ``tcp``, ``tls``, ``unix``, ``ws`` or ``wss``, or the scheme of another wire.
        host: Name or address, an IPv6 address without its brackets; empty for ``unix``. vsock: the
            cid as a decimal number, or ``any``. ``fd``: the number of the descriptor.
            ``systemd``: the name of the sockets; empty for all that it has opened.
        port: 0 to 65535, of vsock to 4294967294; 0 gives a server any free port. 0 for ``unix``.
        path: ``unix``: the path of the socket file, not percent-encoded, or ``@`` and the name of
            an abstract socket. WebSocket: the path of the request, with its query. Else empty.
    """

    scheme: str
    host: str = ""
    port: int = 0
    path: str = attrs.field(default="", repr=_shown_path)

    @property
    def is_websocket(self) -> bool:
        """Whether frames travel as WebSocket messages."""
        scheme = _REGISTERED.get(self.scheme)
        return scheme is not None and scheme.is_websocket

    @property
    def is_file(self) -> bool:
        """Whether it is a Unix socket."""
        return kind_of(self) is AddressKind.UNIX

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        scheme = _REGISTERED.get(self.scheme)
        return scheme is not None and scheme.is_encrypted

    @property
    def authority(self) -> str:
        """``host:port``, an IPv6 address in brackets; empty for ``unix``."""
        if is_opened(self):
            return self.host
        return join_host_port(self.host, self.port) if self.host else ""

    def __str__(self) -> str:
        match kind_of(self):
            case AddressKind.UNIX if self.path.startswith("@"):
                path = "@" + _quoted(self.path[1:])
            case AddressKind.UNIX:
                path = _quoted(self.path)
            case AddressKind.HYBRID_VSOCK:
                path = f"{_quoted(self.path)}:{self.port}"
            case _:
                path = self.path
        return f"{self.scheme}://{self.authority}{path}"


def kind_of(uri: Uri) -> AddressKind:
    """Return what an address names."""
    scheme = _REGISTERED.get(uri.scheme)
    return AddressKind.INTERNET if scheme is None else scheme.kind


def is_opened(uri: Uri) -> bool:
    """Return whether an address is a socket that another program may have opened."""
    return kind_of(uri) in (AddressKind.DESCRIPTOR, AddressKind.ACTIVATION)


def check_dialled(uri: Uri) -> None:
    """Check that clients can use an address.

    Raises:
        ValueError: It is only for servers.
    """
    if not _REGISTERED[uri.scheme].is_dialled:
        raise ValueError(f"{shown(uri)} is a listening socket: only a server can use it")


def default_port(uri: Uri) -> int | None:
    """Return the port of addresses of this scheme that name none; ``None`` if they must."""
    scheme = _REGISTERED.get(uri.scheme)
    return None if scheme is None else scheme.default_port


def join_host_port(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_uri(text: str, wire: str = RSOCKET) -> Uri:
    """Read an address such as ``tcp://127.0.0.1:7878``.

    The port may be left out where the scheme has a default port: ``ws`` (80) and ``wss`` (443).
    The path of a Unix socket may be percent-encoded. ``unix://@name`` is a socket of Linux's
    abstract namespace.

    Args:
        text: The address.
        wire: The wire whose schemes are allowed.

    Raises:
        TypeError: It is no text.
        ValueError: The text is not an address; the message says why, and shows a valid one.
    """
    argument("text", text, TEXT)
    allowed = {name: each for name, each in _REGISTERED.items() if each.wire == wire}
    example = next(iter(allowed.values())).example
    found = _SCHEME.match(text)
    scheme = None if found is None else allowed.get(found[1].lower())
    opened = scheme is not None and scheme.kind in {kind for _, _, kind in _OPENED}
    if found is None or not (found[2] or opened):
        raise _refusal(text, "it has no scheme", example)
    if scheme is None:
        name = found[1].lower()
        known = (each.name for each in allowed.values() if each.is_dialled)
        raise _refusal(
            text,
            f"the scheme {name!r} is not one of {', '.join(known)}{_hint_at_owner(name, wire)}",
            example,
        )
    example = scheme.example
    if _BLANK_OR_CONTROL.search(text):
        raise _refusal(text, "it contains a blank or a control character", example)
    if "#" in text:
        raise _refusal(text, "a fragment (#...) is not allowed", example)
    place = text[found.end() :]
    try:
        _check_no_user(scheme, place)
        match scheme.kind:
            case AddressKind.UNIX:
                return Uri(scheme=scheme.name, path=_socket_path(place))
            case AddressKind.HYBRID_VSOCK:
                return _hybrid_vsock_uri(scheme, place)
            case AddressKind.VSOCK:
                return _vsock_uri(scheme, place)
            case AddressKind.DESCRIPTOR | AddressKind.ACTIVATION:
                return _opened_uri(scheme, place)
            case AddressKind.INTERNET:
                return _internet_uri(scheme, text)
    except ValueError as error:
        raise _refusal(text, str(error), example) from None


def owner_of(scheme: str) -> str | None:
    """Return the wire of a scheme by its name alone; ``None`` for those of RSocket, and unknown."""
    wire = scheme.partition("+")[0].removesuffix("s")
    return wire if wire in _OTHER_WIRES else None


def _hint_at_owner(name: str, wire: str) -> str:
    """Return a hint at the part of the package that has the addresses of another wire."""
    if name in SCHEMES:
        return ": use rsocket_trio.serve or connect for it, which speak RSocket"
    owner = owner_of(name)
    if owner not in (None, wire):
        return f": use rsocket_trio.{owner} for it, or the command rsocket-trio {owner}"
    return ""


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


def schemes_with(uri: Uri, ability: Callable[[Scheme], bool]) -> str:
    """Return the schemes of the same wire that can do something, e.g. ``ws:// or wss://``."""
    wire = _REGISTERED[uri.scheme].wire
    able = [
        each.name
        for each in _REGISTERED.values()
        if each.wire == wire and each.is_dialled and ability(each)
    ]
    return " or ".join(f"{name}://" for name in able)


def shown(address: str | Uri) -> str:
    """Return an address as people may see it, in a log, an error, a status or a ``repr``.

    What may be a secret is ``***``: what is before the last ``@``, which only a mistaken address
    has, and the query. Every text that has an address gets it from here.
    """
    if isinstance(address, Uri):
        return without_query(str(address))
    scheme = _SCHEME.match(address)
    known = None if scheme is None else _REGISTERED.get(scheme[1].lower())
    at = address.rfind("@")
    if at < 0 or (known is not None and known.kind in _PATHS):
        return without_query(address)
    begin = address[: address.find("//") + 2] if "//" in address[:at] else ""
    # An @ behind a ? may be one of the query, or the ? one of the password: all of it is masked.
    return begin + _MASK + ("" if "?" in address[:at] else without_query(address[at:]))


def shown_all(addresses: Iterable[str | Uri]) -> str:
    """Return several addresses as people may see them, for a ``repr``."""
    return str([shown(each) for each in addresses])


def _check_no_user(scheme: Scheme, place: str) -> None:
    # Only the path of a WebSocket or a file may have an @.
    before = place.partition("/")[0] if scheme.is_websocket else place
    if scheme.kind not in _PATHS and "@" in before:
        raise ValueError("a user or password is not allowed in an address")


def _internet_uri(scheme: Scheme, text: str) -> Uri:
    """Read a whole address; the text of the `ValueError` is the reason only."""
    # The texts of these errors have a part of the address, which may be a part of a password.
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        raise ValueError("its host cannot be read") from None
    try:
        port = parts.port
    except ValueError:
        raise ValueError("its port is not a number from 0 to 65535") from None
    if not host:
        raise ValueError("it has no host")
    if ":" in host and not _is_ipv6(host):
        raise ValueError(f"{host!r} is not an IPv6 address")
    if port is None:
        port = scheme.default_port
    if port is None:
        raise ValueError("it has no port")
    path = ""
    if scheme.is_websocket:
        path = _ascii_path((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    elif parts.path not in {"", "/"} or parts.query:
        raise ValueError(f"a {scheme.name} address has no path or query")
    return Uri(scheme=scheme.name, host=host, port=port, path=path)


def _socket_path(place: str) -> str:
    if "?" in place:
        raise ValueError("a query is not allowed (encode '?' as %3F)")
    decoded = unquote(place, errors="surrogateescape")
    if place.startswith("@"):
        if decoded == "@":
            raise ValueError("it has no name behind the @")
        return decoded
    if decoded in {"", "/"}:
        raise ValueError("it has no path")
    if not place.startswith("/"):
        raise ValueError("the path must be absolute (three slashes)")
    if "\0" in decoded:
        raise ValueError("the path contains a NUL")
    return decoded


def _hybrid_vsock_uri(scheme: Scheme, place: str) -> Uri:
    path, colon, port = place.rpartition(":")
    if "?" in place:
        path, _, query = place.partition("?")
        name, colon, port = query.partition("=")
        if name != "port":
            raise ValueError("the only query is ?port=NUMBER (encode '?' as %3F)")
    if not colon or "/" in port:
        raise ValueError("it has no port")
    if path.startswith("@"):
        raise ValueError("the path must be absolute (three slashes)")
    return Uri(scheme=scheme.name, path=_socket_path(path), port=_vsock_port(port))


def _vsock_uri(scheme: Scheme, place: str) -> Uri:
    found = _VSOCK.fullmatch(place)
    if found is None:
        raise ValueError("it is not cid:port")
    cid, port = found.groups()
    number = _CIDS.get(cid.lower())
    if number is None:
        if not _NUMBER.fullmatch(cid) or int(cid) > VSOCK_ANY:
            raise ValueError(f"the cid {cid!r} is not a number below 2^32, any, local or host")
        number = int(cid)
    if not port:
        raise ValueError("it has no port")
    host = "any" if number == VSOCK_ANY else str(number)
    return Uri(scheme=scheme.name, host=host, port=_vsock_port(port))


def _vsock_port(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) >= VSOCK_ANY:
        raise ValueError(f"the port {text!r} is not a number below 2^32 - 1")
    return int(text)


def _opened_uri(scheme: Scheme, place: str) -> Uri:
    path = ""
    if scheme.is_websocket:
        place, _, path = place.partition("/")
        path = _ascii_path(f"/{path}")
    if scheme.kind is AddressKind.ACTIVATION:
        if not _SOCKET_NAME.fullmatch(place):
            raise ValueError(f"{place!r} is not the name of a socket (FileDescriptorName=)")
        return Uri(scheme=scheme.name, host=place, path=path)
    if not _NUMBER.fullmatch(place) or int(place) >= 2**31:
        raise ValueError(f"{place!r} is not the number of a file descriptor")
    return Uri(scheme=scheme.name, host=str(int(place)), path=path)


def _ascii_path(path: str) -> str:
    if not path.isascii():
        raise ValueError("the path must be ASCII: percent-encode the rest")
    return path


def _quoted(path: str) -> str:
    return quote(path, errors="surrogateescape")


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _refusal(text: str, why: str, example: str) -> ValueError:
    text = shown(text)  # It may have a password, and errors are logged.
    return ValueError(f"{text!r} is not an address: {why}; an address looks like {example!r}")
