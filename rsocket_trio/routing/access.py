"""The arguments of a router's ``authenticate``, which `rsocket_trio.routing.guards` calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from ..config import DEFAULT_LIMITS, Limits
from ..escapes import size_only
from ..metadata.authentication import Authentication, decode_authentication
from ..metadata.composite import CompositeMetadata, MetadataEntry
from ..metadata.mime_types import MIME, same_mime_type
from ..protocol.interaction import Interaction
from ..responder import ResumeFacts, Setup
from .kinds import Delivery
from .parameters import Route

__all__ = ["Authenticate", "RequestFacts", "as_composite", "read_auth"]


@attrs.frozen(kw_only=True)
class RequestFacts:
    """What an authenticator learns of a request.

    Attributes:
        interaction: The interaction; ``Delivery.EVENTS`` for a batch of events.
        route: The route of the request, which may have no handler.
        setup: The connection's SETUP, with the principal that this authenticator has returned.
        outer_principal: The principal that the authenticator of the router around this one has
            returned for this request (see `Router.include`); ``None`` if there is none.
    """

    interaction: Interaction | Delivery
    route: Route
    setup: Setup
    outer_principal: object = attrs.field(default=None, repr=size_only)

    @property
    def principal(self) -> object:
        """The principal that this authenticator has returned for the SETUP."""
        return self.setup.principal


Authenticate: TypeAlias = Callable[
    [Authentication | None, Setup | RequestFacts | ResumeFacts], Awaitable[object]
]
"""See `rsocket_trio.Router`."""


def as_composite(
    metadata: bytes | None, mime_type: str, limits: Limits = DEFAULT_LIMITS
) -> CompositeMetadata:
    """Return metadata of any MIME type as composite metadata, which is not read yet."""
    if metadata is None:
        return CompositeMetadata()
    if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        return CompositeMetadata.decode(metadata, limits=limits)
    return CompositeMetadata([MetadataEntry(mime_type, metadata)])


def read_auth(metadata: CompositeMetadata) -> Authentication | None:
    """The authentication in a request's metadata.

    Raises:
        MetadataError: It is damaged.
    """
    content = metadata.first(MIME.AUTHENTICATION)
    return None if content is None else decode_authentication(content)
