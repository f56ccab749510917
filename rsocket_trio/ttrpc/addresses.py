"""The addresses of ttrpc: `ttrpc_uri`.

    ttrpc+unix:///path     ttrpc+unix://@name         ttrpc+tcp://host:port
    ttrpc+vsock://cid:port ttrpc+hvsock:///path:port  ttrpc+fd://3
    ttrpc+systemd://NAME

Where only ttrpc is meant, ``ttrpc+`` may be left out, and ``unix://`` before an absolute path.
"""

from __future__ import annotations

import re
from typing import Final

from ..uri import AddressKind, Scheme, Uri, as_uri, register_scheme

__all__ = ["WIRE", "ttrpc_uri"]

WIRE: Final = "ttrpc"

_PREFIX: Final = "ttrpc+"
_SHORT: Final = re.compile(r"(unix|tcp|vsock|hvsock|fd|systemd):", re.IGNORECASE)

for _scheme in (
    Scheme(
        name="ttrpc+unix",
        wire=WIRE,
        example="ttrpc+unix:///run/app.sock",
        kind=AddressKind.UNIX,
    ),
    Scheme(
        name="ttrpc+fd",  # a client may have inherited a connection
        wire=WIRE,
        example="ttrpc+fd://3",
        kind=AddressKind.DESCRIPTOR,
    ),
    Scheme(name="ttrpc+tcp", wire=WIRE, example="ttrpc+tcp://127.0.0.1:7880"),
    Scheme(
        name="ttrpc+vsock",
        wire=WIRE,
        example="ttrpc+vsock://3:1024",
        kind=AddressKind.VSOCK,
    ),
    Scheme(
        name="ttrpc+hvsock",
        wire=WIRE,
        example="ttrpc+hvsock:///run/vm.sock:1024",
        kind=AddressKind.HYBRID_VSOCK,
    ),
):
    register_scheme(_scheme)


def ttrpc_uri(address: str | Uri) -> Uri:
    """Return the `Uri` of an address of ttrpc.

    ====================================  =========================================================
    ``ttrpc+unix:///run/app.sock``        a Unix socket; ``unix:///run/app.sock`` and
                                          ``/run/app.sock`` mean the same
    ``ttrpc+unix://@name``                a socket of Linux's abstract namespace
    ``ttrpc+tcp://127.0.0.1:7880``        TCP; port 0 gives a server any free port
    ``ttrpc+vsock://3:1024``              a port of a virtual machine. The cid is a number, ``host``
                                          (2), ``local`` (1), or for servers ``any`` (also ``-1``)
    ``ttrpc+hvsock:///run/vm.sock:1024``  the same by the Unix socket of a hypervisor (Firecracker,
                                          Cloud Hypervisor), only for clients;
                                          ``/run/vm.sock?port=1024`` means the same
    ``ttrpc+fd://3``                      an open socket that the process has inherited: a
                                          connection, or for servers a listening socket
    ``ttrpc+systemd://NAME``              listening sockets that systemd has opened (`serve` of
                                          RSocket has the same), only for servers
    ====================================  =========================================================

    Args:
        address: One of these, with ``ttrpc+`` or without it; or a `Uri`.

    Raises:
        ValueError: It is not an address of ttrpc; the message says why, and shows a valid one.
        TypeError: It is neither text nor a `Uri`.
    """
    if isinstance(address, Uri) and not address.scheme.startswith(_PREFIX):
        address = str(address)
    if isinstance(address, str):
        if address.startswith("/"):
            return Uri(scheme="ttrpc+unix", path=_plain_path(address))
        if _SHORT.match(address):
            address = _PREFIX + address
    return as_uri(address, WIRE)


def _plain_path(path: str) -> str:
    """Return a path as it is: containerd prints paths, which are not percent-encoded."""
    if "\0" in path or path == "/":
        raise ValueError(
            f"{path!r} is not the path of a socket; an address looks like "
            "'/run/app.sock' or 'ttrpc+unix:///run/app.sock'"
        )
    return path
