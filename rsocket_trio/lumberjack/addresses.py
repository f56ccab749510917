"""The addresses of Lumberjack: ``lumberjack://host:port`` and, with TLS, ``lumberjacks://``."""

from __future__ import annotations

from typing import Final

from ..uri import Scheme, Uri, as_uri, register_scheme

__all__ = ["DEFAULT_PORT", "WIRE", "lumberjack_uri"]

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
