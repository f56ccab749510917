"""Who is asking: the hook of a router that authenticates connections and requests.

What it is asked about, and what it is told. Who asks it is `rsocket_trio.routing.guards`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import attrs

from ..config import DEFAULT_LIMITS, Limits
from ..metadata.authentication import Authentication
from ..metadata.composite import CompositeMetadata, MetadataEntry
from ..metadata.mime_types import MIME, same_mime_type
from ..protocol.interaction import Interaction
from ..responder import ResumeFacts, Setup
from .signature import Route

__all__ = ["Authenticate", "RequestFacts", "as_composite"]


@attrs.frozen
class RequestFacts:
    """What an authenticator learns of a request.

    Attributes:
        interaction: What is asked for.
        route: Where it was sent; it may be one that nobody has registered.
        setup: The connection's SETUP, with the principal this authenticator has given it.
        outer: The principal of this request, as the authenticator of the router around this one
            says (see `Router.include`); ``None`` where there is none.
    """

    interaction: Interaction
    route: Route
    setup: Setup
    outer: Any = None

    @property
    def principal(self) -> Any:
        """Who has connected, as this authenticator has said of the SETUP."""
        return self.setup.principal


Authenticate: TypeAlias = Callable[
    [Authentication | None, Setup | RequestFacts | ResumeFacts], Awaitable[Any]
]
"""See `rsocket_trio.Router`."""


def as_composite(
    metadata: bytes | None, mime_type: str, limits: Limits = DEFAULT_LIMITS
) -> CompositeMetadata:
    """A connection's metadata as composite metadata, whatever their MIME type; unread as yet."""
    if metadata is None:
        return CompositeMetadata()
    if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        return CompositeMetadata.decode(metadata, limits)
    return CompositeMetadata([MetadataEntry(mime_type, metadata)])
