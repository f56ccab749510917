"""What a Spark job and the responder of its sink say to each other, without I/O.

A task of the job opens a channel on the route of the sink. The payloads are:

- task: an `Opening`
- responder: a `Welcome`. With ``committed`` the channel ends here, because the batch is done.
- task: the rows, as the responder grants credit; then the end of its half
- responder: a `Staged` with the number of rows; then the end of its half

When all tasks have ended, the driver sends a `CommitRequest` to the route with ``.commit`` behind
it, and gets a `CommitReply`. A job that has failed sends an `AbortRequest` to the route with
``.abort`` behind it, and gets an empty reply.

All these messages are maps in CBOR.
"""

from __future__ import annotations

from typing import Final, TypeVar

import attrs

from ... import CustomError, Invalid
from ...codecs import CborCodec

__all__ = [
    "ABORT",
    "COMMIT",
    "FORMATS",
    "MAX_ID",
    "MAX_MESSAGE",
    "MAX_NUMBER",
    "STALE_BATCH",
    "UNKNOWN_ATTEMPT",
    "VERSION",
    "AbortRequest",
    "CommitReply",
    "CommitRequest",
    "Opening",
    "Staged",
    "Welcome",
    "decode",
    "encode",
    "foreign_batch",
    "stale_batch",
    "unknown_attempts",
]

T = TypeVar("T")

VERSION: Final = 1
"""The version of this protocol, the key ``v`` of each request."""

COMMIT: Final = ".commit"
ABORT: Final = ".abort"
"""Behind the route of the sink: the routes of the driver."""

FORMATS: Final = ("cbor", "json", "arrow")
"""How rows are sent. cbor, json: a payload is a row, a map. arrow: a payload is a stream of Arrow
IPC with any number of rows."""

UNKNOWN_ATTEMPT: Final = 0x401
"""The error code for a commit of attempts that the responder does not have."""

STALE_BATCH: Final = 0x402
"""The error code for a batch that is older than the last one that was committed; or that another
query of Spark has committed."""

MAX_MESSAGE: Final = 4 * 2**20
"""Bytes of a message. A commit has 40 bytes for each partition, and the schema of a wide table has
some hundred KiB."""

MAX_ID: Final = 256
"""Characters of an identity. Spark's have 36."""

MAX_NUMBER: Final = 2**63 - 1
"""The largest number of a batch, of a partition, or of rows: Spark's have 64 bits."""


@attrs.frozen(kw_only=True)
class Opening:
    """A task begins an attempt to write a partition.

    Attributes:
        query: The identity of the query; the same after a restart from its checkpoint.
        batch: The number of the batch. It grows within a query.
        partition: The number of the partition.
        attempt: The identity of this attempt; no other attempt ever has it.
        writer: The identity of the job. All attempts of one try to write the batch have it.
        format: One of `FORMATS`.
        schema: The schema of the rows, in Spark's JSON form.
        source: The id of the streaming query in Spark; empty for a batch write. It differs from
            ``query`` if the user has named the query.
        v: `VERSION`.
    """

    query: str
    batch: int
    partition: int
    attempt: str
    writer: str
    format: str
    schema: str
    source: str = ""
    v: int = VERSION


@attrs.frozen(kw_only=True)
class Welcome:
    """The responder waits for the rows of the attempt; or it needs none.

    Attributes:
        attempt: As in the `Opening`.
        committed: The batch is committed already. The task sends no rows.
    """

    attempt: str
    committed: bool = False


@attrs.frozen(kw_only=True)
class Staged:
    """The responder has all rows of an attempt, and keeps them until commit or abort.

    Attributes:
        attempt: As in the `Opening`.
        rows: The number of rows that have arrived.
    """

    attempt: str
    rows: int


@attrs.frozen(kw_only=True)
class CommitRequest:
    """The driver commits a batch.

    Attributes:
        query: As in `Opening`.
        batch: As in `Opening`.
        writer: As in `Opening`.
        winners: The attempts whose rows are the batch, one for each partition.
        rows: The number of their rows.
        source: As in `Opening`.
        v: `VERSION`.
    """

    query: str
    batch: int
    writer: str
    winners: list[str]
    rows: int
    source: str = ""
    v: int = VERSION


