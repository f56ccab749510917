"""The methods of services: `Method`, `MethodKind`."""

from __future__ import annotations

from enum import Enum
from typing import Final, Generic, TypeVar

import attrs

from ..protocol.interaction import Interaction
from .codec import BYTES, MessageCodec
from .wire.envelopes import Request, encode_request

__all__ = ["INTERACTIONS", "Method", "MethodKind", "Req", "Res"]

Req = TypeVar("Req")
Res = TypeVar("Res")


class MethodKind(Enum):
    """How many messages each side of a call sends (PROTOCOL.md, "Streaming")."""

    UNARY = "unary"
    SERVER_STREAM = "server_stream"
    CLIENT_STREAM = "client_stream"
    BIDI_STREAM = "bidi_stream"

    @property
    def sends_stream(self) -> bool:
        """Whether the client sends any number of messages."""
        return self in {MethodKind.CLIENT_STREAM, MethodKind.BIDI_STREAM}

    @property
    def receives_stream(self) -> bool:
        """Whether the client receives any number of messages."""
        return self in {MethodKind.SERVER_STREAM, MethodKind.BIDI_STREAM}


INTERACTIONS: Final = {
    MethodKind.UNARY: Interaction.REQUEST_RESPONSE,
    MethodKind.SERVER_STREAM: Interaction.REQUEST_STREAM,
    MethodKind.CLIENT_STREAM: Interaction.REQUEST_CHANNEL,
    MethodKind.BIDI_STREAM: Interaction.REQUEST_CHANNEL,
}
"""What RSocket calls them; it has no stream of requests with one answer."""


@attrs.frozen(eq=False)
class Method(Generic[Req, Res]):
    """One method of a service, for both ends.

    Attributes:
        service: The full name of the service, e.g. ``containerd.task.v2.Task``.
        name: The name of the method, e.g. ``State``.
        kind: How many messages each side sends.
        request: The codec of the client's messages.
        response: The codec of the server's messages.
        head: The first bytes of the body of each request: service and method.

    Raises:
        TypeError: ``kind`` is no `MethodKind`, or a codec is none.
    """

    service: str
    name: str
    kind: MethodKind
    request: MessageCodec[Req]
    response: MessageCodec[Res]
    head: bytes = attrs.field(init=False, repr=False)

    @head.default
    def _encode_head(self) -> bytes:
        return encode_request(Request(self.service, self.name))

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.kind, MethodKind):
            raise TypeError(f"kind must be a MethodKind, not {self.kind!r}")
        for codec in (self.request, self.response):
            if not isinstance(codec, MessageCodec):
                raise TypeError(
                    f"request and response must be codecs, not {codec!r}: codec_for(Class) makes "
                    "one"
                )

    @property
    def path(self) -> str:
        """``/package.Service/Method``, for people and logs."""
        return f"/{self.service}/{self.name}"

    @classmethod
    def raw(
        cls, service: str, name: str, kind: MethodKind = MethodKind.UNARY
    ) -> Method[bytes, bytes]:
        """Return a method whose messages are bytes."""
        return Method(service, name, kind, BYTES, BYTES)
