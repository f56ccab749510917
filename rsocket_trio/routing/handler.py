"""A handler on one connection, with what fills its parameters and writes its result: `Handler`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..codecs import DEFAULT_CODECS, CodecError
from ..codecs.mismatch import UNAWAITED, kind_of, unawaited
from ..codecs.registry import allows_none
from ..config import DEFAULT_LIMITS, Limits
from ..errors import MetadataError
from ..interactions.payload_body import PayloadBody, body_of
from ..log_policy import logger
from ..metadata.builder import Metadata
from ..metadata.composite import CompositeMetadata
from ..metadata.mime_types import MIME
from ..metadata.tracing_zipkin import ZipkinTrace
from ..payload import Payload
from ..reactive_streams.interfaces import Publisher
from ..reactive_streams.iterating import iterate
from ..streamed import AnyPayload, StreamedPayload
from .access import as_composite
from .converted_streams import READY, DecodedChannel, EncodedItems
from .hooks import check_answer, failed
from .marks import check_known
from .middleware import Blocks
from .owned_items import OwnedItems, PublishedItems, published
from .parameters import EMPTY, Parameter, Route, Source, fact_of
from .refusals import answer_refused, data_refused, named, noted, unreadable, variable_refused
from .registered import Settings
from .signature import Signature, no_authenticator
from .variables import variable_reader

if TYPE_CHECKING:
    import trio

    from ..requester import Requester
    from ..responder import Setup
    from .call import Call
    from .kinds import EventBatch
    from .request import Request
    from .supplies import Supply

__all__ = ["Context", "Handler", "decode_trace"]

Arriving: TypeAlias = (
    "trio.abc.ReceiveChannel[Payload] | PublishedItems | PayloadBody"
    " | tuple[EventBatch, list[Any]] | None"
)
"""What a request has besides its payload: the items of a channel or the data, which are still to
come, or a batch with its events."""

Fill: TypeAlias = "Callable[[Request, Payload, Arriving, Call | None], Any]"


class Context:
    """What the handlers of one connection with the same settings share.

    Attributes:
        codecs: The codecs.
        setup: The SETUP, with the principal that the authenticator of these handlers has returned.
        requester: For requests to the peer.
        guarded: Requests are authenticated.
        limits: How much of a request's metadata is read.
    """

    __slots__ = ("_explain", "codecs", "guarded", "limits", "requester", "setup")

    def __init__(
        self,
        settings: Settings,
        setup: Setup,
        requester: Requester,
        *,
        guarded: bool,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.codecs = DEFAULT_CODECS if settings.codecs is None else settings.codecs
        self.setup = setup
        self.requester = requester
        self.guarded = guarded
        self.limits = limits
        self._explain = settings.explain

    def of(self, settings: Settings, setup: Setup, *, guarded: bool) -> Context:
        """Return the context of handlers with other settings on the same connection."""
        return Context(settings, setup, self.requester, guarded=guarded, limits=self.limits)

    @property
    def explains(self) -> bool:
        """Whether the peer may learn which field of its data was refused, and why."""
        explain = self._explain
        if callable(explain):
            try:
                answer: Any = explain(self.setup)
                check_answer(explain, answer)
                self._explain = bool(answer)  # it is asked once for a connection
            except Exception:  # the function is the application's
                failed("explain", explain, "an explanation")
                self._explain = False
            return self._explain
        return bool(explain)


class Handler:
    """A registered function, ready to be called with requests of one kind.

    Attributes:
        takes_body: It reads the request's data while they arrive.
        takes_call: It looks at the call, or something is made for each call.
        steps: The providers that make it, for after the request has arrived.
        encode: Converts its results.
        name: Metadata that name the MIME type of the results, if the requester needs them.
    """

    __slots__ = (
        "_context",
        "_fill",
        "_fill_keywords",
        "_function",
        "_is_generator",
        "_published",
        "_raw",
        "_signature",
        "_start",
        "_takes",
        "encode",
        "name",
        "steps",
        "takes_body",
        "takes_call",
    )

    def __init__(
        self,
        context: Context,
        signature: Signature,
        route: Route,
        mime_type: str,
        answer_type: str,
        name: bytes | None = None,
        supply: Supply | None = None,
    ) -> None:
        self._context = context
        self._signature = signature
        self._function = signature.function
        self._is_generator = signature.is_generator
        self._raw = signature.result in (Payload, StreamedPayload)
        self._fill: list[Fill] = []
        self._fill_keywords: dict[str, Fill] = {}
        for parameter in signature.parameters:
            if parameter.source is Source.PROVIDED:
                fill = cast("Supply", supply).filler(parameter.name)
            else:
                fill = _filler(context, signature, parameter, mime_type)
            if parameter.by_keyword:
                self._fill_keywords[parameter.name] = fill
            else:
                self._fill.append(fill)
        self._takes = None if self._fill_keywords else len(self._fill)
        self.encode = _encoder(context, signature, route, answer_type)
        self.name = name
        self.takes_body = signature.takes_body
        self.steps = () if supply is None else supply.steps
        self._start = () if supply is None else supply.start
        self.takes_call = signature.takes_call or bool(self.steps or self._start)
        self._published = signature.takes_publisher

    def __call__(
        self,
        request: Request,
        payload: Payload,
        arriving: Arriving = None,
        call: Call | None = None,
    ) -> Any:
        """Call the function, and return its coroutine or async generator.

        Args:
            request: What the router knows of the request.
            payload: The request; only its metadata, if the data are still arriving.
            arriving: What it has besides the payload.
            call: The call, if the handler, a guard or a middleware looks at it.
        """
        fills = self._fill
        # Nearly all take one or two; a list costs a third of this call.
        if self._takes == 1:
            return self._function(fills[0](request, payload, arriving, call))
        if self._takes == 2:
            first, second = fills
            return self._function(
                first(request, payload, arriving, call), second(request, payload, arriving, call)
            )
        arguments = [fill(request, payload, arriving, call) for fill in fills]
        if not self._fill_keywords:
            return self._function(*arguments)
        keywords = {
            name: fill(request, payload, arriving, call)
            for name, fill in self._fill_keywords.items()
        }
        return self._function(*arguments, **keywords)

    def answer(self, result: Any) -> AnyPayload | None:
        """Return the payload for a result; ``None`` and payloads are answers already."""
        if result is None or isinstance(result, READY):
            return result
        return Payload(self.encode(result), self.name)

    def stream(
        self,
        request: Request,
        payload: Payload,
        arriving: Arriving = None,
        call: Call | None = None,
    ) -> AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]:
        """Call the function of a stream."""
        if self._published and not isinstance(arriving, PublishedItems):
            # A task feeds the publisher. It belongs to the iteration of the answer.
            channel = cast("trio.abc.ReceiveChannel[Payload]", arriving)
            block = published(channel)
            return OwnedItems(block, lambda items: self.stream(request, payload, items, call))
        if self._start:
            return self._started(request, payload, arriving, cast("Call", call))
        result: Any = self(request, payload, arriving, call)
        if self._is_generator:
            return self._encoded(request, result)
        return self._later(request, result)

    async def _started(
        self, request: Request, payload: Payload, arriving: Arriving, call: Call
    ) -> AsyncIterable[AnyPayload]:
        """Call the function of a stream, with objects that are left when it has returned."""
        around = Blocks(call, ())
        async with around:
            await around.supply(self._start)
            items = await self._later(request, self(request, payload, arriving, call))
        call.outcome = None  # of the start only
        return items

    async def _later(self, request: Request, result: Any) -> AsyncIterable[AnyPayload]:
        try:
            return self._encoded(request, self._stream_of(await result))
        except Exception as error:  # to be raised again, with a note
            self._note(request, error)
            raise

    def _stream_of(self, result: Any) -> AsyncIterable[Any] | Publisher[Any]:
        if isinstance(result, AsyncIterable | Publisher):
            return result
        got = unawaited(result) if isinstance(result, UNAWAITED) else kind_of(result)
        raise TypeError(
            f"{self._signature.name} returned {got}: a {self._signature.interaction.value} handler "
            "yields its items, or returns an async iterable or a publisher of them"
        )

    def _encoded(
        self, request: Request, items: AsyncIterable[Any] | Publisher[Any]
    ) -> AsyncIterable[AnyPayload]:
        if self._raw:
            return items if isinstance(items, AsyncIterable) else iterate(items)
        return EncodedItems(items, self.encode, self.name, partial(self._note, request))

    def _note(self, request: Request, error: Exception) -> None:
        """Add a note with the request to an error of the function."""
        signature = self._signature
        noted(error, self._context, signature.interaction, request.route, signature)


def _filler(context: Context, signature: Signature, parameter: Parameter, mime_type: str) -> Fill:
    """Return a function that fills a parameter from a request."""
    metadata_mime_type = context.setup.metadata_mime_type
    limits = context.limits
    match parameter.source:
        case Source.DATA:
            decode = _decoder(context, signature, parameter, mime_type)
            default = parameter.default
            if default is EMPTY:
                return lambda request, payload, _, __: decode(request, payload.data)
            return lambda request, payload, _, __: (
                decode(request, payload.data) if payload.data else default
            )
        case Source.VARIABLE:
            return _variable(context, signature, parameter)
        case Source.CHANNEL:
            if parameter.annotation is Payload:
                if parameter.published:
                    return lambda _, __, arriving, ___: cast(Any, arriving).publisher(None)
                return lambda _, __, arriving, ___: arriving
            decode = _decoder(context, signature, parameter, mime_type)
            make = _published if parameter.published else DecodedChannel
            may_be_empty = _reads_empty(context, parameter, mime_type)
            return lambda request, payload, arriving, _: make(
                cast(Any, arriving),
                partial(decode, request),
                skips_first=not (payload.data or may_be_empty),
            )
        case Source.PAYLOAD:
            return lambda _, payload, __, ___: payload
        case Source.BODY:
            return _body
        case Source.BATCH:
            return lambda _, __, arriving, ___: cast(Any, arriving)[0]
        case Source.EVENTS:
            return lambda _, __, arriving, ___: cast(Any, arriving)[1]
        case Source.COMPOSITE:
            return _reading(context, signature, _read_composite)
        case Source.METADATA:
            return _reading(context, signature, _read_metadata)
        case Source.TRACE:
            absent = None if allows_none(parameter.annotation) else ZipkinTrace()
            return lambda _, payload, __, ___: (
                _read_trace(payload.metadata, metadata_mime_type, limits) or absent
            )
        case Source.CALL:
            return lambda _request, _payload, _arriving, call: call
        case Source.PRINCIPAL:
            return _principal(context, signature, parameter)
        case Source.FACT:
            transport = context.setup.transport
            fact = fact_of(transport, parameter.annotation, signature.name, parameter.name)
            return lambda _request, _payload, _arriving, _call: fact
        case Source.ROUTE:
            return lambda request, _, __, ___: request.route
        case _:
            value = {
                Source.REQUESTER: context.requester,
                Source.SETUP: context.setup,
                Source.TRANSPORT: context.setup.transport,
                Source.STOPPING: context.setup.stopping,
                Source.PEER: context.setup.peer,
            }[parameter.source]
            return lambda _request, _payload, _arriving, _call: value


def _variable(context: Context, signature: Signature, parameter: Parameter) -> Fill:
    """Return a function that fills a parameter from a variable of the route."""
    at = signature.variables.index(parameter.name)
    if parameter.annotation is str:
        return lambda request, _, __, ___: request.values[at]
    read = variable_reader(parameter.annotation, context.codecs)

    def read_or_refuse(request: Request, _: Payload, __: Arriving, ___: Any) -> Any:
        try:
            return read(request.values[at])
        except CodecError as error:
            refused = variable_refused(context, signature, parameter, error)
        try:
            raise refused
        finally:
            del refused  # it has this frame, which has the payload

    return read_or_refuse


def _published(items: PublishedItems, decode: Callable[[bytes], Any], *, skips_first: bool) -> Any:
    return items.publisher(decode, skips_first=skips_first)


def _reads_empty(context: Context, parameter: Parameter, mime_type: str) -> bool:
    """Whether data without a byte are an item of this type, such as an empty text.

    If not, a channel that begins with such data begins without an item: the request frame cannot
    say so in another way, and clients send it for a source that has no items.
    """
    try:
        context.codecs.decoder(parameter.annotation, mime_type)(b"")
    except CodecError:
        return False
    except Exception:  # from a class of the application: it has seen an item
        return True
    return True


def _body(
    _request: Request, payload: Payload, arriving: Arriving, _call: Call | None
) -> PayloadBody:
    return arriving if isinstance(arriving, PayloadBody) else body_of(payload)


def _principal(context: Context, signature: Signature, parameter: Parameter) -> Fill:
    if not context.guarded:  # then the handler must not answer
        raise no_authenticator(signature, parameter)
    if allows_none(parameter.annotation):
        return lambda _request, _payload, _arriving, call: cast("Call", call).principal

    def known(_request: Request, _payload: Payload, _arriving: Arriving, call: Call | None) -> Any:
        principal = cast("Call", call).principal
        check_known(principal)
        return principal

    return known


def _decoder(
    context: Context, signature: Signature, parameter: Parameter, mime_type: str
) -> Callable[[Request, bytes], Any]:
    decode = context.codecs.decoder(parameter.annotation, mime_type)

    def decode_or_refuse(request: Request, data: bytes) -> Any:
        try:
            return decode(data)
        except CodecError as error:
            failure = error
        # Only now: a failure of `explain` would be logged with the one that is being handled, and
        # the texts of its causes may show values.
        try:
            raise data_refused(context, signature, parameter, request.route, mime_type, failure)
        finally:
            del failure  # its traceback keeps this frame, which would keep it and the data

    return decode_or_refuse


def _no_payload(result: Any) -> bytes:
    got = unawaited(result) if isinstance(result, UNAWAITED) else kind_of(result)
    raise CodecError(f"expected a payload, as in the annotation of the result, got {got}")


def _encoder(
    context: Context, signature: Signature, route: Route, mime_type: str
) -> Callable[[Any], bytes]:
    """Return a function that writes the results of a handler.

    Raises:
        Invalid: No result can be written in that MIME type.
    """
    codecs = context.codecs
    annotation = signature.written
    if annotation is None and signature.result is not None:
        return _no_payload
    if signature.is_answered:
        try:
            codecs.check_mime_type(annotation, mime_type)
        except CodecError as error:
            if signature.is_converted:  # nothing has happened yet
                raise answer_refused(context, signature, route, error) from None
            text = str(error)

            def refuse(_: Any) -> bytes:
                raise answer_refused(context, signature, route, CodecError(text))

            return refuse
    return codecs.encoder(annotation, mime_type)


def _reading(
    context: Context,
    signature: Signature,
    read: Callable[[bytes | None, str, Limits], Any],
) -> Fill:
    """Return a function that reads all metadata of a request."""
    mime_type, limits = context.setup.metadata_mime_type, context.limits

    def read_or_refuse(
        request: Request, payload: Payload, _arriving: Arriving, _call: Call | None
    ) -> Any:
        try:
            return read(payload.metadata, mime_type, limits)
        except MetadataError as error:
            which = named(context, signature.interaction, request.route, signature)
            raise unreadable(error, which) from None

    return read_or_refuse


def _read_composite(metadata: bytes | None, mime_type: str, limits: Limits) -> CompositeMetadata:
    return CompositeMetadata(as_composite(metadata, mime_type, limits).entries)


def _read_metadata(metadata: bytes | None, mime_type: str, limits: Limits) -> Metadata:
    return Metadata.decode(metadata, mime_type, limits=limits)


def _read_trace(metadata: bytes | None, mime_type: str, limits: Limits) -> ZipkinTrace | None:
    found = as_composite(metadata, mime_type, limits).find((), (MIME.TRACING_ZIPKIN,))
    return decode_trace(found[MIME.TRACING_ZIPKIN]) if found else None


def decode_trace(content: bytes) -> ZipkinTrace | None:
    """Return the trace of a request; a damaged trace is ignored, and refuses nothing."""
    try:
        return ZipkinTrace.decode(content)
    except MetadataError as error:
        logger.info("trace ignored: %s", error)
        return None
