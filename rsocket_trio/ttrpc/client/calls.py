"""A call before it is sent, for the middleware of a client: `OutgoingCall`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ...escapes import names_only
from ...routing.call import AnyCall
from ...routing.middleware import Around
from ...routing.parameters import Route
from ..metadata import Metadata, MetadataLike, as_metadata
from ..methods import INTERACTIONS, Method

if TYPE_CHECKING:
    from ...protocol.interaction import Interaction
    from ...sockets.byte_stream import TransportInfo

__all__ = ["OutgoingCall", "OutgoingMiddleware"]


class OutgoingCall(AnyCall, given="the middleware of a client is given one"):
    """One call of a client, from before it is sent to its end.

    Attributes:
        method: The method.
    """

    __slots__ = ("_pairs", "_transport", "method")

    def __init__(self, method: Method[Any, Any], pairs: Metadata, transport: TransportInfo) -> None:
        super().__init__()
        self.method = method
        self._pairs = pairs
        self._transport = transport

    def __repr__(self) -> str:
        return f"<OutgoingCall of {self.method.path} {names_only(self._pairs)}>"

    @property
    def pairs(self) -> Metadata:
        """The metadata of the call, in order; set others, as pairs or as a mapping."""
        return self._pairs

    @pairs.setter
    def pairs(self, pairs: MetadataLike) -> None:
        self._pairs = as_metadata(pairs)

    @property
    def interaction(self) -> Interaction:
        """As of a `Call`."""
        return INTERACTIONS[self.method.kind]

    @property
    def route(self) -> Route:
        """``package.Service/Method``."""
        return Route(self.template)

    @property
    def template(self) -> str:
        """``package.Service/Method``."""
        return f"{self.method.service}/{self.method.name}"

    @property
    def transport(self) -> TransportInfo:
        """Facts about the connection."""
        return self._transport


OutgoingMiddleware: TypeAlias = Around[OutgoingCall]
"""As `rsocket_trio.OutgoingMiddleware`, around a call of a client."""
