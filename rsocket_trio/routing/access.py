"""Who is asking: the hook of a router that authenticates connections and requests."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import attrs

from ..errors import InvalidSetup, MetadataError, Rejected, RejectedSetup, SetupError, StreamError
from ..metadata.authentication import Authentication, decode_authentication
from ..metadata.composite import CompositeMetadata, MetadataEntry
from ..metadata.mime_types import MIME, same_mime_type
from ..responder import Setup
from .signature import Interaction, Route

__all__ = ["Authenticate", "Guard", "RequestFacts", "as_composite", "constant_time_equal"]


@attrs.frozen
class RequestFacts:
    """What an authenticator learns of a request.

    Attributes:
        interaction: What is asked for.
        route: Where it was sent; it may be one that nobody has registered.
        setup: The connection's SETUP.
    """

    interaction: Interaction
    route: Route
    setup: Setup


Authenticate: TypeAlias = Callable[[Authentication | None, Setup | RequestFacts], Awaitable[Any]]
"""See `rsocket_trio.Router`."""


def constant_time_equal(one: str | bytes, other: str | bytes) -> bool:
    """Whether two secrets are the same, in a time that says nothing of where they differ.

    Comparing with ``==`` ends at the first difference, so a peer that measures could find a
    token out byte by byte. The length is no secret here.
    """
    return hmac.compare_digest(_to_bytes(one), _to_bytes(other))


def _to_bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def as_composite(metadata: bytes | None, mime_type: str) -> CompositeMetadata:
    """A connection's metadata as composite metadata, whatever their MIME type; unread as yet."""
    if metadata is None:
        return CompositeMetadata()
    if same_mime_type(mime_type, MIME.COMPOSITE_METADATA):
        return CompositeMetadata.decode(metadata)
    return CompositeMetadata([MetadataEntry(mime_type, metadata)])


_UNREADABLE: Final = "the metadata of SETUP cannot be read"


class Guard:
    """Asks the authenticator, and turns its refusals into those of the wire."""

    __slots__ = ("_authenticate",)

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate

    async def admit_setup(self, setup: Setup) -> Any:
        """The principal of a connection, ``None`` while it is nobody yet.

        Raises:
            SetupError: It is refused.

        Checkpoint: as the authenticator does.
        If cancelled: as the authenticator does.
        """
        try:
            auth = self.read(as_composite(setup.metadata, setup.metadata_mime_type))
        except MetadataError:
            raise InvalidSetup(_UNREADABLE) from None
        try:
            return await self._authenticate(auth, setup)
        except StreamError as error:
            raise RejectedSetup(error.data) from error

    async def admit_request(self, auth: Authentication | None, facts: RequestFacts) -> Any:
        """The principal of a request.

        Raises:
            StreamError: It is refused.

        Checkpoint: as the authenticator does.
        If cancelled: as the authenticator does.
        """
        try:
            return await self._authenticate(auth, facts)
        except SetupError as error:
            raise Rejected(error.data) from error

    def read(self, metadata: CompositeMetadata) -> Authentication | None:
        """The authentication in a request's metadata.

        Raises:
            MetadataError: It is damaged.
        """
        content = metadata.first(MIME.AUTHENTICATION)
        return None if content is None else decode_authentication(content)