@attrs.frozen(kw_only=True)
class CommitReply:
    """The batch is committed.

    Attributes:
        query: As in `Opening`.
        batch: As in `Opening`.
        rows: The number of rows that are committed.
        repeated: An earlier commit has committed the batch, and this one did nothing.
    """

    query: str
    batch: int
    rows: int
    repeated: bool


@attrs.frozen(kw_only=True)
class AbortRequest:
    """The driver gives up a try to write a batch. The responder drops its attempts.

    Attributes:
        query: As in `Opening`.
        batch: As in `Opening`.
        writer: As in `Opening`. Attempts of other writers are not dropped.
        v: `VERSION`.
    """

    query: str
    batch: int
    writer: str
    v: int = VERSION


@attrs.frozen
class _Versioned:
    v: int


_CBOR: Final = CborCodec()
_REQUESTS: Final = (Opening, CommitRequest, AbortRequest)


def encode(message: object) -> bytes:
    """Return the bytes of a message."""
    return _CBOR.encode(message, type(message))


def decode(data: bytes, cls: type[T]) -> T:
    """Read a message and check it. Keys that the class does not have are ignored.

    Raises:
        Invalid: It is no such message; or one of another version of the protocol.
    """
    what = cls.__name__
    if len(data) > MAX_MESSAGE:
        raise Invalid(f"a message of the sink has {len(data)} bytes, above {MAX_MESSAGE}")
    if cls in _REQUESTS:
        version = _read(data, _Versioned, what).v
        if version != VERSION:
            raise Invalid(
                f"version {version} of the sink protocol is not known, only {VERSION}: use the "
                "same version of rsocket_trio in Spark and in the responder"
            )
    message = _read(data, cls, what)
    _check(message, what)
    return message


def _read(data: bytes, cls: type[T], what: str) -> T:
    try:
        message = _CBOR.decode(data, cls)
    except Exception as error:  # cbor2 and the codec raise many types, which mean the same here
        raise Invalid(f"not the {what} of a sink (a map in CBOR)") from error
    assert isinstance(message, cls)  # the codec promises it
    return message


def _check(message: object, what: str) -> None:
    """Check the lengths and ranges of the fields.

    Raises:
        Invalid: One is wrong.
    """
    for field in attrs.fields(type(message)):  # type: ignore[arg-type]  # it is a class above
        name, value = field.name, getattr(message, field.name)
        if isinstance(value, bool):
            continue
        if isinstance(value, int) and not 0 <= value <= MAX_NUMBER:
            raise Invalid(f"{name} of the {what} is out of range")
        if name in {"query", "attempt", "writer"} and not 0 < len(value) <= MAX_ID:
            raise Invalid(f"{name} of the {what} has not between 1 and {MAX_ID} characters")
        if name == "source" and len(value) > MAX_ID:
            raise Invalid(f"{name} of the {what} has more than {MAX_ID} characters")
        if name == "winners" and not all(0 < len(each) <= MAX_ID for each in value):
            raise Invalid(f"a winner of the {what} has not between 1 and {MAX_ID} characters")
        if name == "format" and value not in FORMATS:
            raise Invalid(f"the format of the rows is not known: it is one of {', '.join(FORMATS)}")


def unknown_attempts(query: str, batch: int, missing: int, total: int) -> CustomError:
    """Return the error for a commit whose rows the responder does not have."""
    return CustomError(
        f"{missing} of the {total} attempts of batch {batch} of query {query} are not staged here: "
        "the responder has lost its staging directory, has dropped them because they were too old, "
        "or is not the one that the tasks wrote to. Nothing of the batch is committed. Start the "
        "query again from its checkpoint, and the batch is written again",
        code=UNKNOWN_ATTEMPT,
    )


def stale_batch(query: str, batch: int, last: int) -> CustomError:
    """Return the error for a batch below the last one that was committed."""
    return CustomError(
        f"batch {batch} of query {query} is older than batch {last}, which is committed: the "
        "checkpoint has gone back, another query uses the same txnId, or an old driver still "
        "runs. Nothing is written. If the rows of this checkpoint are new, give it a new txnId",
        code=STALE_BATCH,
    )


def foreign_batch(query: str, batch: int) -> CustomError:
    """Return the error for a batch that another query of Spark has committed."""
    return CustomError(
        f"batch {batch} of query {query} was committed by another query of Spark, with the same "
        "txnId or with another checkpoint. Nothing is written, as the rows would be lost. Give "
        "each query and each checkpoint a txnId of its own",
        code=STALE_BATCH,
    )
