"""From the metadata of a request to its handler: `Finder`."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from ..errors import MetadataError
from ..metadata.authentication import decode_authentication
from ..metadata.builder import Metadata
from ..metadata.data_mime_types import DataMimeType, each_mime_type
from ..metadata.mime_types import MIME, IdOrName, mime_type_name, same_mime_type
from ..metadata.routing import decode_route
from ..protocol.interaction import Interaction
from .access import as_composite, read_auth
from .guards import Guards, Visit
from .handler import Context, Handler, decode_trace
from .kinds import Kind
from .parameters import Route
from .refusals import named, unreadable
from .registered import Registered, Registrations
from .request import Request
from .signature import Signature

__all__ = ["Finder"]

_CACHED: Final = 64
_CACHED_METADATA_SIZE: Final = 128
_CACHED_PARTS: Final = 8
"""The limits of two caches per interaction: 64 requests by metadata of at most 128 bytes, and 64
handlers, whose keys have at most 8 routing tags and 3 MIME types.

Most requests of a connection have one of a few routes and no other metadata: they cost one look-up.
"""
_REMEMBERED: Final = frozenset({MIME.ROUTING, MIME.MIME_TYPE, MIME.ACCEPT_MIME_TYPES})
"""Only metadata that consist of these are cached. Other metadata may be secret, as passwords and
tokens are, or differ with each request, as traces do."""
_READ: Final = (*_REMEMBERED, MIME.COMPOSITE_METADATA, MIME.AUTHENTICATION, MIME.TRACING_ZIPKIN)
"""A router finds something only in metadata of these types."""


class Finder:
    """Finds the handlers of a router on one connection.

    Args:
        registered: The handlers.
        context: The context of the router that is served.
        guards: The guards of the connection.
        traced: Whether a handler uses traces.
    """

    def __init__(
        self, registered: Registrations, context: Context, guards: Guards, *, traced: bool
    ) -> None:
        self._registered = registered
        self._context = context
        self._contexts: dict[tuple[int, int, int, bool], Context] = {}
        self._guards = guards
        setup = context.setup
        self._data_mime_type = setup.data_mime_type
        self._metadata_mime_type = setup.metadata_mime_type
        self._is_read = any(same_mime_type(setup.metadata_mime_type, read) for read in _READ)
        wanted: list[IdOrName] = [MIME.ROUTING, MIME.MIME_TYPE]
        optional: list[IdOrName] = []
        if guards.any:
            wanted.append(MIME.AUTHENTICATION)
        if same_mime_type(setup.metadata_mime_type, MIME.COMPOSITE_METADATA):
            # Other metadata cannot name the type of the answer.
            optional.append(MIME.ACCEPT_MIME_TYPES)
        if traced:
            optional.append(MIME.TRACING_ZIPKIN)
        self._wanted, self._optional = tuple(wanted), tuple(optional)
        self._requests: dict[Interaction, dict[bytes | None, Request]] = {
            i: {} for i in Interaction
        }
        self._handlers: dict[Kind, dict[object, Handler]] = {}

    def push(self, metadata: bytes) -> Request | None:
        """Return the request of a metadata_push, or ``None`` if there is no handler for it.

        Raises:
            Invalid: A guard has to read the metadata, and they cannot be read.
        """
        registered = self._registered[Interaction.METADATA_PUSH].get(None)
        if registered is None:
            return None
        request = Request(Interaction.METADATA_PUSH, Route())
        request.registered = registered
        if self._line_up(request):
            try:
                request.auth = read_auth(
                    as_composite(metadata, self._metadata_mime_type, self._context.limits)
                )
            except MetadataError as error:
                raise unreadable(error, self._named(request)) from None
        own = self._data_mime_type
        context = self._context_of(registered)
        request.handler = Handler(context, registered.signature, Route(), own, own)
        return request

    def find(self, interaction: Interaction, metadata: bytes | None) -> Request:
        """Return the request that metadata describe.

        Raises:
            Invalid: The metadata cannot be read; or there is no handler and no guard for it.
        """
        requests = self._requests[interaction]
        request = requests.get(metadata)
        if request is None:
            if not self._is_read and metadata is not None:
                return self.find(interaction, None)
            request = self._resolve(interaction, metadata)
            if metadata is None or self._may_remember(metadata):
                _remember(requests, metadata, request)
        return request

    def _may_remember(self, metadata: bytes) -> bool:
        """Return whether metadata are short, and hold neither secrets nor a trace."""
        if len(metadata) > _CACHED_METADATA_SIZE:
            return False
        entries = as_composite(metadata, self._metadata_mime_type, self._context.limits)
        try:
            return all(entry.mime_type in _REMEMBERED for entry in entries)
        except MetadataError:  # behind the entries that were needed
            return False

    def _resolve(self, interaction: Interaction, metadata: bytes | None) -> Request:
        """Read the metadata that the guards need."""
        limits = self._context.limits
        try:
            entries = as_composite(metadata, self._metadata_mime_type, limits)
            found = entries.find(self._wanted, self._optional)
            tags = decode_route(found.get(MIME.ROUTING, b""), limits=limits)
            request = Request(interaction, Route(tags[0] if tags else "", tags[1:]))
            request.routed = bool(tags)
            request.registered = self._registered[interaction].get(tags[0] if tags else None)
            if self._line_up(request) and MIME.AUTHENTICATION in found:
                request.auth = decode_authentication(found[MIME.AUTHENTICATION])
        except MetadataError as error:
            raise unreadable(error, named(self._context, interaction, Route())) from None
        request.mime_type = found.get(MIME.MIME_TYPE)
        request.accept = found.get(MIME.ACCEPT_MIME_TYPES)
        if MIME.TRACING_ZIPKIN in found and request.tracing is not None:
            trace = decode_trace(found[MIME.TRACING_ZIPKIN])
            if trace is not None:
                request.steps += (request.tracing.around(trace),)
        if not request.steps:
            handler = self.complete(request)
            if not handler.takes_call:
                request.plain = handler
        return request

    def _line_up(self, request: Request) -> bool:
        """Find the guards and the middleware of a request; whether there is a guard."""
        request.steps = self._guards.steps(
            request.registered, request.interaction, request.route, request.routed
        )
        return any(type(step) is Visit for step in request.steps)

    def complete(self, request: Request) -> Handler:
        """Read the rest of the metadata, and find the handler of a request that is admitted.

        Raises:
            Invalid: There is no handler, or the metadata cannot be read, or there is no codec for
                the answer.
        """
        registered = request.registered
        if registered is None:
            raise request.missing()
        signature = registered.signature
        mime_type = self._data_mime_type
        if request.mime_type is not None:
            try:
                mime_type = mime_type_name(DataMimeType.decode(request.mime_type).mime_type)
            except MetadataError as error:
                raise unreadable(error, self._named(request)) from None
        context = self._context_of(registered)
        answer_type, name = self._answer(context, signature, request.accept)
        handlers = self._handlers.setdefault(request.interaction, {})
        route = request.route
        key = (request.routed, route, mime_type, answer_type, name)
        handler = handlers.get(key)
        if handler is None:
            handler = Handler(context, signature, route, mime_type, answer_type, name)
            if len(route.tags) < _CACHED_PARTS:
                _remember(handlers, key, handler)
        request.handler = handler
        return handler

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
                        return wanted, _named(wanted)
        except MetadataError:
            # They may be ignored, so damage is no reason to refuse a request.
            return own, None
        return own, _named(own)


def _named(mime_type: str) -> bytes | None:
    try:
        return Metadata(data_mime_type=mime_type).encode()
    except MetadataError:
        return None  # the name in SETUP is too long to be written here


def _remember(cache: dict[Any, Any], key: object, value: object) -> None:
    if len(cache) >= _CACHED:
        cache.clear()
    cache[key] = value
