"""The addresses of Lumberjack: ``lumberjack://host:port`` and, with TLS, ``lumberjacks://``.

For servers also ``lumberjack+fd://3`` and ``lumberjack+systemd://NAME``, sockets that are open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..field_checks import listed
from ..uri import Scheme, Uri, as_uri, register_scheme

__all__ = ["DEFAULT_PORT", "WIRE", "lumberjack_uri", "lumberjack_uris"]

WIRE: Final = "lumberjack"
DEFAULT_PORT: Final = 5044
"""The port that Beats and Logstash use."""

register_scheme(
    Scheme(
        name="lumberjack",
        wire=WIRE,
        example="lumberjack://127.0.0.1:5044",
        default_port=DEFAULT_PORT,
    )
)
register_scheme(
    Scheme(
        name="lumberjacks",
        wire=WIRE,
        example="lumberjacks://example.org:5044",
        default_port=DEFAULT_PORT,
        is_encrypted=True,
    )
)


def lumberjack_uri(address: str | Uri) -> Uri:
    """Return the `Uri` of an address of Lumberjack; the port is 5044 if there is none.

    Raises:
        ValueError: It is not an address of Lumberjack.
        TypeError: It is neither text nor a `Uri`.
    """
    return as_uri(address, WIRE)


def lumberjack_uris(uris: str | Uri | Iterable[str | Uri]) -> list[Uri]:
    """Return the addresses of the hosts to ship to: one, or several.

    Raises:
        TypeError: One is of a wrong type.
        ValueError: One is wrong, or there is none.
    """
    given = (uris,) if isinstance(uris, str | Uri) else listed("uris", uris, str, Uri)
    if not given:
        raise ValueError('name an address to ship to, e.g. "lumberjack://127.0.0.1:5044"')
    return [lumberjack_uri(each) for each in given]
