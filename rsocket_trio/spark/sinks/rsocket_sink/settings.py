"""The options of the RSocket sink: `RSocketSinkSettings`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

import attrs

from .... import Authentication, Metadata, parse_uri
from ....uri import shown
from ...auth_options import read_authentication
from ...options import Options
from ...tls_options import TlsSettings
from ..messages import COMMIT, FORMATS, MAX_ID, MAX_NUMBER

__all__ = ["INTERACTIONS", "MAX_ROUTE", "RSocketSinkSettings"]

INTERACTIONS: Final = ("request_channel", "fire_and_forget")

MAX_ROUTE: Final = 255
"""Bytes of a route on the wire; see `rsocket_trio.metadata`."""


@attrs.frozen(kw_only=True)
class RSocketSinkSettings:
    """Where and how rows are sent. Spark pickles it for the executors. Times are in seconds.

    Attributes:
        uri: The address of the responder.
        route: The route of the sink; that of rows without one, if there is a column of routes.
        route_column: The column with the route of each row.
        interaction: One of `INTERACTIONS`.
        format: One of `rsocket_trio.spark.sinks.messages.FORMATS`.
        batch_size: Bytes of a payload of Arrow.
        txn_id: The identity of the query, in place of Spark's.
        txn_version: The number of the batch, for batch writes with a ``txn_id``.
        timeout: The longest time without any progress of the responder.
        connect_timeout: The longest time for one attempt to connect.
        commit_timeout: The longest time for a commit, with all attempts.
        linger: fire_and_forget: how long a connection stays open after its last row, because its
            end cancels the handlers that have not ended.
        authentication: The credentials, sent with the SETUP.
        tls: The settings of TLS.
    """

    uri: str = attrs.field(repr=shown)
    route: str
    route_column: str | None
    interaction: str
    format: str
    batch_size: int
    txn_id: str | None
    txn_version: int | None
    timeout: float
    connect_timeout: float
    commit_timeout: float
    linger: float
    authentication: Authentication | None = attrs.field(repr=False)
    tls: TlsSettings

    @classmethod
    def read(cls, given: Mapping[str, str], *, overwrite: bool) -> RSocketSinkSettings:
        """Read and check the options of a write.

        Raises:
            ValueError: An option is wrong, missing or unknown; or the mode is "overwrite".
        """
        if overwrite:
            raise ValueError(
                'format("rsocket") adds rows and cannot overwrite: use mode("append"), or the '
                'output mode "append"'
            )
        options = Options(given)
        column = options.text("routeColumn", None)
        found = cls(
            uri=options.text("uri"),
            route=options.text("route") if column is None else options.text("route", ""),
            route_column=column,
            interaction=options.choice("interaction", INTERACTIONS, INTERACTIONS[0]),
            format=options.choice("payloadFormat", FORMATS, FORMATS[0]),
            batch_size=options.size("batchBytes", 2**20, 1024, 2**29),
            txn_id=options.text("txnId", None),
            txn_version=options.integer("txnVersion", None, 0, MAX_NUMBER),
            timeout=options.milliseconds("timeoutMs", 60_000),
            connect_timeout=options.milliseconds("connectTimeoutMs", 10_000),
            commit_timeout=options.milliseconds("commitTimeoutMs", 300_000),
            linger=options.milliseconds("lingerMs", 200, 0, 60_000),
            authentication=read_authentication(options),
            tls=options.tls(),
        )
        options.finish()
        found._check()
        return found

    def _check(self) -> None:
        try:
            address = parse_uri(self.uri)
        except ValueError as error:
            raise ValueError(f"the option uri: {error}") from error
        if self.tls.given and not address.is_encrypted:
            raise ValueError("the options of TLS need a uri with tls:// or wss://")
        longest = MAX_ROUTE - len(COMMIT)
        if len(self.route.encode()) > longest:
            raise ValueError(
                f"the option route must have at most {longest} bytes: {COMMIT} is added to it"
            )
        if self.route_column is not None and (
            self.interaction != "fire_and_forget" or self.format == "arrow"
        ):
            raise ValueError(
                "the option routeColumn needs the interaction fire_and_forget, and payloads of cbor"
                " or json: a commit belongs to one route, and a payload of Arrow has many rows."
                " Write once for each route, e.g. with where(...) in foreachBatch"
            )
        if self.txn_id is not None and not 0 < len(self.txn_id) <= MAX_ID:
            raise ValueError(f"the option txnId must have between 1 and {MAX_ID} characters")

    @property
    def setup_metadata(self) -> Metadata | None:
        """The metadata of the SETUP."""
        return None if self.authentication is None else Metadata(auth=self.authentication)

    def batch_identity(self) -> tuple[str, int]:
        """Return the query and the number of a batch write, for which Spark has none.

        Raises:
            ValueError: Only one of them is given.
        """
        if self.txn_id is None and self.txn_version is None:
            return str(uuid.uuid4()), 0
        if self.txn_id is None or self.txn_version is None:
            raise ValueError(
                "a batch write needs both of the options txnId and txnVersion, or neither: a "
                "second write with the same two does nothing"
            )
        return self.txn_id, self.txn_version
