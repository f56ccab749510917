"""The client's side of a router: `Caller` sends objects to routes and gets objects back."""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    final,
    overload,
)

import trio

from ..arguments import check_source
from ..codecs import DEFAULT_CODECS, CodecError, Codecs
from ..codecs.compiling import Kept
from ..codecs.registry import allows_none, annotation_name
from ..errors import CustomError, MetadataError, outcome_of_ours
from ..field_checks import argument, instance_of
from ..interactions.block import OnlyByBlock
from ..metadata.builder import Metadata
from ..metadata.composite import CompositeMetadata
from ..metadata.data_mime_types import DataMimeType
from ..metadata.mime_types import MIME, mime_type_name, same_mime_type
from ..payload import Payload
from ..protocol.interaction import Interaction
from ..reactive_streams.interfaces import Publisher
from ..sealed import Sealed, make
from .converted_streams import READY, EncodedItems
from .declarations import DeclaredStream, Errors
from .declared_calls import NOTHING, Endpoint, Typed, endpoints_of
from .outgoing import OutgoingMiddleware, surrounded
from .templates import check_prefix

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from ..interactions.demand import PayloadStream, StreamStatistics
    from ..interactions.payload_body import PayloadBody
    from ..requester import Requester

__all__ = ["Caller", "ItemStream"]

P = ParamSpec("P")
T = TypeVar("T")
_NONE: Final[Errors] = {}


