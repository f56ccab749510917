"""From the metadata of a request to its handler: `Finder`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from ..errors import Invalid, MetadataError
from ..metadata.authentication import decode_authentication
from ..metadata.builder import Metadata
from ..metadata.composite import WantedEntries
from ..metadata.data_mime_types import DataMimeType, each_mime_type
from ..metadata.mime_types import (
    MIME,
    WELL_KNOWN_BIT,
    IdOrName,
    WellKnownMimeType,
    mime_type_name,
    same_mime_type,
)
from ..metadata.routing import decode_route
from ..protocol.interaction import Interaction
from .guards import Guards
from .handler import Context, Handler, decode_trace
from .kinds import Kind
from .parameters import Route
from .refusals import named, unreadable
from .registered import Registered
from .request import Place, Request
from .signature import Signature
from .supplies import Supplies
from .templates import Routes

__all__ = ["Finder"]

_KEPT: Final = 64
_KEPT_TYPES_SIZE: Final = 128
"""What was found for requests that name MIME types: so many are kept, if the entries that name them
have at most so many bytes. The oldest one makes room for a new one."""
_READ: Final = (
    MIME.ROUTING,
    MIME.MIME_TYPE,
    MIME.ACCEPT_MIME_TYPES,
    MIME.AUTHENTICATION,
    MIME.TRACING_ZIPKIN,
)
"""A router finds something only in entries of these types."""
_HEAD_SIZE: Final = 4
"""The bytes before the content of an entry whose type is a number."""
_MAX_TAG_SIZE: Final = 255
_ROUTING: Final = WELL_KNOWN_BIT | WellKnownMimeType.RSOCKET_ROUTING.id


class Finder:
    """Finds the handlers of a router on one connection.

    Metadata that are only a route, as most are, are one key, and so are a route and MIME types, of
    which a few are kept. Others are read each time, so that no secret in them is kept, and a peer
    cannot fill a memory: what is kept is bounded by the number of registered handlers.

    Args:
        registered: The handlers.
        context: The context of the router that is served.
        guards: The guards of the connection.
        supplies: What the handlers get from providers.
        traced: Whether a handler uses traces.
    """

    def __init__(
        self,
        registered: Mapping[Kind, Routes],
        context: Context,
        guards: Guards,
        supplies: Supplies,
        *,
        traced: bool,
    ) -> None:
        self._registered = registered
        self._context = context
        self._contexts: dict[tuple[int, int, int, bool], Context] = {}
        self._guards = guards
        self._supplies = supplies
        setup = context.setup
        self._data_mime_type = setup.data_mime_type
        self._metadata_mime_type: IdOrName = setup.metadata_mime_type
        self._is_composite = same_mime_type(setup.metadata_mime_type, MIME.COMPOSITE_METADATA)
        self._is_read = self._is_composite
        for read in _READ:
            if same_mime_type(setup.metadata_mime_type, read):
                self._metadata_mime_type, self._is_read = read, True
        wanted: list[IdOrName] = [MIME.ROUTING, MIME.MIME_TYPE]
        optional: list[IdOrName] = []
        if guards.any:
            wanted.append(MIME.AUTHENTICATION)
        if self._is_composite:
            # Other metadata cannot name the type of the answer.
            optional.append(MIME.ACCEPT_MIME_TYPES)
        if traced:
            optional.append(MIME.TRACING_ZIPKIN)
        self._wanted = WantedEntries(wanted, optional)
        self._places: dict[int, Place] = {}
        self._typed: dict[tuple[int, bytes | None, bytes | None], Handler] = {}

    def push(self, metadata: bytes) -> Request | None:
        """Return the request of a metadata_push, or ``None`` if there is no handler for it.

        Raises:
            Invalid: As the functions of `of`.
        """
        registered = self._registered[Interaction.METADATA_PUSH].exact.get(None)
        if registered is None:
            return None
        place = self._place(registered)
        request = Request(Interaction.METADATA_PUSH, place, None)
        if place.is_guarded:
            try:
                auth = self._entries(metadata).get(MIME.AUTHENTICATION)
                request.auth = None if auth is None else decode_authentication(auth)
            except MetadataError as error:
                return self._unreadable(
                    request.interaction, unreadable(error, self._named(request))
                )
        if place.usual is None:
            own = self._data_mime_type
            place.usual = Handler(
                place.context, registered.signature, Route(), own, own, supply=place.supply
            )
        request.handler = place.usual
        return request

    def of(self, interaction: Interaction) -> Callable[[bytes | None], Request]:
        """Return a function that returns the request that metadata describe.

        The function raises `Invalid` if the metadata cannot be read, or if there is no handler for
        the request, and there is neither a guard nor middleware.
        """
        # By the entry of the route: almost everybody writes it first, and in one way.
        known: dict[bytes | None, Request] = {}
        with_types: deque[bytes] = deque()
        routes = self._registered[interaction]

        def find(metadata: bytes | None) -> Request:
            request = known.get(metadata)
            if request is not None:
                return request
            if not self._is_read:
                metadata = None
            first = _first(metadata) if self._is_composite else metadata
            request = known.get(first)
            if request is None:
                request = self._resolve(interaction, routes, first)
                if request.is_common and self._is_one_of_few(first, request):
                    known[first] = request
            if metadata is None or first is metadata:
                return request
            size = len(first or b"")
            more = self._with_more(request, metadata, size)
            if (
                (more.mime_type is not None or more.accept is not None)
                and request.is_common
                and more.types_size == len(metadata) - size <= _KEPT_TYPES_SIZE
            ):
                # There is nothing else in it, no secret either.
                if len(with_types) == _KEPT:
                    del known[with_types.popleft()]
                known[metadata] = more
                with_types.append(metadata)
            return more

        return find

    def _is_one_of_few(self, metadata: bytes | None, request: Request) -> bool:
        """Whether metadata are absent, or the route of a handler, in the most usual form of it."""
        if metadata is None or request.name is None:
            return metadata is None
        if self._is_composite:
            return metadata[0] == _ROUTING
        return self._metadata_mime_type == MIME.ROUTING

    def _entries(self, metadata: bytes | None) -> dict[IdOrName, bytes]:
        """Return the contents of the entries that are looked for.

        Raises:
            MetadataError: The metadata cannot be read.
        """
        if metadata is None:
            return {}
        if self._is_composite:
            return self._wanted.find(metadata, self._context.limits.max_metadata_entries, {})
        return {self._metadata_mime_type: metadata}

    def _resolve(
        self,
        interaction: Interaction,
        routes: Routes,
        metadata: bytes | None,
    ) -> Request:
        """Find the handler of a request, and read the metadata that the guards need."""
        try:
            found = self._entries(metadata)
            tags = decode_route(found.get(MIME.ROUTING, b""), limits=self._context.limits)
            name = tags[0] if tags else None
            there = routes.find(name)
            if there is None:
                place = Place(None, self._context, self._guards.steps_of_unknown(name))
                return self._request(Request(interaction, place, name, tags[1:]), found)
            registered, values = there
            place = self._place(registered)
            if values and self._guards.any:
                place = self._fenced(place, registered, name)
            return self._request(Request(interaction, place, name, tags[1:], values), found)
        except MetadataError as error:
            return self._unreadable(
                interaction, unreadable(error, named(self._context, interaction, Route()))
            )

    def _unreadable(self, interaction: Kind, refusal: Invalid) -> Request:
        """Return a request whose metadata cannot be read, for the middleware around all requests.

        Raises:
            Invalid: There is none.
        """
        steps = self._guards.middleware
        if not steps:
            try:
                raise refusal from None
            finally:
                del refusal  # it has this frame: a cycle would keep the metadata until a collection
        request = Request(interaction, Place(None, self._context, steps), None)
        request.refusal = refusal
        return request

    def _with_more(self, request: Request, metadata: bytes, at: int) -> Request:
        """Read what follows the route in composite metadata."""
        found: dict[IdOrName, bytes] = {MIME.ROUTING: b""}
        at_most = self._context.limits.max_metadata_entries
        try:
            self._wanted.find(metadata, at_most, found, at)
            if len(found) == 1:
                return request  # there is nothing that a router reads
            return self._request(request.again(), found)
        except MetadataError as error:
            return self._unreadable(request.interaction, unreadable(error, self._named(request)))

    def _request(self, request: Request, found: Mapping[IdOrName, bytes]) -> Request:
        """Read the entries of a request; the MIME types not before it is admitted.

        Raises:
            MetadataError: The authentication cannot be read.
        """
        place = request.place
        request.mime_type = found.get(MIME.MIME_TYPE)
        request.accept = found.get(MIME.ACCEPT_MIME_TYPES)
        if MIME.TRACING_ZIPKIN in found:
            tracing = place.tracing
            trace = decode_trace(found[MIME.TRACING_ZIPKIN]) if tracing is not None else None
            if tracing is not None and trace is not None:
                request.steps += (tracing.around(trace),)
        if not request.steps:
            handler = self.complete(request)
            if not (handler.takes_call or handler.takes_body):
                request.plain = handler
        elif place.is_guarded and MIME.AUTHENTICATION in found:
            request.auth = decode_authentication(found[MIME.AUTHENTICATION])
        return request

    def _place(self, registered: Registered) -> Place:
        place = self._places.get(id(registered))
        if place is None:
            steps = self._guards.steps(registered)
            context = self._context_of(registered)
            place = Place(registered, context, steps, self._supplies.of(registered, context))
            self._places[id(registered)] = place
        return place

    def _fenced(self, place: Place, registered: Registered, name: str | None) -> Place:
        """Return the place of a request whose route may lie within a fence of other handlers."""
        steps = self._guards.steps_of_template(registered, name)
        return Place(registered, place.context, steps, place.supply) if steps else place

    def complete(self, request: Request) -> Handler:
        """Read the rest of the metadata, and find the handler of a request that is admitted.

        Raises:
            Invalid: There is no handler, or the metadata cannot be read, or there is no codec for
                the answer.
        """
        place, mime_type, accept = request.place, request.mime_type, request.accept
        if place.registered is None:
            raise request.missing()
        if request.values:
            self._check_sizes(request, place.registered)
        if mime_type is None and not accept:
            if place.usual is None:
                place.usual = self._made(request, place.registered)
            request.handler = place.usual
            return place.usual
        key = (id(place), mime_type, accept)
        handler = self._typed.get(key)
        if handler is None:
            handler = self._made(request, place.registered)
            if len(mime_type or b"") + len(accept or b"") <= _KEPT_TYPES_SIZE:
                if len(self._typed) == _KEPT:
                    del self._typed[next(iter(self._typed))]
                self._typed[key] = handler
        request.handler = handler
        return handler

    def _check_sizes(self, request: Request, registered: Registered) -> None:
        at_most = self._context.limits.max_route_variable_size
        if at_most >= _MAX_TAG_SIZE:
            return
        for name, value in zip(registered.signature.variables, request.values, strict=True):
            if len(value.encode()) > at_most:
                raise Invalid(
                    f"the variable {name!r} of route {registered.route!a} has more than {at_most} "
                    "bytes (max_route_variable_size)"
                )

    def _made(self, request: Request, registered: Registered) -> Handler:
        """Return a new handler for requests with these MIME types."""
        mime_type = self._data_mime_type
        if request.mime_type is not None:
            try:
                mime_type = mime_type_name(DataMimeType.decode(request.mime_type).mime_type)
            except MetadataError as error:
                raise unreadable(error, self._named(request)) from None
        context, signature = request.place.context, registered.signature
        answer_type, name = self._answer(context, signature, request.accept)
        route = Route(registered.route or "")
        supply = request.place.supply
        return Handler(context, signature, route, mime_type, answer_type, name, supply)

    def _context_of(self, registered: Registered) -> Context:
        """Return the context of a handler: most handlers share one."""
        settings = registered.settings
        setup, guarded = self._guards.nearest(registered)
        # All of these live as long as the connection, so no other object gets one of their ids.
        key = (id(settings.codecs), id(settings.explain), id(setup), guarded)
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = self._context.of(settings, setup, guarded=guarded)
        return context

    def _named(self, request: Request) -> str:
        return named(self._context, request.interaction, request.route, request.signature)

    def _answer(
        self, context: Context, signature: Signature, accept: bytes | None
    ) -> tuple[str, bytes | None]:
        """Return the MIME type of the answer, and the metadata that name it, if any are needed.

        PerStreamDataMimeTypesDefinition.md, "Introduction": if the request accepts no types, the
        type of SETUP applies. If it accepts some, an answer of another type must name its type. An
        answer of an accepted type names it too, unless it is the type of SETUP: the request may
        accept several.
        """
        own = self._data_mime_type
        if not accept:
            return own, None
        at_most = context.limits.max_accept_types
        try:
            for wanted in islice(each_mime_type(accept), at_most):
                if isinstance(wanted, str):
                    if same_mime_type(wanted, own):
                        return own, None
                    if context.codecs.can_encode(signature.result, wanted):
                        return wanted, _metadata_of(wanted)
        except MetadataError:
            # They may be ignored, so damage is no reason to refuse a request.
            return own, None
        return own, _metadata_of(own)


def _first(metadata: bytes | None) -> bytes | None:
    """Return the first entry of composite metadata, if it is a route; otherwise all of them."""
    if metadata is None or len(metadata) < _HEAD_SIZE or metadata[0] != _ROUTING:
        return metadata
    end = _HEAD_SIZE + int.from_bytes(metadata[1:_HEAD_SIZE], "big")
    return metadata[:end] if end < len(metadata) else metadata


def _metadata_of(mime_type: str) -> bytes | None:
    try:
        return Metadata(data_mime_type=mime_type).encode()
    except MetadataError:
        return None  # the name in SETUP is too long to be written here
