"""The facts about a call, for handlers and middleware: `Call`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...escapes import names_only
from ...metadata import builder
from ...metadata.mime_types import WellKnownMimeType
from ...requester import Requester
from ...responder import Setup
from ...routing import call as routing
from ...routing.middleware import Around
from ...routing.parameters import Route
from ...routing.stand_ins import mute_requester, setup_of
from ...sealed import maker
from ...sockets.peer import Peer
from ...sockets.socket_facts import PeerCredentials
from ..metadata import Metadata, entries_of, values_of
from ..methods import Method

if TYPE_CHECKING:
    from ...protocol.interaction import Interaction
    from .bound import ServedMethod

__all__ = ["Call", "Facts", "Middleware", "new_call"]


class Facts:
    """What the calls of one connection know of it.

    Attributes:
        peer: The client.
    """

    __slots__ = ("_requester", "_setup", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._setup: Setup | None = None
        self._requester: Requester | None = None

    @property
    def setup(self) -> Setup:
        """A SETUP, made when somebody asks."""
        if self._setup is None:
            self._setup = setup_of(self.peer, WellKnownMimeType.PROTOBUF.mime_type)
        return self._setup

    @property
    def requester(self) -> Requester:
        """A requester for which the connection is over: a client takes no requests."""
        if self._requester is None:
            self._requester = mute_requester(self.peer.transport)
        return self._requester


class Call(routing.Call, given="handlers and middleware are given one"):
    """The facts about a call; a parameter of a handler with this annotation receives them.

    It is the `rsocket_trio.Call` that middleware gets, with what only calls of ttrpc have.

    Attributes:
        pairs: The metadata of the call, in order.
    """

    __slots__ = ("_facts", "_served", "pairs")

    def __init__(self, served: ServedMethod, facts: Facts, pairs: Metadata, arrived: float) -> None:
        super().__init__(None)
        self.arrived = arrived
        self._served = served
        self._facts = facts
        self.pairs = pairs

    def __repr__(self) -> str:
        attributes = ", ".join(self._attributes or ())
        return f"<Call of {self._served.path} {names_only(self.pairs)} {attributes}>"

    @property
    def method(self) -> Method[Any, Any]:
        """The method; if the service has none of the name, one that says what was asked for."""
        return self._served.method

    def values(self, key: str) -> list[str]:
        """Return the metadata values of a key, in order; case makes a difference."""
        return values_of(self.pairs, key)

    @property
    def peer(self) -> PeerCredentials | None:
        """The client's process and user on a Unix socket; ``None`` if the kernel cannot say."""
        peer = self.transport.extra.get("peer_credentials")
        return peer if isinstance(peer, PeerCredentials) else None

    @property
    def interaction(self) -> Interaction:
        """The interaction of RSocket that exchanges as many messages.

        A method with a stream of requests is a ``REQUEST_CHANNEL``, whatever it answers.
        """
        return self._served.interaction

    @property
    def route(self) -> Route:
        """``package.Service/Method``, as for a Router that is served by ttrpc."""
        return self._served.route

    @property
    def template(self) -> str | None:
        """As `route`; ``None`` if there is no such method."""
        return self._served.route.template

    @property
    def handler(self) -> str | None:
        """The handler's name with its module; ``None`` if there is no such method."""
        return self._served.handler

    @property
    def metadata(self) -> builder.Metadata:
        """The `pairs` as metadata of RSocket, as a Router that is served by ttrpc sees them.

        The key ``authorization`` is the authentication, and all pairs are one entry.

        Raises:
            Unauthenticated: The authentication cannot be read.
        """
        return entries_of(self.route.name, self.pairs)

    @property
    def setup(self) -> Setup:
        """A SETUP with what is known about the connection; the protocol has none."""
        return self._facts.setup

    @property
    def requester(self) -> Requester:
        """A requester that raises `ConnectionClosed`: a client of ttrpc takes no requests."""
        return self._facts.requester


new_call: Final = maker(Call)

Middleware: TypeAlias = Around[Call]
"""As `rsocket_trio.Middleware`; it may look at what only the calls of ttrpc have."""