class Caller:
    """Sends objects as data and reads answers as objects, as a `Router` at the other end does.

    A value is written by its own type, and an answer is read as the type ``returns``. Both are in
    the connection's data MIME type, unless ``metadata`` or the answer names another. ``bytes`` are
    the data as they are. Without ``returns`` an answer becomes dicts, lists, numbers and text.

    Args:
        requester: Sends the requests. The caller does not close it.
        codecs: The codecs.
        middleware: Blocks around each request of this caller, the outermost first, as for
            `rsocket_trio.connect`; they are around those of the requester.
    """

    def __init__(
        self,
        requester: Requester,
        *,
        codecs: Codecs = DEFAULT_CODECS,
        middleware: Iterable[OutgoingMiddleware] = (),
    ) -> None:
        if not hasattr(requester, "data_mime_type"):
            raise TypeError(
                f"Caller takes a Requester, not {type(requester).__name__}: `async with "
                "connect(...) as requester` gives one"
            )
        argument("codecs", codecs, instance_of(Codecs))
        self._given = requester
        self._requester = surrounded(requester, middleware)
        self._codecs = codecs
        self._limits = requester.limits
        self._mime_type = requester.data_mime_type
        self._usual = Kept(self._usual_decoder)
        self._composite = same_mime_type(requester.metadata_mime_type, MIME.COMPOSITE_METADATA)

    @property
    def requester(self) -> Requester:
        """What sends payloads and metadata pushes, and knows of leases and of the connection.

        What it sends does not pass the middleware of this caller.
        """
        return self._given

    # -- conversion -------------------------------------------------------------------------

    def encode(self, value: object, mime_type: str | None = None) -> Payload:
        """Return a value as a payload, in the MIME type of this connection or in another.

        Raises:
            CodecError: It cannot be written in this MIME type.
            TypeError: It is a `Payload` or a `StreamedPayload`: those go out by `Requester`.
        """
        if mime_type is not None and type(mime_type) is not str:
            argument("mime_type", mime_type, instance_of(str, none=True))
        return self._encoded(value, None, mime_type or self._mime_type)

    def _encoded(self, value: object, annotation: Any, mime_type: str) -> Payload:
        """Return a value as a payload; without an annotation it is written by its own type."""
        if isinstance(value, READY):
            raise TypeError(
                f"a Caller takes an object and makes the {type(value).__name__} of it: to send one "
                "of your own, call the same method of the Requester"
            )
        written = type(value) if annotation is None else annotation
        return Payload(self._codecs.encoder(written, mime_type)(value))

    @overload
    def decode(self, payload: Payload | None, returns: TypeForm[T]) -> T: ...
    @overload
    def decode(self, payload: Payload | None) -> object: ...
    def decode(self, payload: Payload | None, returns: Any = Any) -> Any:
        """Return the value in a payload of this connection.

        Args:
            payload: What `Requester.request_response` returns. ``None``, for a request that was
                completed without a value, is read as ``None``.
            returns: The type of the value.

        Raises:
            CodecError: The data are not of that type; or the payload is ``None``, and the type is
                not ``None``, ``T | None`` or ``Any``.
        """
        if payload is not None and type(payload) is not Payload:
            argument("payload", payload, instance_of(Payload, none=True))
        if payload is None:
            if allows_none(returns):
                return None
            raise CodecError(
                f"expected {annotation_name(returns)}, but the request completed without a value"
            )
        return self._decoder(returns, payload.metadata)(payload.data)

    def _decoder(self, returns: Any, metadata: bytes | None) -> Callable[[bytes], Any]:
        """Return a function that converts the data of a response with these metadata.

        Raises:
            CodecError: The metadata cannot be read.
        """
        mime_type = self._mime_type
        if metadata and self._composite:
            # The types that a responder accepts (0x7B) mean nothing in a response
            # (PerStreamDataMimeTypesDefinition.md, "Introduction").
            try:
                composite = CompositeMetadata.decode(metadata, limits=self._limits)
                content = composite.first(MIME.MIME_TYPE)
                if content is not None:
                    mime_type = mime_type_name(DataMimeType.decode(content).mime_type)
            except MetadataError as error:
                raise CodecError("the metadata of the response cannot be read") from error
        return self._codecs.decoder(returns, mime_type)

    # -- declared handlers ------------------------------------------------------------------

    def of(
        self,
        declaration: Callable[..., T],
        *,
        prefix: str = "",
        metadata: Metadata | None = None,
        prefetch: int | None = None,
    ) -> T:
        """Return an object whose methods send requests: ``chat = caller.of(Chat)``.

        Each method that is marked in the class, e.g. by `rsocket_trio.request_response`, takes the
        arguments that are declared, without what the server fills. ``await`` those of one result;
        those of streams and channels open an `ItemStream`: ``async with chat.messages("lobby") as
        items``. Their errors are those of the method of this class for their interaction. A
        variable of a route that is no segment of one is a `ValueError`.

        Args:
            declaration: The class, or a `typing.Protocol`. No object of it is made.
            prefix: Put before its routes, as by the router that includes them at the other end.
            metadata: Metadata besides the route, for each of its requests.
            prefetch: For its streams and channels, as for `request_stream`.

        Raises:
            TypeError: Nothing is marked, or a marked method cannot be called; the text says why.
            ValueError: The prefix cannot begin a route.
        """
        if not isinstance(declaration, type):
            raise TypeError(f"of takes a class; call the function {declaration!r} by Caller.call")
        check_prefix(prefix)

        def send(endpoint: Endpoint, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
            return self._send(endpoint, args, options, metadata, prefetch)

        endpoints = endpoints_of(declaration, prefix, self._codecs)
        return cast(T, Typed(declaration, endpoints, send))

    @overload
    def call(
        self, declared: DeclaredStream[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> AbstractAsyncContextManager[ItemStream[T]]: ...
    @overload
    def call(
        self,
        declared: Callable[P, Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]: ...
    def call(self, declared: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Send a request to a marked function: ``await caller.call(greet, "trio")``.

        Args:
            declared: The function; it is not called here. Methods of classes are called by `of`.
            args: Its arguments, without what the server fills.
            kwargs: Arguments by name.

        Returns:
            What a method of the object that `of` returns would.

        Raises:
            TypeError: It is not marked, or cannot be called, or not with these arguments.
            ValueError: A variable of the route is no segment of one.
            CodecError: An argument cannot be written.
        """
        if isinstance(declared, type):
            raise TypeError(f"call takes a function; call {declared.__qualname__} by Caller.of")
        (endpoint,) = endpoints_of(declared, "", self._codecs).values()
        return self._send(endpoint, args, kwargs)

    def _send(
        self,
        endpoint: Endpoint,
        args: tuple[Any, ...],
        options: dict[str, Any],
        metadata: Metadata | None = None,
        prefetch: int | None = None,
    ) -> Any:
        route, value = endpoint.filled(args, options)
        returns, annotation, errors = endpoint.result, endpoint.annotation, endpoint.errors
        match endpoint.interaction:
            case Interaction.REQUEST_RESPONSE:
                payload = self._request(route, value, metadata, annotation)
                return self._response(
                    payload, route, metadata, returns, errors, idempotent=endpoint.idempotent
                )
            case Interaction.FIRE_AND_FORGET:
                payload = self._request(route, value, metadata, annotation)
                return self._requester.fire_and_forget(payload, route=route, metadata=metadata)
            case Interaction.REQUEST_STREAM:
                payload = self._request(route, value, metadata, annotation)
                return self._stream(
                    payload,
                    route,
                    metadata,
                    returns,
                    prefetch,
                    None,
                    errors,
                    idempotent=endpoint.idempotent,
                )
            case _:
                return self._channel(
                    value, annotation, route, metadata, returns, prefetch, None, errors
                )

    # -- requests ---------------------------------------------------------------------------

    @overload
    async def request_response(
        self,
        route: str,
        value: object = ...,
        *,
        returns: TypeForm[T],
        metadata: Metadata | None = None,
        idempotent: bool = False,
    ) -> T: ...
    @overload
    async def request_response(
        self,
        route: str,
        value: object = ...,
        *,
        metadata: Metadata | None = None,
        idempotent: bool = False,
    ) -> object: ...
    async def request_response(
        self,
        route: str,
        value: object = NOTHING,
        *,
        returns: Any = Any,
        metadata: Metadata | None = None,
        idempotent: bool = False,
    ) -> Any:
        """Send a value to a route and wait for the answer.

        Args:
            route: The route.
            value: The data; empty without it.
            returns: The type of the answer, as for a parameter of a handler. With ``T | None`` an
                answer without a value is ``None``; with a type without ``None`` it is an error.
            metadata: Metadata besides the route.
            idempotent: As for `Requester.request_response`: it may be handled twice.

        Raises:
            CodecError: The value cannot be written, or the answer is not what ``returns`` says.
            TypeError: The value is a `Payload`, or nothing can be converted to ``returns``.
            StreamError: And all other errors of `Requester.request_response`.

        Checkpoint: always.
        If cancelled: as `Requester.request_response`.
        """
        decode = self._usual.of(returns)
        payload = self._request(route, value, metadata)
        # As `_response`, without its coroutine, through which each resumption would go.
        response = await self._requester.request_response(
            payload, route=route, metadata=metadata, idempotent=idempotent
        )
        if response is None or response.metadata:
            return self.decode(response, returns)
        return decode(response.data)

    async def _response(
        self,
        payload: Payload,
        route: str,
        metadata: Metadata | None,
        returns: Any,
        errors: Errors,
        *,
        idempotent: bool,
    ) -> Any:
        try:
            response = await self._requester.request_response(
                payload, route=route, metadata=metadata, idempotent=idempotent
            )
        except CustomError as error:
            _raise_declared(error, errors)
            raise
        return self.decode(response, returns)

    def request_response_streamed(
        self, route: str, value: object = NOTHING, *, metadata: Metadata | None = None
    ) -> AbstractAsyncContextManager[PayloadBody | None]:
        """Send a value to a route and read the answer, of any size, while it arrives.

        The answer is bytes, and is not converted:
        ``async with caller.request_response_streamed("export") as body: async for chunk in body``

        Args:
            route: The route.
            value: The data; empty without it.
            metadata: Metadata besides the route.

        Returns:
            As `Requester.request_response_streamed`.

        Raises:
            CodecError: The value cannot be written.
            Exception: All other errors of `Requester.request_response_streamed`.

        Checkpoint: as `Requester.request_response_streamed`.
        If cancelled: as `Requester.request_response_streamed`.
        """
        payload = self._request(route, value, metadata)
        return self._requester.request_response_streamed(payload, route=route, metadata=metadata)

    async def fire_and_forget(
        self, route: str, value: object = NOTHING, *, metadata: Metadata | None = None
    ) -> None:
        """Send a value to a route; see `Requester.fire_and_forget`.

        Raises:
            CodecError: The value cannot be written.

        Checkpoint: as `Requester.fire_and_forget`.
        If cancelled: as `Requester.fire_and_forget`.
        """
        payload = self._request(route, value, metadata)
        await self._requester.fire_and_forget(payload, route=route, metadata=metadata)

    @overload
    def request_stream(
        self,
        route: str,
        value: object = ...,
        *,
        returns: TypeForm[T],
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
        idempotent: bool = False,
    ) -> AbstractAsyncContextManager[ItemStream[T]]: ...
    @overload
    def request_stream(
        self,
        route: str,
        value: object = ...,
        *,
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
        idempotent: bool = False,
    ) -> AbstractAsyncContextManager[ItemStream[object]]: ...
    def request_stream(
        self,
        route: str,
        value: object = NOTHING,
        *,
        returns: Any = Any,
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
        idempotent: bool = False,
    ) -> AbstractAsyncContextManager[ItemStream[Any]]:
        """Open a stream of objects: ``async with caller.request_stream(...) as items``.

        Args:
            route: The route.
            value: The data; empty without it.
            returns: The type of an item.
            metadata: Metadata besides the route.
            prefetch: As for `Requester.request_stream`.
            initial_request_n: As there.
            idempotent: As there.

        Returns:
            A context manager for the `ItemStream`. Leaving it before the end of the stream cancels
            the stream at the peer.

        Raises:
            CodecError: The value cannot be written.
            TypeError: As `request_response`.
            Exception: All other errors of `Requester.request_stream`.

        Checkpoint: as `Requester.request_stream`.
        If cancelled: as `Requester.request_stream`.
        """
        self._usual.of(returns)
        payload = self._request(route, value, metadata)
        return self._stream(
            payload,
            route,
            metadata,
            returns,
            prefetch,
            initial_request_n,
            idempotent=idempotent,
        )

    def _stream(
        self,
        payload: Payload,
        route: str,
        metadata: Metadata | None,
        returns: Any,
        prefetch: int | None,
        initial_request_n: int | None,
        errors: Errors = _NONE,
        *,
        idempotent: bool,
    ) -> AbstractAsyncContextManager[ItemStream[Any]]:
        opened = self._requester.request_stream(
            payload,
            route=route,
            metadata=metadata,
            prefetch=prefetch,
            initial_request_n=initial_request_n,
            idempotent=idempotent,
        )
        return OnlyByBlock(self._items(opened, returns, errors), "request_stream")

    @overload
    def request_channel(
        self,
        route: str,
        values: AsyncIterable[object] | Iterable[object] | Publisher[object],
        *,
        returns: TypeForm[T],
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
    ) -> AbstractAsyncContextManager[ItemStream[T]]: ...
    @overload
    def request_channel(
        self,
        route: str,
        values: AsyncIterable[object] | Iterable[object] | Publisher[object],
        *,
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
    ) -> AbstractAsyncContextManager[ItemStream[object]]: ...
    def request_channel(
        self,
        route: str,
        values: AsyncIterable[object] | Iterable[object] | Publisher[object],
        *,
        returns: Any = Any,
        metadata: Metadata | None = None,
        prefetch: int | None = None,
        initial_request_n: int | None = None,
    ) -> AbstractAsyncContextManager[ItemStream[Any]]:
        """Exchange streams of objects: ``async with caller.request_channel(...) as items``.

        Args:
            route: The route.
            values: The items to send, as credit allows; see `Requester.request_channel`.
            returns: The type of an item that is received.
            metadata: Metadata besides the route.
            prefetch: As for `Requester.request_stream`.
            initial_request_n: As there.

        Returns:
            A context manager for the `ItemStream` of received items. Leaving it while either half
            is open cancels the channel at the peer, and stops ``values``.

        Raises:
            CodecError: A value cannot be written. The block raises it when it ends; the peer has
                got an ERROR.
            Exception: All other errors of `Requester.request_channel`.

        Checkpoint: as `Requester.request_channel`.
        If cancelled: as `Requester.request_channel`.
        """
        self._usual.of(returns)
        check_source("values", values, "objects")
        return self._channel(values, None, route, metadata, returns, prefetch, initial_request_n)

    def _channel(
        self,
        values: Any,
        annotation: Any,
        route: str,
        metadata: Metadata | None,
        returns: Any,
        prefetch: int | None,
        initial_request_n: int | None,
        errors: Errors = _NONE,
    ) -> AbstractAsyncContextManager[ItemStream[Any]]:
        """Open a channel for items of one type; ``None``: each is written by its own."""
        mime_type = self._type_of(route, metadata)

        def encode(value: object) -> bytes:
            return self._encoded(value, annotation, mime_type).data

        source: AsyncIterable[Any] | Iterable[Any]
        if isinstance(values, AsyncIterable | Publisher):
            source = EncodedItems(values, encode, ready=())
        else:
            source = (Payload(encode(value)) for value in values)
        opened = self._requester.request_channel(
            source,
            route=route,
            metadata=metadata,
            prefetch=prefetch,
            initial_request_n=initial_request_n,
        )
        return OnlyByBlock(self._items(opened, returns, errors), "request_channel")

    @asynccontextmanager
    async def _items(
        self, opened: AbstractAsyncContextManager[PayloadStream], returns: Any, errors: Errors
    ) -> AsyncIterator[ItemStream[Any]]:
        def decoder(metadata: bytes | None) -> Callable[[bytes], Any]:
            return self._decoder(returns, metadata)

        async with opened as payloads:
            yield make(ItemStream, payloads, decoder, errors)

    def _request(
        self, route: object, value: object, metadata: Metadata | None, annotation: Any = None
    ) -> Payload:
        usual = metadata is None and isinstance(route, str)
        mime_type = self._mime_type if usual else self._type_of(route, metadata)
        return Payload() if value is NOTHING else self._encoded(value, annotation, mime_type)

    def _type_of(self, route: object, metadata: Metadata | None) -> str:
        if not isinstance(route, str):
            raise TypeError(
                f"the first argument is the route, a str, and not {type(route).__name__}: "
                "for requests without a route, call the Requester"
            )
        if metadata is None:
            return self._mime_type
        if not isinstance(metadata, Metadata):
            raise TypeError(f"metadata= takes a Metadata, not {type(metadata).__name__}")
        named = metadata.data_mime_type
        return self._mime_type if named is None else mime_type_name(named)

    def _usual_decoder(self, returns: Any) -> Callable[[bytes], Any]:
        """Return the decoder for answers in the connection's MIME type.

        Each request asks for it before anything is sent.

        Raises:
            TypeError: No answer can be converted to this type.
        """
        name = annotation_name(returns)
        if returns in READY:
            raise TypeError(f"returns={name}: call the same method of the Requester")
        if returns is not Any:
            try:
                self._codecs.check_decode(returns)
            except TypeError as error:
                if isinstance(returns, Hashable):
                    raise
                raise TypeError(f"returns={name} is not a type: {error}") from None
        return self._codecs.decoder(returns, self._mime_type)


@final
class ItemStream(
    trio.abc.ReceiveChannel[T],
    Generic[T],
    metaclass=Sealed,
    given="Caller.request_stream and request_channel give one",
):
    """The objects of a stream, in order. The first item may name their MIME type.

    Made by `Caller.request_stream` and `Caller.request_channel`; one task reads it at a time.
    Leaving the block that made it closes it.
    """

    def __init__(
        self,
        payloads: PayloadStream,
        decoder: Callable[[bytes | None], Callable[[bytes], T]],
        errors: Errors,
    ) -> None:
        self._payloads = payloads
        self._errors = errors
        self._decoder = decoder
        self._decode: Callable[[bytes], T] | None = None

    async def receive(self) -> T:
        """Receive the next item.

        Raises:
            CodecError: The item is not of type ``returns``. The next item may be received.
            trio.EndOfChannel: And all other errors of `PayloadStream.receive`.

        Checkpoint: always.
        If cancelled: no item is lost.
        """
        try:
            return self._read(await self._payloads.receive())
        except CustomError as error:
            _raise_declared(error, self._errors)
            raise

    async def __anext__(self) -> T:
        try:
            return self._read(await anext(self._payloads))
        except CustomError as error:
            _raise_declared(error, self._errors)
            raise

    def request_n(self, n: int) -> None:
        """Grant ``n`` more items, of a stream with ``prefetch=0``: `PayloadStream.request_n`.

        Raises:
            LocalProtocolError: As for that method.
            trio.ClosedResourceError: The stream was closed here.
        """
        self._payloads.request_n(n)

    async def aclose(self) -> None:
        """Stop receiving; before the end this cancels the stream at the peer.

        Checkpoint: always.
        If cancelled: it is closed nevertheless.
        """
        await self._payloads.aclose()

    def statistics(self) -> StreamStatistics:
        """Return numbers about the stream, for people and tests."""
        return self._payloads.statistics()

    def _read(self, payload: Payload) -> T:
        if self._decode is None:
            self._decode = self._decoder(payload.metadata)
        return self._decode(payload.data)


def _raise_declared(error: CustomError, errors: Errors) -> None:
    """Raise an error of the peer as the class that the declaration has for its code, if it has one.

    Raises:
        CustomError: It has one.
    """
    kind = errors.get(error.code)
    if kind is not None and error.of_our_request:
        declared = kind(error.data, code=error.code, stream_id=error.stream_id)
        raise outcome_of_ours(declared) from None
