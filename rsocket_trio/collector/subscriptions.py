"""Streams that a collector stores, as users name them: `Subscription`, `parse_subscription`."""

from __future__ import annotations

from typing import Final

import attrs

from ..escapes import size_only
from ..metadata import MIME, Authentication
from ..rsio.addresses import WIRE, rsio_uri
from ..uri import Uri, parse_uri, shown, without_query

__all__ = ["Subscription", "parse_subscription"]

_MAX_ROUTE: Final = 255
"""Bytes of a route of RSocket (metadata extension Routing)."""
_MAX_NAME: Final = 1024
"""Bytes of the name of a publisher of rsio: the limit of its receivers."""


@attrs.frozen
class Subscription:
    """A stream of a publisher.

    Attributes:
        uri: The address of the publisher.
        route: The route of the stream; with rsio, the name of the publisher.
        data: The data of the request; rsio has none.
        mime_type: The MIME type of these data, and of the data that the publisher is asked for.
        auth: What the SETUP presents to the publisher; rsio has none.

    Raises:
        ValueError: There is ``auth`` for a publisher of rsio.
    """

    uri: Uri
    route: str = attrs.field(repr=without_query)
    data: bytes = attrs.field(default=b"", repr=size_only)
    mime_type: str = MIME.JSON
    auth: Authentication | None = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.auth is not None and self.is_rsio:
            raise ValueError(f"{shown(self.uri)}: publishers of rsio know no credentials")

    @property
    def is_rsio(self) -> bool:
        """Whether the publisher is one of rsio, and not a responder of RSocket."""
        return self.uri.scheme.startswith(WIRE)

    def __str__(self) -> str:
        """The address and the route as people may see them: a query in them may be a secret."""
        separator = "#" if self.uri.path else "/"
        return f"{shown(self.uri)}{separator}{self.shown_route}"

    @property
    def shown_route(self) -> str:
        """The route as people may see it."""
        return without_query(self.route)


def parse_subscription(text: str) -> Subscription:
    """Read a subscription: an address, and a route or the name of a publisher of rsio.

    The route is the path: ``tcp://host:7878/route``, ``rsio://host:7980/ticks?every=0.1``. An
    address that has a path itself has the route behind a ``#``: ``ws://host:7879/rsocket#route``,
    ``unix:///run/app.sock#route``. This form is allowed for each address.

    Args:
        text: The text.

    Raises:
        ValueError: It is no address with a route.
    """
    address, mark, route = text.partition("#")
    scheme, slashes, rest = address.partition("://")
    if not mark and scheme.removeprefix("rsio+") not in {"ws", "wss", "unix"}:
        authority, _, route = rest.partition("/")
        address = f"{scheme}{slashes}{authority}"
    is_rsio = scheme.lower().startswith(WIRE)
    try:
        uri = rsio_uri(address) if is_rsio else parse_uri(address)
    except ValueError:
        if "@" not in text:
            raise
        # What looks like a route may be the rest of a password, so no part is shown alone.
        raise ValueError(f"{shown(text)!r} is not an address with a route") from None
    if not route:
        example = f"{shown(uri)}#events" if uri.path else f"{shown(uri)}/events"
        raise ValueError(f"{shown(text)!r} names no route of a publisher, as in {example!r}")
    most, what = (_MAX_NAME, "the name of a publisher") if is_rsio else (_MAX_ROUTE, "a route")
    if len(route.encode()) > most:
        raise ValueError(f"{what} has at most {most} bytes")
    return Subscription(uri, route)
