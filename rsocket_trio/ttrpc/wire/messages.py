"""The values in an envelope: `Request` and `Response`, the messages around those of an application.

Their fields are those of request.proto of ttrpc, and of google/rpc/status.proto.
"""

from __future__ import annotations

import attrs

from ...escapes import names_only
from ...field_checks import instance_of

__all__ = ["AnyMessage", "Metadata", "Request", "Response", "Status"]

Metadata = tuple[tuple[str, str], ...]
"""Pairs of key and value, in order. A key may come several times: then it has several values."""


@attrs.define(unsafe_hash=True)
class Request:
    """A call. A value: do not change one.

    Attributes:
        service: Full name of the service, e.g. ``containerd.task.v2.Task``.
        method: Name of the method alone.
        payload: The message of the application.
        timeout_nano: How long the caller waits, in nanoseconds. 0: there is no limit. A negative
            time is over already.
        metadata: Pairs of key and value, as they were sent.
    """

    service: str
    method: str
    payload: bytes = b""
    timeout_nano: int = 0
    metadata: Metadata = attrs.field(default=(), repr=names_only)


@attrs.define(unsafe_hash=True)
class AnyMessage:
    """A message of any type: google.protobuf.Any. A value: do not change one.

    Attributes:
        type_url: Names the type, e.g. ``type.googleapis.com/google.rpc.RetryInfo``.
        value: The bytes of the message.
    """

    type_url: str = attrs.field(validator=instance_of(str))
    value: bytes = attrs.field(validator=instance_of(bytes))


@attrs.define(unsafe_hash=True)
class Status:
    """How a call ended: google.rpc.Status. A value: do not change one.

    Attributes:
        code: A code of gRPC, 0 for success. A peer may send any number of the type int32.
        message: Text for people.
        details: Messages for programs.
    """

    code: int
    message: str = ""
    details: tuple[AnyMessage, ...] = ()


@attrs.define(unsafe_hash=True)
class Response:
    """The end of a call. A value: do not change one.

    Attributes:
        status: ``None``, or one with the code 0: success. Go omits it then, Rust does not.
        payload: The message of the application; of no meaning without success.
    """

    status: Status | None = None
    payload: bytes = b""
