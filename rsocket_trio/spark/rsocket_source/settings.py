"""The options of ``format("rsocket")`` about requests and elements: `SourceSettings`."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Final

import attrs
import cbor2

from ... import Authentication, Metadata, Payload, parse_uri
from ...codecs import DEFAULT_CODECS
from ...collector import Subscription
from ...metadata import MIME
from ...metadata.mime_types import same_mime_type
from ...uri import shown_all
from ..auth_options import read_authentication
from ..options import Options
from ..rows.settings import FORMATS, RowSettings, read_row_settings
from ..tls_options import TlsSettings

__all__ = [
    "Request",
    "SourceSettings",
    "encode_data",
    "read_data",
    "read_settings",
    "read_subscription",
]

INTERACTIONS: Final = ("request_stream", "request_response")
PLACE: Final = "{partition}"
OF: Final = "{partitions}"


@attrs.frozen
class Request:
    """A request to a responder."""

    payload: Payload
    route: str | None
    metadata: Metadata | None
    partition: int

    def __str__(self) -> str:
        named = "the fallback without a route" if self.route is None else f"the route {self.route}"
        return f"{named}, partition {self.partition}"


@attrs.frozen(kw_only=True)
class SourceSettings:
    """What the options say about connections, requests and elements. It can be pickled.

    Attributes:
        uris: The addresses of responders that all have the same elements.
        tls: See `TlsSettings`.
        auth: The credentials that the SETUP of a connection has, or None.
        route: The route, or None.
        interaction: ``request_stream`` or ``request_response``.
        data: The data of the request: text, bytes or None.
        data_mime_type: The MIME type of the data of the connection.
        metadata_mime_type: The MIME type of its metadata.
        partitions: The number of partitions of a batch read.
        limit: The largest number of elements of a partition, or None.
        window: The largest number of elements on the way or unread.
        window_size: About the same in bytes.
        timeout: How long to wait for a connection, and for the next element, in seconds.
        rows: How elements become rows.
    """

    uris: tuple[str, ...] = attrs.field(repr=shown_all)
    tls: TlsSettings
    auth: Authentication | None
    route: str | None
    interaction: str
    data: str | bytes | None
    data_mime_type: str
    metadata_mime_type: str
    partitions: int
    limit: int | None
    window: int
    window_size: int
    timeout: float
    rows: RowSettings

    def request(self, partition: int) -> Request:
        """Return the request for a partition of a batch read."""
        route, data = self.route, self.data
        if self.partitions > 1 and data is None and PLACE not in (route or ""):
            share = {"partition": partition, "partitions": self.partitions}
            if DEFAULT_CODECS.registered(self.data_mime_type) == MIME.JSON:
                return self._request(json.dumps(share).encode(), route, partition)
            return self.cbor_request(share, route, partition)
        if route is not None:
            route = self._filled(route, partition)
        if isinstance(data, str):
            data = encode_data(self._filled(data, partition), self.data_mime_type)
        return self._request(data or b"", route, partition)

    def cbor_request(self, value: object, route: str | None, partition: int) -> Request:
        """Return a request with data in CBOR; elements are of the MIME type of the connection."""
        metadata = None
        is_composite = same_mime_type(self.metadata_mime_type, MIME.COMPOSITE_METADATA)
        if DEFAULT_CODECS.registered(self.data_mime_type) != MIME.CBOR and is_composite:
            metadata = Metadata(data_mime_type=MIME.CBOR, accept=(self.data_mime_type,))
        return Request(Payload(cbor2.dumps(value)), route, metadata, partition)

    @staticmethod
    def _request(data: bytes, route: str | None, partition: int) -> Request:
        return Request(Payload(data), route, None, partition)

    def _filled(self, text: str, partition: int) -> str:
        return text.replace(PLACE, str(partition)).replace(OF, str(self.partitions))


def encode_data(text: str, mime_type: str) -> bytes:
    """Return the data that a text stands for: for CBOR, it is JSON."""
    if DEFAULT_CODECS.registered(mime_type) != MIME.CBOR:
        return text.encode()
    try:
        return cbor2.dumps(json.loads(text))
    except (ValueError, RecursionError) as error:
        # Its text may be secret.
        raise ValueError(
            f"the option data must be JSON, as it is sent in CBOR (dataMimeType={mime_type}): "
            f"{error}"
        ) from None


def read_settings(options: Options) -> SourceSettings:
    """Read the options about requests and elements.

    Raises:
        ValueError: An option is wrong, or they do not go together.
    """
    rows = read_row_settings(options)
    settings = SourceSettings(
        uris=_uris(options),
        tls=options.tls(),
        auth=read_authentication(options),
        route=options.text("route", None),
        interaction=options.choice("interaction", INTERACTIONS, "request_stream"),
        data=read_data(options),
        data_mime_type=options.text("dataMimeType", FORMATS[rows.payload_format]),
        metadata_mime_type=options.text("metadataMimeType", MIME.COMPOSITE_METADATA),
        partitions=options.integer("numPartitions", 1, 1, 100_000),
        limit=options.integer("limit", None, 1),
        # 65536 is the default of `Limits.max_prefetch`.
        window=options.integer("initialRequestN", 4096, 1, 65536),
        window_size=options.size("maxUnreadBytes", 32 * 2**20, 1, 2**31 - 1),
        timeout=options.milliseconds("timeoutMs", 60_000),
        rows=rows,
    )
    places = f"{settings.route or ''} {settings.data if isinstance(settings.data, str) else ''}"
    if settings.partitions > 1 and settings.data is not None and PLACE not in places:
        raise ValueError(
            f"with numPartitions={settings.partitions}, each partition would read the same "
            f"elements: write {PLACE} in the option route or data, or leave data out: then each "
            'request has the map {"partition": i, "partitions": n} as its data'
        )
    settings.request(0)  # Checks the data.
    return settings


def read_subscription(options: Options, rows: RowSettings) -> Callable[[], Subscription | None]:
    """Read the options of a stream that a collector subscribes to.

    Returns:
        A function that returns the subscription, or ``None`` if ``uri`` or ``route`` is missing.
    """
    data_mime_type = options.text("dataMimeType", FORMATS[rows.payload_format])
    data, uri, route = read_data(options), options.text("uri", None), options.text("route", None)

    def subscription() -> Subscription | None:
        if uri is None or route is None:
            return None
        sent = encode_data(data, data_mime_type) if isinstance(data, str) else data or b""
        return Subscription(parse_uri(uri), route, sent, data_mime_type)

    return subscription


def _uris(options: Options) -> tuple[str, ...]:
    one, more = options.text("uri", None), options.list("uris")
    if (one is None) == (not more):
        raise ValueError(
            "give one of the options uri (an address, e.g. tcp://127.0.0.1:7878) and uris (several "
            "responders with the same elements)"
        )
    uris = more if one is None else (one.strip(),)
    for uri in uris:
        try:
            parse_uri(uri)
        except ValueError as error:
            raise ValueError(f"the option {'uri' if one else 'uris'}: {error}") from None
    return uris


def read_data(options: Options) -> str | bytes | None:
    """Return the data of the request: text, bytes or None.

    Raises:
        ValueError: An option is wrong, or they do not go together.
    """
    text, coded = options.text("data", None), options.text("dataBase64", None)
    if coded is None:
        return text
    if text is not None:
        raise ValueError("give one of the options data and dataBase64")
    try:
        return base64.b64decode(coded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the option dataBase64 is no base64: {error}") from None
