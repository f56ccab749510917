"""Settings of a connection: `ConnectionConfig` and `Limits`.

Each limit has a name, a default and a reason, and a test with a hostile peer checks it. Times are
in seconds (float), sizes in bytes.
"""

from __future__ import annotations

from typing import Final

import attrs

from .field_checks import (
    COUNT,
    FLAG,
    SECONDS,
    check_order,
    instance_of,
    largest,
    number,
    smallest,
    whole,
)

__all__ = ["DEFAULT_LIMITS", "ConnectionConfig", "Limits", "check_config"]

MAX_FRAME_SIZE: Final = 0xFFFFFF
"""The largest frame of the protocol, on any transport (Protocol.md, "Framing Format")."""

MIN_FRAGMENT_SIZE: Final = 64
"""The smallest fragment size rsocket-java accepts (Protocol.md leaves it open)."""


_frame_size = whole(MIN_FRAGMENT_SIZE, MAX_FRAME_SIZE)
_milliseconds = number(above=0, at_most=(2**31 - 1) / 1000)


@attrs.frozen(kw_only=True)
class Limits:
    """The memory and time that one peer may take from us.

    Limits that contradict one another are a `ValueError`.

    Attributes:
        max_frame_size: A frame longer than this closes the connection before it is read, in
            bytes. The protocol's own maximum by default.
        max_payload_size: A payload reassembled from fragments may hold this many bytes of data
            and metadata; a longer one ends its stream. Without a limit a peer could send
            fragments without end. 64 MiB: four of the largest frames.
        max_reassembly_size: All the payloads that one connection reassembles at the same time, in
            bytes. The request or stream that goes past it ends. 128 MiB.
        max_setup_size: Metadata and data of a SETUP together, in bytes; a client that announces
            more is refused with REJECTED_SETUP, before it is read. A SETUP comes from a stranger,
            and so many bytes may be kept for each. 256 KiB: tickets and tokens have a few KiB, the
            largest 64.
        max_metadata_size: Metadata of one request, or of one METADATA_PUSH, in bytes. They are
            read before a handler is chosen, also if there is no handler. A request with more is
            answered with INVALID, a METADATA_PUSH is dropped. 1 MiB: HTTP servers take 8 to 64 KiB.
        max_metadata_entries: Entries of composite metadata that are read. An entry costs the
            peer four bytes and us the time to skip it. Reading past this many raises
            `MetadataTooLarge`: a request is answered with INVALID then, and a SETUP with
            REJECTED_SETUP. 128: a request has a handful.
        max_routing_tags: Tags of routing metadata that are read, as for entries: a tag costs at
            least one byte. 64: most requests have one.
        max_route_variable_size: Bytes of UTF-8 in a variable of a route, such as ``{room}``. A
            request with more is answered with INVALID. 255: a route has no more, so this refuses
            nothing until you lower it.
        max_accept_types: MIME types of an accept-mime-types entry that are read, as for entries.
            A `Router` chooses the type of its answer among this many, and ignores the rest. 64:
            all the well-known types, and some more.
        max_active_requests: Requests of the peer that may wait or be answered at once; one more is
            answered with REJECTED. Each costs a task once its handler waits. 16384.
        max_requests_size: The payloads of the peer's requests that are waiting or being answered,
            in bytes; a request that goes past it is answered with REJECTED, unless it is the only
            one. A handler that waits keeps its request in memory. 128 MiB.
        max_unread_size: Payloads of all streams that have arrived and are not received yet, in
            bytes. Each counts 64 bytes more than its contents, as empty ones cost memory too.
            Credit counts the items of one stream, so it does not limit memory by itself. The
            stream that goes past this ends with an error. 256 MiB: a window of 256 with 1 MiB in
            each item.
        max_unread_body_size: Fragments of one payload that is read while it arrives
            (`PayloadBody`), in bytes. There is no demand within a payload, so a payload that
            arrives faster than it is read ends with an error here. 64 MiB, as
            ``max_payload_size``: a payload that fits as a whole can be read at any speed.
        max_prefetch: The largest window a stream of ours may open with, in items: the peer can
            make that many items wait in our memory. 65536.
        max_outbox_size: Bytes queued to be sent before producers wait. Large enough to keep a
            socket busy, small enough that a KEEPALIVE does not wait long behind it. 256 KiB.
        max_answers_size: Answers and items of handlers that wait for that room, or for credit, in
            bytes, each with its whole payload and 64 bytes more. No request begins while one waits
            for room, but those that run end, each with an answer, and a peer that reads nothing
            could have 16384 of them kept. Of a stream without credit one item is there, which shows
            that the stream goes on. The request whose answer or item goes past the limit ends with
            CANCELED, unless it is the only one that waits. 256 MiB, as ``max_unread_size``.
        max_control_size: Bytes of answers that may not wait (ERROR, CANCEL, REQUEST_N,
            KEEPALIVE), queued for a peer that does not read. Past it, requests of the peer do not
            begin until the peer reads. 1 MiB.
        max_unsent_control_size: Bytes of the same answers. Past it the connection ends. We go on
            reading until then: two ends that each wait for the other to read would wait without
            end. 1.5 MiB: sixty thousand refusals, several times the requests a peer may have open
            (``max_active_requests``); ``max_control_size`` if that is more.
        max_client_lifetime: A server treats a client as dead after this much silence, in seconds,
            even if its SETUP asks for more. A client that vanishes without a word holds its
            resources here for that long, and a SETUP may say 24 days. A longer time is not
            refused: many clients send one to say "no limit", and work well with less. 900 s, more
            than any known implementation asks for by default.
    """

    max_frame_size: int = attrs.field(default=MAX_FRAME_SIZE, validator=_frame_size)
    max_payload_size: int = attrs.field(default=64 * 2**20, validator=COUNT)
    max_reassembly_size: int = attrs.field(default=128 * 2**20, validator=COUNT)
    max_setup_size: int = attrs.field(default=256 * 2**10, validator=COUNT)
    max_metadata_size: int = attrs.field(default=2**20, validator=COUNT)
    max_metadata_entries: int = attrs.field(default=128, validator=COUNT)
    max_routing_tags: int = attrs.field(default=64, validator=COUNT)
    max_route_variable_size: int = attrs.field(default=255, validator=COUNT)
    max_accept_types: int = attrs.field(default=64, validator=COUNT)
    max_active_requests: int = attrs.field(default=16384, validator=COUNT)
    max_requests_size: int = attrs.field(default=128 * 2**20, validator=COUNT)
    max_unread_size: int = attrs.field(default=256 * 2**20, validator=COUNT)
    max_unread_body_size: int = attrs.field(default=64 * 2**20, validator=COUNT)
    max_prefetch: int = attrs.field(default=65536, validator=whole(1, 2**31 - 1))
    max_outbox_size: int = attrs.field(default=256 * 2**10, validator=COUNT)
    max_answers_size: int = attrs.field(default=256 * 2**20, validator=COUNT)
    max_control_size: int = attrs.field(default=2**20, validator=COUNT)
    max_unsent_control_size: int = attrs.field(validator=COUNT)
    max_client_lifetime: float = attrs.field(default=900.0, validator=_milliseconds)

    @max_unsent_control_size.default
    def _default_unsent_control_size(self) -> int:
        return largest(3 * 2**19, self.max_control_size)

    def __attrs_post_init__(self) -> None:
        check_order(
            self,
            "max_control_size",
            "max_unsent_control_size",
            "the connection would end before requests wait",
        )


