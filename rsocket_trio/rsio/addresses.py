"""The addresses of rsio: `rsio_uri`.

rsio://host:port   rsios://host:port   rsio+unix:///path
rsio+ws://host:port/path   rsio+wss://host:port/path   rsio+fd://3   rsio+systemd://NAME
"""

from __future__ import annotations

from typing import Final

from ..uri import AddressKind, Scheme, Uri, as_uri, register_scheme

__all__ = ["ALPN", "WIRE", "rsio_uri"]

WIRE: Final = "rsio"

ALPN: Final = "rsio/0"
"""The name of protocol and version that TLS negotiates (RFC 7301)."""

for _scheme in (
    Scheme(name="rsio", wire=WIRE, example="rsio://127.0.0.1:7980"),
    Scheme(name="rsios", wire=WIRE, example="rsios://example.org:7980", is_encrypted=True),
    Scheme(
        name="rsio+unix",
        wire=WIRE,
        example="rsio+unix:///run/app.sock",
        kind=AddressKind.UNIX,
    ),
    Scheme(
        name="rsio+ws",
        wire=WIRE,
        example="rsio+ws://127.0.0.1:7981/rsio",
        default_port=80,
        is_websocket=True,
    ),
    Scheme(
        name="rsio+wss",
        wire=WIRE,
        example="rsio+wss://example.org:443/rsio",
        default_port=443,
        is_encrypted=True,
        is_websocket=True,
    ),
):
    register_scheme(_scheme)


def rsio_uri(address: str | Uri) -> Uri:
    """Return the `Uri` of an address of rsio.

    ===================================  ==========================================================
    ``rsio://127.0.0.1:7980``            TCP; port 0 gives a server any free port
    ``rsios://example.org:7980``         TCP with TLS, whose ALPN is ``rsio/0``
    ``rsio+unix:///run/app.sock``        a Unix socket
    ``rsio+unix://@name``                a socket of Linux's abstract namespace
    ``rsio+ws://127.0.0.1:7981/rsio``    WebSocket
    ``rsio+wss://example.org/rsio``      WebSocket over TLS
    ``rsio+fd://3``                      for servers: a listening socket that is open already; also
                                         ``rsios+fd://3``, ``rsio+ws+fd://3/rsio`` and so on
    ``rsio+systemd://NAME``              for servers: those that systemd has opened with this name
    ===================================  ==========================================================

    Raises:
        ValueError: It is not an address of rsio; the message says why, and shows a valid one.
        TypeError: It is neither text nor a `Uri`.
    """
    return as_uri(address, WIRE)