DEFAULT_LIMITS: Final = Limits()
"""The limits for metadata that are read without a connection."""


@attrs.frozen(kw_only=True)
class ConnectionConfig:
    """How a connection behaves. The defaults suit most programs.

    Attributes:
        keepalive_interval: A client sends a KEEPALIVE this often, in seconds. 20 s, as
            rsocket-java and rsocket-kotlin.
        max_lifetime: A peer silent for this long counts as dead, in seconds. A server uses the
            time in the client's SETUP, up to ``limits.max_client_lifetime``. 90 s, as the same two
            libraries. An idle connection dies if this is not longer than ``keepalive_interval``.
        setup_timeout: A server waits this long for the TLS or WebSocket handshake, again for the
            first frame, and again for its acceptor. A client waits this long for those
            handshakes, and again for its SETUP to be acknowledged. In seconds. Idle sockets cost
            file descriptors. 10 s.
        close_timeout: How long a close may wait for the last frames to leave, in seconds. 5 s.
        confirm_setup: A client sends a KEEPALIVE right behind SETUP and enters its block when the
            server has answered it, so that a refusal is an exception of `connect`: SETUP has no
            acknowledgement of its own. Switch it off for servers that do not answer KEEPALIVE.
        limits: The memory and time that one peer may take from us.
        fragment_size: Frames longer than this are sent as fragments, in bytes without the length
            prefix; at least 64. 64 KiB: a large payload then shares the connection with others.
            The default is not above ``limits.max_frame_size``: we do not send larger frames than
            we accept.
        prefetch: Items a stream of ours may have on the way or unread, unless the call says
            otherwise; at most ``limits.max_prefetch``. 256, or that limit if it is less.
    """

    keepalive_interval: float = attrs.field(default=20.0, validator=_milliseconds)
    max_lifetime: float = attrs.field(default=90.0, validator=_milliseconds)
    setup_timeout: float = attrs.field(default=10.0, validator=SECONDS)
    close_timeout: float = attrs.field(default=5.0, validator=SECONDS)
    confirm_setup: bool = attrs.field(default=True, validator=FLAG)
    limits: Limits = attrs.field(factory=Limits, validator=instance_of(Limits))
    fragment_size: int = attrs.field(validator=_frame_size)
    prefetch: int = attrs.field(validator=COUNT)

    @fragment_size.default
    def _default_fragment_size(self) -> int:
        return smallest(64 * 2**10, getattr(self.limits, "max_frame_size", None))

    @prefetch.default
    def _default_prefetch(self) -> int:
        return smallest(256, getattr(self.limits, "max_prefetch", None))

    @prefetch.validator
    def _check_prefetch(self, _attribute: attrs.Attribute[int], prefetch: int) -> None:
        if prefetch > self.limits.max_prefetch:
            raise ValueError(
                f"prefetch is {prefetch}, above limits.max_prefetch ({self.limits.max_prefetch}): "
                "raise the limit, or lower prefetch"
            )


def check_config(config: object) -> None:
    """Check the type of ``config=`` before a connection is opened.

    Raises:
        TypeError: It is not a `ConnectionConfig`.
    """
    if not isinstance(config, ConnectionConfig):
        raise TypeError(f"config must be a ConnectionConfig, not {type(config).__name__}")
